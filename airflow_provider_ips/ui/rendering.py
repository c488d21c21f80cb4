"""How pages are rendered: templates, what they call, and what the browser is allowed.

A page shows names that other people chose, so templates escape everything, and the browser runs no script and follows
no style but ours, which it knows by their hashes.
"""

from __future__ import annotations

import hashlib
import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from airflow_provider_ips.core.positions import format_time
from airflow_provider_ips.core.record import Kind, Volume
from airflow_provider_ips.core.requests.request import RunRequest
from airflow_provider_ips.core.results.capture_record import CaptureContext
from airflow_provider_ips.runs import reports
from airflow_provider_ips.ui import urls

_TEMPLATES: Final = Path(__file__).parent / "templates"
_UNKNOWN: Final = "unknown"
_KINDS: Final = {
    Kind.RANGE: "what was added since the last commit",
    Kind.FULL: "all live files of the table",
    Kind.RESYNC: "the live files newer than the last commit",
    Kind.EMPTY: "nothing: the table gained no rows",
}
_SHOWN_ELSEWHERE: Final = ("run", "asked", "detached", "replayed", "settled")
"""Keys of the record's ``requested`` that are not listed among the settings."""


def render(template: str, *, status: HTTPStatus = HTTPStatus.OK, **values: Any) -> HTMLResponse:
    """Answer with a page. One whose data cannot be shown, such as a time in no calendar, is an error of its own."""
    style, script = _text("page.css"), _text("page.js")
    html = environment().get_template(template).render(style=style, script=script, **values)
    return HTMLResponse(html, status_code=status, headers=_headers(style, script))


def render_part(template: str, **values: Any) -> Markup:
    """Render a part of a page by itself."""
    return Markup(environment().get_template(template).render(**values))  # noqa: S704 - the template escapes


def compile_templates() -> None:
    """Compile all templates now, and not when somebody waits for a page."""
    for name in environment().list_templates(extensions=["html"]):
        environment().get_template(name)


@cache
def environment() -> Environment:
    """Set up the templates once."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= _FILTERS
    made.globals |= {"KINDS": _KINDS, "USUAL": RunRequest(), "urls": urls, "now_ms": lambda: int(time.time() * 1000)}
    return made


@cache
def _text(name: str) -> str:
    return (_TEMPLATES / name).read_text()


def _headers(style: str, script: str) -> dict[str, str]:
    return {
        "Content-Security-Policy": f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'self'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


@cache
def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _number(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _size(value: int | None) -> str:
    return _UNKNOWN if value is None else reports.size(value)


def _time(milliseconds: int | None) -> Markup:
    """Write a time in UTC; the script shows it in the time zone that Airflow is set to."""
    if milliseconds is None:
        return Markup.escape(_UNKNOWN)
    shown = format_time(milliseconds)
    if not shown.endswith("Z"):
        return Markup.escape(shown)
    return Markup('<time datetime="{}">{} UTC</time>').format(shown, shown[:-1].replace("T", " "))


def _iso_time(text: str) -> Markup:
    """Write a time that is given as text; any other text is shown as it is."""
    try:
        return _time(int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        return Markup.escape(text)


_STEPS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def _duration(seconds: float | None) -> str:
    """Put a duration in words with its two largest units: ``2 d 5 h``."""
    if seconds is None:
        return _UNKNOWN
    whole = max(int(seconds), 0)
    for (step, unit), (smaller, smaller_unit) in pairwise(_STEPS):
        if whole >= step:
            rest = whole % step // smaller
            return f"{whole // step} {unit} {rest} {smaller_unit}" if rest else f"{whole // step} {unit}"
    return f"{whole} s"


def _avoided(whole: Volume, captured: Volume) -> str:
    """Put in words how much of a table need not be read."""
    if whole.size_bytes is None or captured.size_bytes is None:
        return _UNKNOWN
    saved = max(whole.size_bytes - captured.size_bytes, 0)
    return f"{_size(saved)} ({100 * saved / whole.size_bytes:.1f} %)" if whole.size_bytes else _size(saved)


def _facts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """List names and values, without what is not set."""
    for name, value in values.items():
        if value not in (None, False, "", [], {}):
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield str(name).replace("_", " "), shown


def _settings(context: CaptureContext) -> Iterator[tuple[str, str]]:
    return _facts({name: value for name, value in context.to_json().items() if name not in _SHOWN_ELSEWHERE})


def _heights(values: Sequence[int | None], height: float, top: float | None = None) -> list[float | None]:
    """Scale numbers to the height of a chart, the largest one to all of it; what is unknown stays unknown."""
    largest = top or max((value for value in values if value is not None), default=0) or 1
    return [None if value is None else round(min(value / largest, 1) * height, 1) for value in values]


@lru_cache(maxsize=2048)
def _columns(values: tuple[int | None, ...], *, step: int, width: int, height: int) -> str:
    """Draw numbers as columns that are at least one pixel high: one path, for a page with a thousand such charts."""
    tall = ((at, max(value or 0, 1)) for at, value in enumerate(_heights(values, height)))
    return "".join(f"M{at * step} {height}v-{value:g}h{width}v{value:g}" for at, value in tall)


_FILTERS: Final[Mapping[str, Callable[..., object]]] = {
    "number": _number,
    "size": _size,
    "time": _time,
    "iso_time": _iso_time,
    "duration": _duration,
    "total": Volume.total,
    "without": _avoided,
    "facts": _facts,
    "settings": _settings,
    "in_engine": reports.engine_name,
    "heights": _heights,
    "sentence": lambda text: text[:1].upper() + text[1:],
    "columns": _columns,
}
