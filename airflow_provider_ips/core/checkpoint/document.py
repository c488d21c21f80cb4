"""The checkpoint of a consumer: how far it has processed each of its sources, in one document.

One document per consumer, so that one write commits all sources of a capture, or none. Names of tables are values,
never keys: Airflow redacts values under keys that look like secrets, and its edit form would write the mask back.
"""

from __future__ import annotations

import json
import lzma
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Self

from airflow_provider_ips.core.checkpoint.entries import (
    Capture,
    CommittedCapture,
    Intervention,
    PendingCapture,
    SourcePosition,
    SourceRange,
)
from airflow_provider_ips.core.errors import ActiveRunError, CheckpointError, DamagedCheckpointError
from airflow_provider_ips.core.identifiers import Source, digest, icdc_table_name
from airflow_provider_ips.core.json_fields import PARSE_ERRORS, KeptObject, Stored, explain, is_whole_number, within
from airflow_provider_ips.core.positions import Position

PLAIN_RANGES: Final = 100
"""How many committed ranges a document holds in a form that people can read, such as 50 captures of two sources."""

SEAL: Final = "seal"
"""The field with a digest of all others. A position that was edited by hand would skip or repeat rows."""

MASK: Final = "***"
"""The text that Airflow shows in place of a secret."""

PACKED: Final = "packed"
"""The field with the compressed rest of the document."""

_READABLE: Final = ("schema_version", "consumer", "revision", "moved_to")
_ROLES: Final = {"icdc_table": "", "before_table": "before"}
_START: Final = "from_exclusive"
_END: Final = "to_inclusive"
_LARGEST: Final = 2**27
"""Bytes of JSON: much more than any history, and less than what a worker has in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(KeptObject):
    """The positions of a consumer, its pending capture, and its latest commits."""

    schema_version: ClassVar = 1

    consumer: str
    revision: int
    """Counts the writes, so that a writer notices another one."""

    positions: tuple[SourcePosition, ...] = ()
    pending: PendingCapture | None = None
    replaying: Annotated[PendingCapture | None, Stored(omitted=True)] = None
    """The newest committed capture, while the run that made it, cleared since, processes its range again."""

    uncommitted: Annotated[tuple[PendingCapture, ...], Stored(omitted=True)] = ()
    """What is left of pending captures that were superseded in some of their sources only: the ranges of the others.
    And what full refreshes captured that move no checkpoint, and what was rewound or abandoned."""

    history: tuple[CommittedCapture, ...] = ()
    """The newest is last."""

    retained: tuple[str, ...] = ()
    """ICDC tables that the next commit releases."""

    interventions: Annotated[tuple[Intervention, ...], Stored(later=True)] = ()
    moved_to: Annotated[str | None, Stored(omitted=True)] = None
    """The store that holds the checkpoint now. This document is what it was when it moved."""

    def __post_init__(self) -> None:
        """Refuse a source with two positions or two pending ranges."""
        _refuse_duplicates(self.positions, "positions")
        if self.pending is not None:
            _refuse_duplicates(self.pending.ranges, "pending.ranges")

    def position_of(self, source: Source) -> Position | None:
        """The committed position of a source, None if it has none."""
        return next((p.position for p in self.positions if p.source == source), None)

    @classmethod
    def of(cls, checkpoint: Self | None, consumer: str) -> Self:
        """A checkpoint, or an empty one where there is none yet."""
        return cls(consumer=consumer, revision=0) if checkpoint is None else checkpoint

    def retained_with(self, capture: Capture | None) -> tuple[str, ...]:
        """The ICDC tables that the next commit releases, once a capture is not needed any more."""
        return tuple(dict.fromkeys((*self.retained, *(() if capture is None else capture.made))))

    @property
    def captures(self) -> tuple[Capture, ...]:
        """All captures that it names with their ranges, committed or not."""
        return (*self.begun, *self.history, *(() if self.replaying is None else (self.replaying,)))

    @property
    def known_ids(self) -> set[str]:
        """The ids of the captures that it names, superseded ones included."""
        return {known for capture in self.captures for known in (capture.capture_id, *capture.supersedes)}

    @property
    def known_tables(self) -> set[str]:
        """The ICDC tables that it names, of any capture."""
        return {*self.retained, *(name for capture in self.captures for name in capture.made)}

    @property
    def needed_tables(self) -> set[str]:
        """ICDC tables that are pending or retained, and those of the newest capture, whose job may be cleared."""
        wrote = [capture for capture in self.history if capture.wrote]
        return set(self.retained_with(self.pending)) | set(wrote[-1].made if wrote else ())

    @property
    def sources(self) -> set[Source]:
        """All sources that it has a position or a range of."""
        taken = {taken.source for capture in self.captures for taken in capture.ranges}
        return {position.source for position in self.positions} | taken

    @property
    def changed_at_ms(self) -> int:
        """When it was written last, as far as it says."""
        times = (*(c.started_at_ms for c in self.begun), *(c.committed_at_ms for c in self.history))
        return max((*times, *(i.at_ms for i in self.interventions)), default=0)

    @property
    def last_dag(self) -> str | None:
        """The id of the DAG whose run committed last; None if no run has."""
        return next((capture.run.dag_id for capture in reversed(self.history) if capture.run is not None), None)

    @property
    def is_blank(self) -> bool:
        """Whether no run and no command has set anything yet: it only remembers a refresh beside it."""
        return not (self.positions or self.pending or self.history or self.interventions)

    @property
    def begun(self) -> tuple[PendingCapture, ...]:
        """All captures that were never committed: the pending one, and what is left of others."""
        return self.uncommitted if self.pending is None else (self.pending, *self.uncommitted)

    def uncommitted_of(self, source: Source) -> tuple[tuple[PendingCapture, SourceRange], ...]:
        """The captures of a source that were never committed, each with its range there."""
        return tuple((c, r) for c in self.begun for r in c.ranges if r.source == source)

    def to_text(self) -> str:
        """Write it as JSON with its seal, packed if its history is long. The same checkpoint gives the same text."""
        document = self.to_json()
        is_long = sum(len(capture.ranges) for capture in self.history) > PLAIN_RANGES
        written = _pack(document) if is_long else document
        return json.dumps({**written, SEAL: _seal_of(document)}, indent=1, sort_keys=True)

    @classmethod
    def parse(cls, text: str, *, consumer: str, even_if_moved: bool = False, newest: int | None = None) -> Self:
        """Read what :meth:`to_text` wrote, and refuse anything else: a guess here loses or repeats data.

        :param newest: Keep only so many commits, for a page that shows the documents of all consumers at once.
        """
        try:
            found = cls._read(text, consumer, newest)
        except PARSE_ERRORS as error:
            masked = f"; it holds {MASK!r}, Airflow's mask for a secret, as if it was saved through a form"
            raise _damaged(consumer, explain(error) + (masked if MASK in text else "")) from error
        if found.moved_to is not None and not even_if_moved:
            raise _has_moved(consumer, found.moved_to)
        return found

    @classmethod
    def _read(cls, text: str, consumer: str, newest: int | None) -> Self:
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"is not JSON ({error})") from error
        if not isinstance(raw, dict):
            raise TypeError(f"is a {type(raw).__name__}, not an object")
        seal = raw.pop(SEAL, None)
        _check_version(raw.get("schema_version"), consumer)
        if PACKED in raw:
            raw = _unpack(raw)
        history = raw.get("history")
        shortened = {**raw, "history": history[-newest:]} if newest and isinstance(history, list) else raw
        found = within("cannot be understood", shortened, cls.from_json)
        if found.consumer != consumer:
            raise ValueError(f"belongs to consumer {found.consumer!r}")
        if seal != _seal_of(raw):
            raise ValueError(f"was changed by hand or by another program: its {SEAL!r} does not match the rest")
        return found


def refuse_conflict(stored: Checkpoint | None, new: Checkpoint, expected_revision: int | None) -> None:
    """Refuse a write if the stored document is not the one that the writer has read."""
    found = None if stored is None else stored.revision
    if found != expected_revision:
        raise write_conflict(new, f"is at {_shown(found)} now, and was at {_shown(expected_revision)} when it was read")


def write_conflict(new: Checkpoint, what: str) -> ActiveRunError:
    """The error of a writer that another one has overtaken."""
    return ActiveRunError(
        f"the checkpoint of consumer {new.consumer!r} {what}",
        consequence=f"Another run or a command has written it since then; revision {new.revision} was not written",
        remedy="let the task run again; if two DAGs share this consumer, give each a consumer of its own",
    )


def _shown(revision: int | None) -> str:
    return "no document" if revision is None else f"revision {revision}"


def _seal_of(document: Mapping[str, Any]) -> str:
    return digest(json.dumps(document, sort_keys=True), length=32)


def document_keys(value: object) -> set[str]:
    """Collect all keys of a parsed document, nested ones included: Airflow masks values by the name of their key."""
    if isinstance(value, Mapping):
        return set(value).union(*(document_keys(v) for v in value.values()))
    if isinstance(value, list):
        return set().union(*(document_keys(v) for v in value))
    return set()


def _refuse_duplicates(entries: Sequence[SourcePosition | SourceRange], where: str) -> None:
    sources = [entry.source for entry in entries]
    if twice := next((source for source in sources if sources.count(source) > 1), None):
        raise ValueError(f"{where} names source {twice.label!r} twice")


def _check_version(version: object, consumer: str) -> None:
    if not is_whole_number(version, least=1):
        raise ValueError(f"has no usable schema_version ({version!r})")
    if version > Checkpoint.schema_version:
        raise CheckpointError(
            f"the checkpoint of consumer {consumer!r} has schema version {version}, not {Checkpoint.schema_version}",
            consequence="A newer airflow-provider-ips wrote it; this release could misread its positions",
            remedy="install that release, or a later one, on every worker",
        )


def _has_moved(consumer: str, store: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint of consumer {consumer!r} was moved to the store {store!r}",
        consequence="This copy is out of date, so nothing was captured or committed with it",
        remedy=f"set [ips] checkpoint_store={store!r} on every worker, or checkpoint_store={store!r} on the capture; "
        f"if the move did not finish, or to move it back: `airflow ips move --consumer {consumer}`",
    )


def _damaged(consumer: str, what: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(
        f"the checkpoint of consumer {consumer!r} {what}",
        consequence="Nothing was captured or overwritten: a guess at its positions would lose or repeat data",
        remedy="restore the document from a backup, or remove it and set the position with `airflow ips seed`",
    )


def _pack(document: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten a document with a long history, and keep readable which one it is. Nothing is lost.

    Left out is where a range begins if the range before it ends there, and the name of an ICDC table without its
    namespace if it follows from the source and the capture. The rest is compressed.
    """
    ends: dict[tuple[str, str], Any] = {}
    history = [
        {**capture, "ranges": [_shortened(each, capture["capture_id"], ends) for each in capture["ranges"]]}
        for capture in document["history"]
    ]
    body = json.dumps({**document, "history": history}, separators=(",", ":"), sort_keys=True)
    return {**_header(document), PACKED: b64encode(lzma.compress(body.encode(), preset=1)).decode()}


def unpacked(text: str) -> dict[str, Any]:
    """Restore a packed document that was parsed before, as JSON."""
    raw = json.loads(text)
    return _unpack({key: raw[key] for key in (*_READABLE, PACKED) if key in raw})


def _unpack(short: Mapping[str, Any]) -> dict[str, Any]:
    """Restore what :func:`_pack` shortened. Raises one of ``PARSE_ERRORS`` on anything else."""
    try:
        reader = lzma.LZMADecompressor()
        body = reader.decompress(b64decode(short[PACKED], validate=True), _LARGEST)
    except lzma.LZMAError as error:
        raise ValueError(f"{PACKED}: {error}") from error
    if not reader.eof:
        raise ValueError(f"{PACKED} is cut off, or larger than any document")
    document: dict[str, Any] = json.loads(body)
    if {**_header(document), PACKED: short[PACKED]} != short:
        raise ValueError(f"{PACKED} is of another document")
    ends: dict[tuple[str, str], Any] = {}
    for capture in document["history"]:
        for each in capture["ranges"]:
            _restore(each, capture["capture_id"], ends)
    return document


def _header(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: document[key] for key in _READABLE if key in document}


def _shortened(taken: Mapping[str, Any], capture_id: str, ends: dict[tuple[str, str], Any]) -> dict[str, Any]:
    place = (taken["source"], taken["branch"])
    short = dict(taken)
    if place in ends and ends[place] == taken[_START]:
        del short[_START]
    ends[place] = taken[_END]
    for key, name in _table_names(place, capture_id):
        namespace, dot, last = (taken[key] or "").rpartition(".")
        if dot and last == name:
            short[key] = [namespace]
    return short


def _restore(taken: dict[str, Any], capture_id: str, ends: dict[tuple[str, str], Any]) -> None:
    place = (taken["source"], taken["branch"])
    taken.setdefault(_START, ends.get(place))
    ends[place] = taken[_END]
    for key, name in _table_names(place, capture_id):
        if isinstance(taken[key], list):
            taken[key] = f"{taken[key][0]}.{name}"


def _table_names(place: tuple[str, str], capture_id: str) -> Iterator[tuple[str, str]]:
    return ((key, icdc_table_name(Source(*place), capture_id, role)) for key, role in _ROLES.items())
