"""What Airflow's database says of all consumers, read by a few queries however many there are.

Documents are read from Variables, and captures and commits from the DAGs as Airflow stores them. A stored DAG is read
as JSON and remembered by its hash: to make operators of it would cost a hundred times as much.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from airflow.models.crypto import get_fernet
from airflow.models.dag import DagModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.variable import Variable
from cryptography.fernet import InvalidToken
from sqlalchemy import Text, cast, func, or_, select
from sqlalchemy.orm import aliased

from airflow_provider_ips.assets.uris import SCHEME, TableUri
from airflow_provider_ips.checkpoints.variable import KEY_PREFIX, VariableStore
from airflow_provider_ips.core.checkpoint.document import PACKED, Checkpoint, unpacked
from airflow_provider_ips.core.errors import CheckpointError, InputError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.json_fields import PARSE_ERRORS
from airflow_provider_ips.core.sightings.consumer_sighting import ConsumerSighting
from airflow_provider_ips.core.sightings.table_sighting import TableSighting

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


CAPTURE, COMMIT = "IpCaptureOperator", "IpCommitOperator"
SHOWN_SAVINGS: Final = 20
"""How many captures the small chart of a row shows."""

_CONSUMERS, _TABLES = "ips_seen_", "ips_table_"
_DAGS_AT_ONCE: Final = 500
_ALIAS_PREFIX: Final = "ips:"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureTask:
    """A capture in a stored DAG, and what its commits declare."""

    dag_id: str
    task_id: str
    consumer: str
    is_mapped: bool
    sources: tuple[Source, ...]
    """Empty if they are known at run time only."""

    has_commit: bool
    targets: tuple[Source, ...]
    settings: Mapping[str, Any]

    @property
    def takes_chunks(self) -> bool:
        """Whether it captures the chunks of a backfill, beside the checkpoint."""
        return "chunk" in self.settings

    def makes(self, consumer: str) -> bool:
        """Whether a consumer's captures are instances of this task."""
        return consumer == self.consumer or (self.is_mapped and consumer.startswith(f"{self.consumer}."))


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCapture:
    """The newest instance of a capture, which failed: it has left nothing in the checkpoint."""

    run_id: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A checkpoint document, or the reason why it cannot be read."""

    place: str
    consumer: str | None
    checkpoint: Checkpoint | None = None
    """With the newest commit only: see :meth:`read_in_full`."""

    dag_ids: frozenset[str] = frozenset()
    """The DAGs of all runs that it names, in older commits, too."""

    problem: str = ""
    text: str = ""

    def read_in_full(self) -> Checkpoint | None:
        """Parse it with all its commits."""
        return _parsed(self.consumer or "", self.text, None)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """DAGs, their captures, and documents."""

    paused: Mapping[str, bool]
    """All DAGs that Airflow has now, by whether they are paused."""

    stale: frozenset[str]
    """DAGs that it had, whose file is not there any more."""

    captures: tuple[CaptureTask, ...]
    documents: tuple[Document, ...]
    failed: Mapping[tuple[str, str], FailedCapture]
    """By DAG and task."""

    sightings: Mapping[str, tuple[ConsumerSighting, str]]
    """By consumer, each with its text: of its points, the newest captures only."""

    @property
    def dag_ids(self) -> frozenset[str]:
        """All DAGs for which rights may have been given."""
        return self.stale.union(self.paused)


def read_deployment(session: Session) -> Deployment:
    """Read all of it. The rights of the reader are checked on what is then shown."""
    variables = _read_variables(session, KEY_PREFIX, but=_TABLES)
    dags = session.execute(select(DagModel.dag_id, DagModel.is_paused, DagModel.is_stale)).all()
    captures = tuple(read_captures(session))
    return Deployment(
        paused={row.dag_id: bool(row.is_paused) for row in dags if not row.is_stale},
        stale=frozenset(row.dag_id for row in dags if row.is_stale),
        captures=captures,
        failed=read_failed(session, {task.dag_id for task in captures}),
        documents=tuple(read_documents(variables)),
        sightings={seen.consumer: (seen, text) for seen, text in _read_consumers(variables)},
    )


def read_failed(session: Session, dag_ids: Collection[str]) -> dict[tuple[str, str], FailedCapture]:
    """Find captures that failed when they ran last, except mapped ones, whose instances may be several consumers."""
    one, later = TaskInstance, aliased(TaskInstance)
    is_ours = (one.operator == CAPTURE, one.dag_id.in_(dag_ids), one.map_index < 0)
    same = (later.dag_id == one.dag_id, later.task_id == one.task_id, later.map_index < 0)
    newer = select(later.id).where(*same, later.start_date > one.start_date).exists()
    failed = select(one.dag_id, one.task_id, one.run_id, one.end_date).where(
        one.state == "failed", one.end_date.is_not(None), *is_ours, ~newer
    )
    return {
        (row.dag_id, row.task_id): FailedCapture(run_id=row.run_id, at_ms=int(row.end_date.timestamp() * 1000))
        for row in session.execute(failed)
    }


def read_tables(session: Session) -> list[TableSighting]:
    """Read what was seen of tables. What cannot be read, or has another's name, is as good as none."""
    texts = _read_variables(session, _TABLES)
    return [seen for key, text in texts.items() if (seen := _parsed_table(text)) is not None and seen.key == key]


def _read_variables(session: Session, prefix: str, *, but: str = "") -> dict[str, str]:
    """Read Variables of ours by one query, past Airflow's models: they tell its logs to mask each value."""
    columns = (Variable.key, Variable._val, Variable.is_encrypted)  # noqa: SLF001 - the column has no other name
    wanted = [Variable.key.startswith(prefix, autoescape=True)]
    if but:
        wanted.append(~Variable.key.startswith(but, autoescape=True))
    ours = session.execute(select(*columns).where(*wanted))
    return {key: _decrypted(value or "") if is_encrypted else value or "" for key, value, is_encrypted in ours}


def _decrypted(value: str) -> str:
    try:
        return get_fernet().decrypt(value.encode()).decode()
    except (InvalidToken, ValueError):
        return value  # no JSON, so it is shown as damaged


@dataclass(frozen=True, slots=True)
class _ReadVariables:
    """Variables that were read at once, for a store to choose from."""

    texts: Mapping[str, str]

    def get(self, key: str) -> str | None:
        return self.texts.get(key)

    def set(self, key: str, value: str, *, description: str) -> None:
        raise NotImplementedError("pages write by commands only")

    def keys(self, *, prefix: str) -> Sequence[str]:
        return [key for key in self.texts if key.startswith(prefix)]

    def shadowed_by(self, key: str) -> str | None:  # noqa: ARG002 - a secrets backend is looked up by captures
        return None


def read_documents(variables: Mapping[str, str]) -> Iterator[Document]:
    """Parse every checkpoint among Variables; one that is damaged is listed with the damage."""
    for place, consumer, _ in VariableStore(_ReadVariables(variables)).documents():
        key = place.removeprefix("Variable ")
        if consumer is None:
            yield Document(place=place, consumer=None, problem="it is not a checkpoint document")
            continue
        text = variables[key]
        checkpoint, problem = _parsed(consumer, text, 1)
        dag_ids = _dag_ids_in(text) if checkpoint is not None else frozenset[str]()
        yield Document(
            place=place, consumer=consumer, checkpoint=checkpoint, dag_ids=dag_ids, problem=problem, text=text
        )


@lru_cache(maxsize=2048)
def _parsed(consumer: str, text: str, newest: int | None) -> tuple[Checkpoint | None, str]:
    """Parse a document once for as long as it stays the same: a thousand of them would take seconds."""
    try:
        return Checkpoint.parse(text, consumer=consumer, even_if_moved=True, newest=newest), ""
    except CheckpointError as error:
        return None, error.problem


_RUN: Final = re.compile(r'"dag_id": ("(?:[^"\\]|\\.)*")')


@lru_cache(maxsize=2048)
def _dag_ids_in(text: str) -> frozenset[str]:
    """Find the DAGs of all runs in a document without reading the rest of it. A packed one has them in its body."""
    if f'"{PACKED}":' in text:
        text = json.dumps(unpacked(text))
    return frozenset(json.loads(name) for name in set(_RUN.findall(text)))


def _read_consumers(variables: Mapping[str, str]) -> Iterator[tuple[ConsumerSighting, str]]:
    """Read what was seen of consumers. What cannot be read, or has another's name, is as good as none."""
    for key, text in variables.items():
        if key.startswith(_CONSUMERS) and (seen := _parsed_consumer(text)) is not None and seen.key == key:
            yield seen, text


@lru_cache(maxsize=2048)
def _parsed_consumer(text: str) -> ConsumerSighting | None:
    with suppress(*PARSE_ERRORS):
        return ConsumerSighting.parse(text, captures=SHOWN_SAVINGS)
    return None


def read_in_full(text: str) -> ConsumerSighting | None:
    """Read a sighting with all its points. Damage in those that the overview leaves out is found here only."""
    with suppress(*PARSE_ERRORS):
        return ConsumerSighting.parse(text)
    return None


@lru_cache(maxsize=2048)
def _parsed_table(text: str) -> TableSighting | None:
    with suppress(*PARSE_ERRORS):
        return TableSighting.parse(text)
    return None


def read_captures(session: Session) -> list[CaptureTask]:
    """Find the captures of every stored DAG in its newest version. Those that did not change are not read again."""
    newest = (
        select(SerializedDagModel.dag_id, func.max(SerializedDagModel.created_at).label("at"))
        .group_by(SerializedDagModel.dag_id)
        .subquery()
    )
    stored = select(SerializedDagModel.id, SerializedDagModel.dag_id, SerializedDagModel.dag_hash).join(
        newest,
        (SerializedDagModel.dag_id == newest.c.dag_id) & (SerializedDagModel.created_at == newest.c.at),
    )
    found = session.execute(stored).all()
    unknown = [row.id for row in found if (row.dag_id, row.dag_hash) not in _known_dags]
    for start in range(0, len(unknown), _DAGS_AT_ONCE):
        _known_dags.update(_read_dags(session, unknown[start : start + _DAGS_AT_ONCE]))
    _forget_all_but({(row.dag_id, row.dag_hash) for row in found})
    return [task for row in found for task in _known_dags.get((row.dag_id, row.dag_hash), ())]


_known_dags: dict[tuple[str, str], tuple[CaptureTask, ...]] = {}


def _forget_all_but(keys: set[tuple[str, str]]) -> None:
    for old in set(_known_dags) - keys:
        _known_dags.pop(old, None)


def _read_dags(session: Session, ids: Collection[Any]) -> dict[tuple[str, str], tuple[CaptureTask, ...]]:
    """Read DAGs that mention a capture; all others have none."""
    dag, data = SerializedDagModel, SerializedDagModel._data  # noqa: SLF001 - as Airflow's own queries read it
    wanted = dag.id.in_(ids)
    keys = session.execute(select(dag.dag_id, dag.dag_hash).where(wanted))
    read: dict[tuple[str, str], tuple[CaptureTask, ...]] = {(row.dag_id, row.dag_hash): () for row in keys}
    columns = (dag.dag_id, dag.dag_hash, cast(data, Text).label("data"), dag._data_compressed.label("packed"))  # noqa: SLF001
    has_capture = or_(cast(data, Text).contains(CAPTURE), data.is_(None))
    for row in session.execute(select(*columns).where(wanted, has_capture)):
        text = row.data if row.packed is None else zlib.decompress(row.packed)
        read[row.dag_id, row.dag_hash] = tuple(_captures_in(json.loads(text)))
    return read


def _captures_in(stored: Mapping[str, Any]) -> Iterator[CaptureTask]:
    """Read the captures of a stored DAG.

    Each task is ``{"__type": "operator", "__var": {…}}``; a mapped one has what is not mapped in ``partial_kwargs``.
    """
    dag = stored["dag"]
    tasks = {task["__var"]["task_id"]: _arguments(task["__var"]) for task in dag["tasks"]}
    for task_id, task in tasks.items():
        if task.get("task_type") == CAPTURE:
            commits = [each for each in _downstream(tasks, task_id) if each.get("task_type") == COMMIT]
            named = str(task.get("consumer") or "")
            yield CaptureTask(
                dag_id=dag["dag_id"],
                task_id=task_id,
                consumer=named if _is_known(named) else f"{dag['dag_id']}.{task_id}",
                is_mapped=bool(task.get("_is_mapped") or task.get("_needs_expansion")),
                sources=tuple(_sources(task.get("source_tables"))),
                has_commit=bool(commits),
                targets=tuple(dict.fromkeys(chain.from_iterable(map(_targets, commits)))),
                settings={name: task[name] for name in task.get("template_fields", ()) if task.get(name)},
            )


def _arguments(task: Mapping[str, Any]) -> dict[str, Any]:
    return {**(task.get("partial_kwargs") or {}), **task}


def _is_known(name: str) -> bool:
    return bool(name) and "{{" not in name


def _downstream(tasks: Mapping[str, Mapping[str, Any]], task_id: str) -> Iterator[Mapping[str, Any]]:
    seen, ahead = {task_id}, [task_id]
    while ahead:
        for following in tasks[ahead.pop()].get("downstream_task_ids", ()):
            if following in tasks and following not in seen:
                seen.add(following)
                ahead.append(following)
                yield tasks[following]


_SOURCE_TABLE: Final = re.compile(r"SourceTable\(table='([^']+)', branch='([^']+)'")
"""How Airflow stores a table with settings of its own: as Python shows it."""


def _sources(given: object) -> Iterator[Source]:
    """Read ``source_tables``: a name, or a list of names and of tables with settings."""
    for each in given if isinstance(given, list) else [given]:
        if isinstance(each, str) and (shown := _SOURCE_TABLE.match(each)):
            yield Source(shown[1], shown[2])
        elif isinstance(each, str) and "{{" not in each and "(" not in each:
            yield Source(each)


def _targets(commit: Mapping[str, Any]) -> Iterator[Source]:
    """Read the tables that a commit declares to be written: its outlets, and the one that it verifies."""
    if _is_known(verified := str(commit.get("verify_target") or "")):
        yield Source(verified)
    for outlet in commit.get("outlets") or ():
        entry = outlet.get("__var", outlet) if isinstance(outlet, dict) else {}
        uri = entry.get("uri") or str(entry.get("name", "")).removeprefix(_ALIAS_PREFIX)
        if uri.startswith(f"{SCHEME}://"):
            try:
                yield TableUri.parse(uri).source
            except InputError:
                continue
