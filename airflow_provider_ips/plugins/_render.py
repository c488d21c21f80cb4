"""Pages as HTML. Names of tables, runs and columns are other people's words: the templates escape all of them.

Nothing is loaded from anywhere, no script runs, and the response's headers forbid both, so that a page stays what it is
even if a word should slip through unescaped.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from airflow_provider_ips.links import _urls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_ips.plugins._found import CapturePage

_TEMPLATES: Final = Path(__file__).parent / "templates"
_REFUSALS: Final = {
    HTTPStatus.UNAUTHORIZED: ("Log in first", "This page shows what a DAG has processed, to people who may read it."),
    HTTPStatus.FORBIDDEN: (
        "You may not read this",
        "It takes the right to read the XComs of this DAG. Whoever administers this Airflow can give it to you.",
    ),
    HTTPStatus.NOT_FOUND: ("There is no such page", "Follow the link “Capture record” on a capture or commit task."),
    HTTPStatus.UNPROCESSABLE_ENTITY: (
        "This address cannot be right",
        "map_index is a whole number. Follow the link “Capture record” on a capture or commit task.",
    ),
}


def captures(dag_id: str, run_id: str, task_id: str, pages: Sequence[CapturePage]) -> HTMLResponse:
    """Show what a task has captured in a run."""
    return _page("captures.html", dag_id=dag_id, run_id=run_id, task_id=task_id, pages=pages, urls=_urls)


def no_record(dag_id: str, run_id: str, task_id: str) -> HTMLResponse:
    """Say why there may be none, and where to look."""
    return _page("missing.html", status=HTTPStatus.NOT_FOUND, dag_id=dag_id, run_id=run_id, task_id=task_id, urls=_urls)


def refused(status: HTTPStatus, *, login: str) -> HTMLResponse:
    """Say why not."""
    title, words = _REFUSALS.get(status, (status.phrase, "Airflow's log of the API server says more."))
    shown = login if status is HTTPStatus.UNAUTHORIZED else ""
    return _page("refused.html", status=status, title=title, words=words, login=shown)


def _page(template: str, *, status: HTTPStatus = HTTPStatus.OK, **facts: Any) -> HTMLResponse:
    style = _style()
    html = _environment().get_template(template).render(style=style, **facts)
    return HTMLResponse(html, status_code=status, headers=_headers(style))


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _style() -> str:
    return (_TEMPLATES / "page.css").read_text()


def _headers(style: str) -> dict[str, str]:
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return {
        "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'self'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
