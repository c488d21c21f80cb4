"""The pages, and who may see them.

Airflow mounts a plugin's app without asking who calls. So every route here depends on Airflow's own check, there are no
routes but these (FastAPI's documentation is off), and a test calls each of them without a login and without rights.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep  # noqa: TC002 - FastAPI reads it
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from airflow_provider_ips.links import _urls
from airflow_provider_ips.plugins import _render
from airflow_provider_ips.plugins._found import find

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

LARGEST_MAP_INDEX = 2**31 - 1


def create_app() -> FastAPI:
    """Make the app that Airflow mounts at ``/ips``."""
    app = FastAPI(title="Incremental Processing Support", openapi_url=None, docs_url=None, redoc_url=None)
    app.add_api_route(
        "/captures/{dag_id}/{run_id}/{task_id}",
        show_captures,
        methods=["GET"],
        response_class=HTMLResponse,
        dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.XCOM))],
    )
    app.add_exception_handler(HTTPException, _say_why)
    app.add_exception_handler(RequestValidationError, _say_what_is_wrong)
    return app


def show_captures(
    dag_id: str,
    run_id: str,
    task_id: str,
    user: GetUserDep,
    session: SessionDep,
    map_index: Annotated[int | None, Query(ge=-1, le=LARGEST_MAP_INDEX)] = None,
) -> HTMLResponse:
    """Tell what a capture task took in one run, and what became of it."""
    pages = find(
        session,
        dag_id=dag_id,
        run_id=run_id,
        task_id=task_id,
        map_index=map_index,
        may_see=lambda other: other == dag_id or _may_see_runs(user, other),
    )
    if not pages:
        return _render.no_record(dag_id, run_id, task_id)
    return _render.captures(dag_id, run_id, task_id, pages)


def _may_see_runs(user: BaseUser, dag_id: str) -> bool:
    """A consumer may be shared by DAGs whose readers differ."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(
        method="GET", access_entity=DagAccessEntity.RUN, details=details, user=user
    )


async def _say_why(request: Request, error: Exception) -> HTMLResponse:
    """People get here by a link: say it in a page, and keep the status."""
    status = getattr(error, "status_code", HTTPStatus.INTERNAL_SERVER_ERROR)
    back_to = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return _render.refused(HTTPStatus(status), login=_urls.login_page(back_to))


async def _say_what_is_wrong(_: Request, __: Exception) -> HTMLResponse:
    return _render.refused(HTTPStatus.UNPROCESSABLE_ENTITY, login="")
