"""The consumers that a reader may see, each with its state: what the overview and the consumer's page show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.checkpoint.capture_status import capture_status
from airflow_provider_ips.core.identifiers import CapturedRange
from airflow_provider_ips.core.json_fields import PARSE_ERRORS, explain
from airflow_provider_ips.core.record import Kind, Volume
from airflow_provider_ips.core.results.capture_record import CaptureRecord
from airflow_provider_ips.core.sightings.consumer_sighting import ConsumerSighting, HeldCapture
from airflow_provider_ips.maintenance.server import Server
from airflow_provider_ips.runs.environment import now_ms
from airflow_provider_ips.ui import urls
from airflow_provider_ips.ui.capture_page import Link, status_word
from airflow_provider_ips.ui.deployment import (
    SHOWN_SAVINGS,
    CaptureTask,
    Deployment,
    Document,
    FailedCapture,
    read_in_full,
)
from airflow_provider_ips.ui.states import State, changed_by_hand, pending_run, runs_beside, state_of, unless_failed
from airflow_provider_ips.ui.stored_runs import StoredCapture, find_captures, read_captures_of

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from airflow_provider_ips.core.checkpoint.document import Checkpoint
    from airflow_provider_ips.core.checkpoint.entries import Capture, CommittedCapture, Intervention
    from airflow_provider_ips.core.positions import Position, RunIdentity
    from airflow_provider_ips.core.sightings.consumer_sighting import SourceSighting


_UNKNOWN: Final = Volume(files=None, records=None, size_bytes=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """A source of a consumer as its page shows it."""

    label: str
    committed: Position | None
    pending: Position | None
    seen: SourceSighting | None
    """None if it was not seen since the checkpoint has moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """One consumer as it is shown."""

    name: str
    dag_id: str
    """The DAG that is linked, and by which its page is found."""

    dag_ids: frozenset[str]
    """All DAGs that it concerns: only those who may read all of them see it."""

    state: State
    task: CaptureTask | None = None
    document: Document
    checkpoint: Checkpoint | None = None
    """With the newest commit only, unless it was read in full."""

    problem: str = ""
    seen: ConsumerSighting | None = None
    seen_text: str = ""
    pending_run: RunIdentity | None = None
    failed: FailedCapture | None = None
    is_paused: bool = False
    has_dag: bool = True

    @property
    def misses_target(self) -> bool:
        """Whether it lags by more than its target, as far as it was seen."""
        return self.seen is not None and not self.is_seen_before_change and self.seen.is_kept(now_ms()) is False

    @property
    def urgency(self) -> int:
        return max(self.state.urgency, MISSED_URGENCY if self.misses_target else 0)

    @property
    def task_id(self) -> str:
        if self.task is not None:
            return self.task.task_id
        return self.name.removeprefix(f"{self.dag_id}.") if self.name.startswith(f"{self.dag_id}.") else ""

    @property
    def sources(self) -> tuple[str, ...]:
        """The labels of its sources: those that it has positions in, or else those that its DAG names."""
        if self.checkpoint is not None and self.checkpoint.positions:
            return tuple(each.source.label for each in self.checkpoint.positions)
        if self.seen is not None and self.seen.sources:
            return tuple(each.source.label for each in self.seen.sources)
        return tuple(source.label for source in self.task.sources) if self.task else ()

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables among its sources, without branches."""
        return tuple(dict.fromkeys(label.partition("@")[0] for label in self.sources))

    @property
    def committed_at_ms(self) -> int | None:
        history = self.checkpoint.history if self.checkpoint else ()
        return history[-1].committed_at_ms if history else None

    @property
    def is_seen_before_change(self) -> bool:
        """Whether its sources were seen when it had other positions than now: then its lag is not what was seen."""
        if self.seen is None or self.checkpoint is None:
            return False
        return any(self.checkpoint.position_of(each.source) != each.committed for each in self.seen.sources)

    @property
    def changed_by_hand(self) -> Intervention | None:
        """Who has moved its checkpoint since its last commit, when and how."""
        return changed_by_hand(self.checkpoint)

    @property
    def also(self) -> tuple[str, ...]:
        """What is said beside its state."""
        said = {"target missed": self.misses_target, "paused": self.is_paused, "no DAG": not self.has_dag}
        return tuple(word for word, is_true in said.items() if is_true)

    @property
    def source_rows(self) -> list[SourceRow]:
        """Its sources, each with its positions and with what was seen of it."""
        return [self._source_row(label) for label in self.sources]

    def _source_row(self, label: str) -> SourceRow:
        seen = next((x for x in self.seen.sources if x.source.label == label), None) if self.seen else None
        pending = seen.pending.to_inclusive if seen and seen.pending else None
        committed = seen.committed if seen else None
        if (checkpoint := self.checkpoint) is not None:
            committed = next((x.position for x in checkpoint.positions if x.source.label == label), None)
            ranges = checkpoint.pending.ranges if checkpoint.pending else ()
            pending = next((x.to_inclusive for x in ranges if x.source.label == label), None)
        is_current = seen is not None and not self.is_seen_before_change
        return SourceRow(label=label, committed=committed, pending=pending, seen=seen if is_current else None)

    @property
    def lag(self) -> Volume:
        """What its sources have and it has not committed, as it was seen last."""
        return Volume.total(each.lag.volume for each in self.seen.sources) if self.seen else _UNKNOWN

    @property
    def lag_commits(self) -> int | None:
        counts = [each.lag.commits for each in self.seen.sources] if self.seen else [None]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def runway_until_ms(self) -> int | None:
        ends = [each.runway_until_ms for each in self.seen.sources] if self.seen else []
        return min((end for end in ends if end is not None), default=None)

    @property
    def seen_at_ms(self) -> int | None:
        """When the source that was seen longest ago was seen."""
        return min((each.seen_at_ms for each in self.seen.sources), default=None) if self.seen else None

    @property
    def savings(self) -> tuple[int | None, ...]:
        """The bytes that each of the last captures saved, oldest first."""
        points = self.seen.points if self.seen else ()
        captured = [point for point in points if point.captured_bytes is not None and point.table_bytes is not None]
        return tuple(max((p.table_bytes or 0) - (p.captured_bytes or 0), 0) for p in captured[-SHOWN_SAVINGS:])


MISSED_URGENCY: Final = 75
"""Where a consumer is sorted that misses its target: before one whose run has failed."""

_UNSEEN: Final = (None, "")


def find_consumers(deployment: Deployment, may_read: Callable[[frozenset[str]], bool]) -> list[Consumer]:
    """Find the consumers whose DAGs may all be read: one for each document, and for each capture that has none.

    :param may_read: Whether the reader may read all of some DAGs, existing or not.
    """
    visible = [(document, task, dag_ids) for document, task, dag_ids in _found(deployment) if may_read(dag_ids)]
    sightings = deployment.sightings
    pending = (pending_run(document, sightings.get(document.consumer or "", _UNSEEN)[0]) for document, _, _ in visible)
    beside = chain.from_iterable(runs_beside(document.checkpoint) for document, _, _ in visible)
    states = Server().states_of({*beside, *(run for run in pending if run is not None)})
    consumers = [_consumer(deployment, document, task, dag_ids, states) for document, task, dag_ids in visible]
    return sorted(consumers, key=lambda each: (-each.urgency, each.name))


def in_full(consumer: Consumer) -> Consumer:
    """Read all commits of a consumer's document and all points of its sighting, for a page of its own."""
    seen = read_in_full(consumer.seen_text) if consumer.seen else None
    return replace(consumer, checkpoint=consumer.document.read_in_full(), seen=seen)


def _found(deployment: Deployment) -> Iterator[tuple[Document, CaptureTask | None, frozenset[str]]]:
    by_name = {task.consumer: task for task in deployment.captures}
    sharing: dict[str, set[str]] = {}
    for each in deployment.captures:
        sharing.setdefault(each.consumer, set()).add(each.dag_id)
    mapped = [task for task in deployment.captures if task.is_mapped]
    seen = set[str]()
    for document in deployment.documents:
        name = document.consumer or ""
        task = by_name.get(name) or next((each for each in mapped if each.makes(name)), None)
        seen.add(task.consumer if task else name)
        yield document, task, _dag_ids(document, task, deployment)
    for task in deployment.captures:
        if task.consumer not in seen:
            others = sharing[task.consumer] if task.consumer in deployment.sightings else set[str]()
            found = Document(place="", consumer=task.consumer, dag_ids=frozenset(others))
            yield found, task, _dag_ids(found, task, deployment)


def _dag_ids(document: Document, task: CaptureTask | None, deployment: Deployment) -> frozenset[str]:
    """Every DAG that a document is about: those of its runs, that of its capture, or that which its name begins with.

    Where the checkpoint is in Iceberg there is no document: then those that share the consumer, if it was seen, for
    what was seen may be of any of them. DAGs that are deleted count only if no other is left, because there are no
    rights on them to give.
    """
    named = set(document.dag_ids) | ({task.dag_id} if task else set())
    consumer = document.consumer or document.place
    seen, _ = deployment.sightings.get(consumer, _UNSEEN)
    if seen is not None:
        named.update(dag_id for dag_id in (seen.dag_id, seen.pending and seen.pending.run.dag_id) if dag_id)
    named.update(prefix for prefix in _prefixes(consumer) if prefix in deployment.dag_ids)
    present = deployment.dag_ids & named
    return present or frozenset(named) or frozenset({consumer.rpartition(".")[0] or consumer})


def _prefixes(consumer: str) -> Iterable[str]:
    parts = consumer.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts)))


def _consumer(
    deployment: Deployment,
    document: Document,
    task: CaptureTask | None,
    dag_ids: frozenset[str],
    states: Mapping[RunIdentity, str],
) -> Consumer:
    checkpoint = document.checkpoint
    dag_id = _main_dag(checkpoint, task, dag_ids)
    seen, seen_text = deployment.sightings.get(document.consumer or "", _UNSEEN)
    failed = None if task is None else deployment.failed.get((task.dag_id, task.task_id))
    state = unless_failed(state_of(document, task, seen, states, now_ms()), checkpoint, failed)
    return Consumer(
        name=document.consumer or document.place,
        dag_id=dag_id,
        dag_ids=dag_ids,
        state=state,
        task=task,
        document=document,
        checkpoint=checkpoint,
        problem=document.problem,
        seen=seen,
        seen_text=seen_text,
        pending_run=pending_run(document, seen),
        failed=failed if state.word == "capture failed" else None,
        is_paused=deployment.paused.get(dag_id, False),
        has_dag=dag_id in deployment.paused,
    )


def _main_dag(checkpoint: Checkpoint | None, task: CaptureTask | None, dag_ids: frozenset[str]) -> str:
    if task is not None:
        return task.dag_id
    runs = () if checkpoint is None else (*checkpoint.begun, *reversed(checkpoint.history))
    latest = next((each.run.dag_id for each in runs if each.run is not None and each.run.dag_id in dag_ids), None)
    return latest or min(dag_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRange:
    """The range of one source in a row of captures."""

    source: str
    kind: Kind
    from_snapshot: int | None
    to_snapshot: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRow:
    """One capture in the list of a consumer. Without a record, amounts are unknown."""

    word: str
    run: Link | None
    record: Link | None
    at_ms: int | None = None
    ranges: tuple[ShownRange, ...] = ()
    captured: Volume = _UNKNOWN
    table: Volume = _UNKNOWN
    covers: tuple[Link, ...] = ()
    superseded_by: Link | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedTable:
    """An ICDC table, or a branch of a source, that the checkpoint names."""

    name: str
    at_ms: int | None
    holds: str
    held: HeldCapture | None = None
    """Of a branch of a source: what it held when it was seen; None if it was not."""


def list_captures(session: Session, consumer: Consumer, may_read: Callable[[frozenset[str]], bool]) -> list[CaptureRow]:
    """List the captures of a consumer, newest first: those with a record, and older ones that its checkpoint remembers.

    :param may_read: Whether the reader may read all of some DAGs.
    """
    stored = read_captures_of(session, consumer.dag_ids, consumer.name)
    checkpoint = consumer.checkpoint
    by_id: dict[str, Capture] = {} if checkpoint is None else {c.capture_id: c for c in checkpoint.captures}
    covered = {known for capture in by_id.values() for known in capture.supersedes}
    places = {x.value: x for dag_id in consumer.dag_ids for x in find_captures(session, dag_id, covered)}
    rows = [_row_of_record(each, consumer, by_id, places, may_read) for each in stored]
    recorded = {each.capture_id for each in stored}
    history = () if checkpoint is None else reversed(checkpoint.history)
    return [*rows, *(_row_of_entry(entry) for entry in history if entry.capture_id not in recorded)]


def _row_of_record(
    stored: StoredCapture,
    consumer: Consumer,
    by_id: Mapping[str, Capture],
    places: Mapping[str, Any],
    may_read: Callable[[frozenset[str]], bool],
) -> CaptureRow:
    run = Link(text=stored.run_id, url=urls.run_page(stored.dag_id, stored.run_id))
    page = urls.record_page(stored.dag_id, stored.run_id, stored.task_id, stored.map_index)
    try:
        record = CaptureRecord.from_json(stored.value)
    except PARSE_ERRORS as error:
        return CaptureRow(word="unreadable", run=run, record=Link(text="record", url=page), problem=explain(error))
    entry, status = by_id.get(stored.capture_id), capture_status(consumer.checkpoint, stored.capture_id)
    links = [places[known] for known in (entry.supersedes if entry else ()) if known in places]
    by = status.superseded_by
    return CaptureRow(
        word=status_word(record, consumer.checkpoint, stored.outcome, stored.run_state, consumer.seen),
        run=run,
        record=Link(text="record", url=page),
        at_ms=getattr(entry, "committed_at_ms", None) or getattr(entry, "started_at_ms", None),
        ranges=tuple(_range(each.source.label, each.kind, each) for each in record.sources),
        captured=Volume.total(each.captured for each in record.sources),
        table=Volume.total(each.table for each in record.sources),
        covers=tuple(
            Link(text=each.run_id, url=urls.record_page(stored.dag_id, each.run_id, each.task_id, each.map_index))
            for each in links
            if each.run_id != stored.run_id
        ),
        superseded_by=Link(text=by.run_id, url=urls.run_page(by.dag_id, by.run_id))
        if by is not None and may_read(frozenset({by.dag_id}))
        else None,
    )


def _row_of_entry(entry: CommittedCapture) -> CaptureRow:
    run = entry.run
    return CaptureRow(
        word="seeded" if run is None else "committed" if entry.wrote else "nothing to process",
        run=None if run is None else Link(text=run.run_id, url=urls.run_page(run.dag_id, run.run_id)),
        record=None,
        at_ms=entry.committed_at_ms,
        ranges=tuple(_range(each.source.label, each.kind, each) for each in entry.ranges),
    )


def _range(source: str, kind: Kind, taken: Any) -> ShownRange:  # noqa: ANN401 - a range in a document or in a record
    start = taken.from_exclusive
    return ShownRange(
        source=source,
        kind=kind,
        from_snapshot=None if start is None else start.snapshot_id,
        to_snapshot=taken.to_inclusive.snapshot_id,
    )


def list_tables(checkpoint: Checkpoint | None, seen: Iterable[HeldCapture] = ()) -> list[CapturedTable]:
    """List the ICDC tables and branches that are kept for a consumer. Only its catalog knows whether each exists.

    :param seen: what branches held when somebody looked
    """
    if checkpoint is None:
        return []
    held = {each.name: each for each in seen}
    made = {table: capture for capture in checkpoint.captures for table in capture.made}
    kept = dict.fromkeys(checkpoint.retained, "kept until the next commit")
    if checkpoint.history:
        kept |= dict.fromkeys(checkpoint.history[-1].made, "captured by the newest commit")
    if checkpoint.pending is not None:
        kept |= dict.fromkeys(checkpoint.pending.made, "captured and not committed")
    return [
        CapturedTable(
            name=table,
            at_ms=getattr(made.get(table), "started_at_ms", None) or getattr(made.get(table), "committed_at_ms", None),
            holds=holds,
            held=held.get(table),
        )
        for table, holds in kept.items()
        if CapturedRange.parse(table) is None  # nothing was made
    ]
