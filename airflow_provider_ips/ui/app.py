"""The web app that Airflow mounts at `/ips`: its routes and who may call them.

Airflow mounts a plugin's app without checking who calls it. So every route here depends on Airflow's own check, there
are no routes but these (FastAPI's documentation is off), and a test calls each of them without a login and without
rights.
"""

from __future__ import annotations

from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep  # noqa: TC002 - FastAPI reads it
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import configure_mappers
from starlette.exceptions import HTTPException

from airflow_provider_ips.iceberg.gc_pause import gc_paused
from airflow_provider_ips.maintenance.task import DAG_ID
from airflow_provider_ips.ui import urls
from airflow_provider_ips.ui.actions import ACTIONS, GC, LOOK, WATCH_DAG, FormDep, check_token
from airflow_provider_ips.ui.capture_page import find_captures_of_task
from airflow_provider_ips.ui.consumers import find_consumers, in_full, list_captures, list_tables
from airflow_provider_ips.ui.deployment import read_deployment, read_tables
from airflow_provider_ips.ui.desk import Desk
from airflow_provider_ips.ui.rendering import compile_templates, render
from airflow_provider_ips.ui.rights import may_trigger, permitted
from airflow_provider_ips.ui.stages import find_backfills, find_edges, place_stages
from airflow_provider_ips.ui.states import STATES
from airflow_provider_ips.ui.stored_runs import read_captures_of
from airflow_provider_ips.ui.tables import commit_lines, list_tables_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
    from sqlalchemy.orm import Session


LARGEST_MAP_INDEX: Final = 2**31 - 1
MOST_CHUNKS_READ: Final = 1100
"""More than Airflow maps by default, so that the newest backfill is there with all its chunks."""

_REFUSALS: Final = {
    HTTPStatus.UNAUTHORIZED: ("Log in first", "This page shows what a DAG has processed, to people who may read it."),
    HTTPStatus.FORBIDDEN: (
        "You may not read this",
        "It needs the right to read the XComs of its DAG, an action that to edit it. An administrator can grant it.",
    ),
    HTTPStatus.NOT_FOUND: ("There is no such page", "Start at the overview, or follow a link on a capture or commit."),
    HTTPStatus.UNPROCESSABLE_ENTITY: (
        "This address is not valid",
        "map_index is a whole number. Follow the link “Capture record” on a capture or commit task.",
    ),
}


def create_app() -> FastAPI:
    """Create the app that Airflow mounts, with what the first answer would else spend half a second on."""
    configure_mappers()
    compile_templates()
    app = FastAPI(title="Incremental Processing Support", openapi_url=None, docs_url=None, redoc_url=None)
    show_dag = Depends(requires_access_dag("GET", DagAccessEntity.RUN))
    show_xcoms = Depends(requires_access_dag("GET", DagAccessEntity.XCOM))
    _add(app, "/", show_overview, show_dag)
    _add(app, "/dags/{dag_id}", show_dag_tab, show_dag)
    _add(app, "/dags/{dag_id}/tasks/{task_id}", show_dag_tab, show_dag)
    _add(app, "/consumers/{dag_id}", show_consumer, show_xcoms)
    _add(app, "/tables", show_tables, show_dag)
    _add(app, "/tables/{dag_id}", show_table, show_dag)
    _add(app, "/stages", show_stages, show_xcoms)
    edit_dag = Depends(requires_access_dag("PUT"))
    _add(app, "/consumers/{dag_id}/{action}", show_action, edit_dag)
    _add(app, "/consumers/{dag_id}/{action}", do_action, edit_dag, method="POST")
    start_maintenance = Depends(requires_access_dag("POST", DagAccessEntity.RUN, param_dag_id=DAG_ID))
    start_watch = Depends(requires_access_dag("POST", DagAccessEntity.RUN, param_dag_id=WATCH_DAG))
    _add(app, "/gc", show_gc, start_maintenance)
    _add(app, "/gc", do_gc, start_maintenance, method="POST")
    _add(app, "/look", show_look, start_watch)
    _add(app, "/look", do_look, start_watch, method="POST")
    _add(app, "/captures/{dag_id}/{run_id}/{task_id}", show_captures, show_xcoms)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _refused)
    return app


def _add(app: FastAPI, path: str, show: Callable[..., HTMLResponse], rights: Any, *, method: str = "GET") -> None:  # noqa: ANN401 - FastAPI's
    app.add_api_route(path, show, methods=[method], response_class=HTMLResponse, dependencies=[rights])


def show_overview(user: GetUserDep, session: SessionDep) -> HTMLResponse:
    """Show a row for each consumer that the reader may see."""
    with gc_paused():  # what is read stays: one collection over all of this server's modules takes half a second
        deployment = read_deployment(session)
        consumers = find_consumers(deployment, permitted(user, "GET", deployment.dag_ids))
        counts = Counter(each.state.word for each in consumers)
        words = [(state, counts[word]) for word, state in STATES.items() if counts[word]]
        also = Counter(word for each in consumers for word in each.also)
        shared = [action for action, target in ((LOOK, WATCH_DAG), (GC, DAG_ID)) if may_trigger(user, target)]
        return render(
            "overview.html", consumers=consumers, words=words, also=also, shared=shared, dag_id=None, task_id=None
        )


def show_dag_tab(dag_id: str, user: GetUserDep, session: SessionDep, task_id: str | None = None) -> HTMLResponse:
    """Show the consumers of one DAG, or of one of its tasks, in a tab of Airflow's page of it."""
    deployment = read_deployment(session)
    found = find_consumers(deployment, permitted(user, "GET", deployment.dag_ids))
    consumers = [each for each in found if dag_id in each.dag_ids and task_id in (None, each.task_id)]
    return render("overview.html", consumers=consumers, words=[], also={}, shared=[], dag_id=dag_id, task_id=task_id)


def show_consumer(dag_id: str, consumer: str, user: GetUserDep, session: SessionDep) -> HTMLResponse:
    """Show one consumer: its captures, its tables, who changed its checkpoint by hand, and what to do now."""
    deployment = read_deployment(session)
    may_read = permitted(user, "GET", deployment.dag_ids)
    found = (each for each in find_consumers(deployment, may_read) if each.name == consumer and dag_id in each.dag_ids)
    if (shown := next(found, None)) is None:
        return render("no_consumer.html", status=HTTPStatus.NOT_FOUND, consumer=consumer)
    shown = in_full(shown)
    captures = list_captures(session, shown, may_read)
    may_edit = permitted(user, "PUT", deployment.dag_ids)(shown.dag_ids)
    tables = list_tables(shown.checkpoint, () if shown.seen is None else shown.seen.held)
    actions = ACTIONS.values() if may_edit else ()
    return render("consumer.html", consumer=shown, captures=captures, tables=tables, actions=actions)


def show_tables(user: GetUserDep, session: SessionDep) -> HTMLResponse:
    """Show the sources of all consumers that the reader may see."""
    deployment = read_deployment(session)
    consumers = find_consumers(deployment, permitted(user, "GET", deployment.dag_ids))
    return render("tables.html", tables=list_tables_of(consumers, read_tables(session)))


def show_table(dag_id: str, table: str, user: GetUserDep, session: SessionDep) -> HTMLResponse:
    """Show the commits of a source, and who has processed each."""
    deployment = read_deployment(session)
    consumers = find_consumers(deployment, permitted(user, "GET", deployment.dag_ids))
    found = [each for each in list_tables_of(consumers, read_tables(session)) if each.label == table]
    shown = [each for each in found if any(dag_id in consumer.dag_ids for consumer in each.consumers)]
    if not shown:
        return render("no_consumer.html", status=HTTPStatus.NOT_FOUND, consumer=table)
    return render("table.html", label=table, tables=[(each, commit_lines(each)) for each in shown])


def show_stages(user: GetUserDep, session: SessionDep) -> HTMLResponse:
    """Show how the DAGs that the reader may see feed each other, and how far backfills have come in them."""
    deployment = read_deployment(session)
    consumers = find_consumers(deployment, permitted(user, "GET", deployment.dag_ids))
    edges = find_edges(consumers)
    dag_ids = {dag_id for each in consumers for dag_id in each.dag_ids}
    chunks = read_captures_of(session, dag_ids, containing='"chunk"', limit=MOST_CHUNKS_READ)
    backfills = find_backfills(chunks, edges, list_tables_of(consumers, read_tables(session)))
    return render("stages.html", stages=place_stages(consumers, edges), edges=edges, backfills=backfills)


def show_action(dag_id: str, action: str, consumer: str, user: GetUserDep, session: SessionDep) -> HTMLResponse:
    """Show what an action will do to a consumer, and its form."""
    desk = _desk(session, user, dag_id, consumer, action)
    return render("no_consumer.html", status=HTTPStatus.NOT_FOUND, consumer=consumer) if desk is None else desk.show()


def do_action(
    dag_id: str, action: str, consumer: str, form: FormDep, user: GetUserDep, session: SessionDep
) -> HTMLResponse:
    """Preview an action on a consumer, or do it."""
    check_token(form, user)
    desk = _desk(session, user, dag_id, consumer, action)
    if desk is None:
        return render("no_consumer.html", status=HTTPStatus.NOT_FOUND, consumer=consumer)
    return desk.answer(form)


def _desk(session: Session, user: BaseUser, dag_id: str, name: str, action: str) -> Desk | None:
    """Find the consumer, among those whose DAGs the user may all edit."""
    deployment = read_deployment(session)
    found = find_consumers(deployment, permitted(user, "PUT", deployment.dag_ids))
    consumer = next((each for each in found if each.name == name and dag_id in each.dag_ids), None)
    if consumer is None or action not in ACTIONS:
        return None
    return Desk(session=session, user=user, deployment=deployment, action=ACTIONS[action], consumer=in_full(consumer))


def show_gc(user: GetUserDep, session: SessionDep) -> HTMLResponse:
    """Show what a clean-up will do, and its form."""
    return Desk(session=session, user=user, deployment=read_deployment(session), action=GC).show()


def do_gc(form: FormDep, user: GetUserDep, session: SessionDep) -> HTMLResponse:
    """Preview a clean-up, or do it."""
    check_token(form, user)
    return Desk(session=session, user=user, deployment=read_deployment(session), action=GC).answer(form)


def show_look(user: GetUserDep, session: SessionDep) -> HTMLResponse:
    """Show how all sources are looked at now."""
    return Desk(session=session, user=user, deployment=read_deployment(session), action=LOOK).show()


def do_look(form: FormDep, user: GetUserDep, session: SessionDep) -> HTMLResponse:
    """Have all sources looked at now."""
    check_token(form, user)
    return Desk(session=session, user=user, deployment=read_deployment(session), action=LOOK).answer(form)


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
        user=user,
    )
    names: dict[str, Any] = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id}
    if not pages:
        return render("missing.html", status=HTTPStatus.NOT_FOUND, **names)
    return render("captures.html", pages=pages, **names)


async def _refused(request: Request, error: Exception) -> HTMLResponse:
    """Answer with a page and the same status, because people get here by a link. An invalid address has none yet."""
    status = HTTPStatus(getattr(error, "status_code", HTTPStatus.UNPROCESSABLE_ENTITY))
    title, text = _REFUSALS.get(status, (status.phrase, "The log of Airflow's API server has the details."))
    back_to = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    login = urls.login_page(back_to) if status is HTTPStatus.UNAUTHORIZED else ""
    return render("refused.html", status=status, title=title, text=text, login=login)
