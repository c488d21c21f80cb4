"""What people change from the pages: the commands of `airflow ips`, previewed first and confirmed by a typed name.

A change of a checkpoint in a Variable is made here, as the command makes it. What has to reach a catalog is done by a
run of the maintenance DAG, because the API server has neither the connection nor the time.

A browser sends the login's cookie with a request of any site. So nothing is changed by GET, and a POST needs both: to
come from a page of this Airflow, as the browser says, and to bring the token that such a page had for this user.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import parse_qsl, urlsplit

from airflow.api.common.trigger_dag import trigger_dag
from airflow.configuration import conf
from airflow.models.log import Log
from airflow.utils.types import DagRunTriggeredByType
from fastapi import Depends, Request
from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.exceptions import HTTPException

from airflow_provider_ips.checkpoints.variable import ServerVariables
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.maintenance.console import Row
from airflow_provider_ips.maintenance.task import command_of

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
    from sqlalchemy.orm import Session

WATCH_DAG: Final = "ips_watch"
TOKEN_SECONDS: Final = 8 * 3600
LARGEST_FORM: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of an action's form: a text, a choice among captures or sources, or a tick."""

    name: str
    label: str
    kind: str = "text"
    help: str = ""


_CAPTURE: Final = Field(name="capture_id", label="Capture", kind="captures")
_SNAPSHOT: Final = Field(
    name="snapshot", label="Snapshot", help="A snapshot id: the last one that counts as processed."
)
_TIME: Final = Field(
    name="time", label="Time", help="ISO 8601 with its time zone: what was committed by then counts as processed."
)
_TABLE: Final = Field(name="table", label="Source table", kind="tables")
_BRANCH: Final = Field(name="branch", label="Branch", help="Empty: main.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something that a person can do to a consumer."""

    name: str
    title: str
    says: str
    """What it will do, and what it will not."""

    fields: tuple[Field, ...] = ()
    needs_catalog: bool = False
    place_fields: tuple[str, ...] = ()
    """Fields that have to be looked up in a catalog, if they are given."""

    has_preview: bool = True
    is_confirmed: bool = True
    """Whether a name has to be typed."""

    def must_run_as_dag(self, form: Mapping[str, str], *, is_in_variable: bool) -> bool:
        """Whether the API server cannot do it by itself."""
        return self.needs_catalog or not is_in_variable or any(form.get(name) for name in self.place_fields)


_LISTED: Final = (
    Action(
        name="rewind",
        title="Rewind",
        says="The checkpoint goes back to before a committed capture, or to a snapshot or time in one source. The next "
        "run processes everything since then again. Nothing is deleted, and the target keeps its rows: the job must be "
        "able to write rows twice.",
        fields=(_CAPTURE, _TABLE, _SNAPSHOT, _TIME),
        place_fields=("snapshot", "time"),
    ),
    Action(
        name="seed",
        title="Seed",
        says="Sets the first position in a source that has none: rows up to it count as processed.",
        fields=(
            _TABLE,
            _BRANCH,
            _SNAPSHOT,
            _TIME,
            Field(name="latest", label="Latest", kind="tick", help="Everything that is in the table now is processed."),
        ),
        needs_catalog=True,
    ),
    Action(
        name="reset",
        title="Reset",
        says="Forgets the position in one source, or in all. The next run starts where the capture's initial says: by "
        "default with all files. Rows that are in the target already are not known any more.",
        fields=(_TABLE,),
    ),
    Action(
        name="abandon",
        title="Abandon",
        says="Gives up the pending capture. The checkpoint stays, and the next run captures its rows again. "
        "If the run of the pending capture still commits, its commit fails.",
        fields=(
            Field(
                name="wrote_nothing",
                label="The job wrote nothing",
                kind="tick",
                help="Also forget what the job may have written. Only if the target is right as it is.",
            ),
        ),
    ),
    Action(
        name="replay",
        title="Replay",
        says="Captures the range of a committed capture again, as ICDC tables beside the usual runs. The checkpoint "
        "does not move. The run's log names the tables; gc drops them later.",
        fields=(_CAPTURE,),
        needs_catalog=True,
    ),
    Action(
        name="dry-run",
        title="Dry run",
        says="Starts a run of the DAG that counts what a capture would take, and reports it in its log and record. No "
        "table is created, nothing is committed, and downstream tasks are skipped.",
        needs_catalog=True,
        has_preview=False,
    ),
)
ACTIONS: Final[Mapping[str, Action]] = {action.name: action for action in _LISTED}

GC: Final = Action(
    name="gc",
    title="Clean up",
    says="Drops ICDC tables that no checkpoint needs, and deletes metadata files that no table references. No data "
    "file is deleted. It looks at the tables of all consumers.",
    fields=(
        Field(name="namespace", label="ICDC namespace", help="Empty: the configured one. It is what you type below."),
        Field(name="older_than_days", label="Older than days", help="Empty: 7."),
        Field(name="without_checkpoint", label="Also tables of consumers without a checkpoint", kind="tick"),
    ),
    needs_catalog=True,
)
LOOK: Final = Action(
    name="look",
    title="Look now",
    says="Starts a run of ips_watch, which looks at the sources of every consumer and writes down what it sees.",
    needs_catalog=True,
    has_preview=False,
    is_confirmed=False,
)


@dataclass(slots=True)
class PageConsole:
    """A page as the console of a command: it shows the result, and the confirmation was typed into its form."""

    user: str
    confirmation: str = ""
    rows: list[Row] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    variables: ServerVariables = field(default_factory=ServerVariables)
    shows_documents: bool = False

    def show(self, rows: Sequence[Row]) -> None:
        self.rows.extend(rows)

    def show_document(self, document: Mapping[str, Any]) -> None:
        self.remarks.append(json.dumps(document))

    def say(self, text: str) -> None:
        self.remarks.append(text)

    def read_confirmation(self, word: str, *, what: str) -> str:  # noqa: ARG002 - the page said both
        return self.confirmation


def run_here(action: Action, form: Mapping[str, str], *, consumer: str, user: str, is_dry: bool) -> PageConsole:
    """Do to a checkpoint in a Variable what the command does, or show what that would be."""
    console = PageConsole(user=user, confirmation=form.get("confirm", ""))
    run, options = command_of(
        action.name, {**_options(action, form), "consumer": consumer, "dry_run": is_dry, "store": "variable"}
    )
    run(console, options)
    return console


def start_run(action: Action, form: Mapping[str, str], *, dag_id: str, context: Mapping[str, Any], user: str) -> str:
    """Start a run that does it, in the name of the user, and return its id."""
    command = {"command": action.name, **_options(action, form), **context}
    requests: dict[str, dict[str, Any]] = {"dry-run": {"ips_dry_run": True}, "look": {}}
    try:
        run = trigger_dag(
            dag_id=dag_id,
            triggered_by=DagRunTriggeredByType.UI,
            triggering_user_name=user,
            conf=requests.get(action.name, command),
        )
    except ValueError as error:
        raise InputError(
            f"DAG {dag_id!r} refused the request: {error}",
            consequence="No run was started",
            remedy="correct the form; the DAG's trigger form in Airflow describes each value",
        ) from error
    if run is None:
        raise InputError(
            f"DAG {dag_id!r} started no run", consequence="Nothing was done", remedy="look at the DAG in Airflow"
        )
    return run.run_id


def _options(action: Action, form: Mapping[str, str]) -> dict[str, Any]:
    """Take the action's own fields, and nothing else, from a form."""
    given: dict[str, Any] = {each.name: form[each.name] for each in action.fields if form.get(each.name)}
    ticks = {each.name: True for each in action.fields if each.kind == "tick" and form.get(each.name)}
    return {**given, **ticks}


def note(session: Session, action: Action, *, user: BaseUser, dag_id: str, extra: Mapping[str, Any]) -> None:
    """Write to Airflow's audit log who did what. What changed a checkpoint says so in its document, too."""
    name = user.get_name()
    session.add(
        Log(
            event=f"ips {action.name}",
            task_instance=None,
            owner=name,
            owner_display_name=name,
            extra=json.dumps(extra),
            dag_id=dag_id,
        )
    )
    session.commit()


def token_for(user: BaseUser) -> str:
    """Make the token that a form brings back: another site cannot read it."""
    return _signer().dumps(user.get_id())


def _signer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(conf.get_mandatory_value("api", "secret_key"), salt="ips-actions")


async def read_form(request: Request) -> dict[str, str]:
    """Read a posted form, and refuse one that no page of this Airflow has sent."""
    if not _is_from_here(request):
        raise HTTPException(status_code=403, detail="sent by another site")
    body = await request.body()
    if len(body) > LARGEST_FORM:
        raise HTTPException(status_code=413, detail="too large")
    try:
        return dict(parse_qsl(body.decode(), max_num_fields=50))
    except ValueError as error:
        raise HTTPException(status_code=422, detail="not a form") from error


FormDep = Annotated[dict[str, str], Depends(read_form)]


def _is_from_here(request: Request) -> bool:
    """Whether the browser says that a page of this origin sent the request. One that says nothing is refused."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = urlsplit(request.headers.get("origin", "")).netloc
    known = {request.headers.get("host"), urlsplit(conf.get("api", "base_url", fallback="")).netloc}
    return bool(origin) and origin in known


def check_token(form: Mapping[str, str], user: BaseUser) -> None:
    """Refuse a form without the token of this user."""
    try:
        owner = _signer().loads(form.get("token", ""), max_age=TOKEN_SECONDS)
    except BadSignature:
        owner = None
    if owner is None or owner != user.get_id():
        raise HTTPException(status_code=403, detail="no valid token")
