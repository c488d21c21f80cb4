"""The web app that Airflow mounts at `/ips`: its one route, who may see it, and how pages are rendered.

Airflow mounts a plugin's app without checking who calls it. So every route here depends on Airflow's own check, there
are no routes but these (FastAPI's documentation is off), and a test calls each of them without a login and without
rights.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep  # noqa: TC002 - FastAPI reads it
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.exceptions import HTTPException

from airflow_provider_ips.core.positions import format_time
from airflow_provider_ips.core.record import Kind, Volume
from airflow_provider_ips.core.requests.request import RunRequest
from airflow_provider_ips.core.results.capture_record import CaptureContext
from airflow_provider_ips.runs import reports
from airflow_provider_ips.ui import urls
from airflow_provider_ips.ui.capture_page import CapturePage, find_captures_of_task

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser


LARGEST_MAP_INDEX: Final = 2**31 - 1

_TEMPLATES: Final = Path(__file__).parent / "templates"
_REFUSALS: Final = {
    HTTPStatus.UNAUTHORIZED: ("Log in first", "This page shows what a DAG has processed, to people who may read it."),
    HTTPStatus.FORBIDDEN: (
        "You may not read this",
        "You need permission to read the XComs of its DAG. An administrator of this Airflow can grant it.",
    ),
    HTTPStatus.NOT_FOUND: ("There is no such page", "Follow the link “Capture record” on a capture or commit task."),
    HTTPStatus.UNPROCESSABLE_ENTITY: (
        "This address is not valid",
        "map_index is a whole number. Follow the link “Capture record” on a capture or commit task.",
    ),
}


def create_app() -> FastAPI:
    """Create the app that Airflow mounts."""
    app = FastAPI(title="Incremental Processing Support", openapi_url=None, docs_url=None, redoc_url=None)
    app.add_api_route(
        "/captures/{dag_id}/{run_id}/{task_id}",
        show_captures,
        methods=["GET"],
        response_class=HTMLResponse,
        dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.XCOM))],
    )
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _refused)
    return app


def show_captures(
    dag_id: str,
    run_id: str,
    task_id: str,
    user: GetUserDep,
    session: SessionDep,
    map_index: Annotated[int | None, Query(ge=-1, le=LARGEST_MAP_INDEX)] = None,
) -> HTMLResponse:
    """Show what a capture task captured in one run, and what became of it."""
    pages = find_captures_of_task(
        session,
        dag_id=dag_id,
        run_id=run_id,
        task_id=task_id,
        map_index=map_index,
        may_see=lambda other: other == dag_id or _may_see_runs(user, other),
    )
    names: dict[str, Any] = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "urls": urls}
    if not pages:
        return _render("missing.html", status=HTTPStatus.NOT_FOUND, **names)
    return _render("captures.html", pages=[_with_html(page) for page in pages], **names)


def _with_html(page: CapturePage) -> CapturePage:
    """Render one capture by itself: a damaged record may hold what cannot be shown, such as a time in no calendar."""
    template = _environment().get_template("capture.html")
    try:
        return replace(page, html=Markup(template.render(page=page)))  # noqa: S704 - the template escapes
    except (ArithmeticError, OSError, ValueError) as error:
        unreadable = replace(page, record=None, unreadable=str(error))
        return replace(unreadable, html=Markup(template.render(page=unreadable)))  # noqa: S704 - likewise


def _may_see_runs(user: BaseUser, dag_id: str) -> bool:
    """Whether the user may see the runs of another DAG: DAGs with different readers may share a consumer."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(
        method="GET", access_entity=DagAccessEntity.RUN, details=details, user=user
    )


async def _refused(request: Request, error: Exception) -> HTMLResponse:
    """Answer with a page and the same status, because people get here by a link. An invalid address has none yet."""
    status = HTTPStatus(getattr(error, "status_code", HTTPStatus.UNPROCESSABLE_ENTITY))
    title, text = _REFUSALS.get(status, (status.phrase, "The log of Airflow's API server has the details."))
    back_to = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    login = urls.login_page(back_to) if status is HTTPStatus.UNAUTHORIZED else ""
    return _render("refused.html", status=status, title=title, text=text, login=login)


def _render(template: str, *, status: HTTPStatus = HTTPStatus.OK, **values: Any) -> HTMLResponse:
    style = _style()
    html = _environment().get_template(template).render(style=style, **values)
    return HTMLResponse(html, status_code=status, headers=_headers(style))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= _FILTERS
    environment.globals |= {"KINDS": _KINDS, "USUAL": RunRequest()}
    return environment


@cache
def _style() -> str:
    return (_TEMPLATES / "page.css").read_text()


def _headers(style: str) -> dict[str, str]:
    """Allow the browser nothing but this style: a page shows names that other people chose."""
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return {
        "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'self'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


_UNKNOWN: Final = "unknown"
_KINDS: Final = {
    Kind.RANGE: "what was added since the last commit",
    Kind.FULL: "all live files of the table",
    Kind.RESYNC: "the live files newer than the last commit",
    Kind.EMPTY: "nothing: the table gained no rows",
}
_SHOWN_ELSEWHERE: Final = ("run", "asked", "detached", "replayed", "settled")
"""Keys of the record's ``requested`` that are not listed among the settings."""


def _number(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _size(value: int | None) -> str:
    return _UNKNOWN if value is None else reports.size(value)


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


_FILTERS: Final[Mapping[str, Callable[..., object]]] = {
    "number": _number,
    "size": _size,
    "time": format_time,
    "total": Volume.total,
    "without": _avoided,
    "facts": _facts,
    "settings": _settings,
    "in_engine": reports.engine_name,
}
