"""How far a consumer has come in each of its sources, in one document.

One document per consumer, so that one write commits all sources of a capture, or none. Names of tables are values,
never keys: Airflow redacts values under keys that look like secrets, and its edit form would write the mask back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from airflow_provider_ips.core.documents import PARSE_ERRORS, explain, many_of, number_of, one_of, text_of, texts_of
from airflow_provider_ips.core.errors import CheckpointError, DamagedCheckpointError
from airflow_provider_ips.core.identifiers import digest
from airflow_provider_ips.core.interventions import Intervention
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import Kind

SCHEMA_VERSION: Final = 1
SEAL: Final = "seal"
"""The field that tells whether the others are as they were written: an edited position would skip or repeat rows."""

MASK: Final = "***"
"""What Airflow shows in place of a value that it takes for a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRange:
    """What one capture takes from one source.

    ``from_exclusive`` is always what the checkpoint held when the capture began, and None only if it held nothing,
    however ``kind`` chose the files: a commit compares it with what the checkpoint holds then. ``attempted`` is where
    the first of the uncommitted captures ended that this one supersedes: its run may have written to the target.
    """

    source: str
    branch: str
    kind: Kind
    from_exclusive: Position | None
    to_inclusive: Position
    icdc_table: str | None
    before_table: str | None = None
    attempted: Position | None = None

    def to_json(self) -> dict[str, Any]:
        """As the document holds it."""
        return {
            "source": self.source,
            "branch": self.branch,
            "kind": self.kind.value,
            "from_exclusive": None if self.from_exclusive is None else self.from_exclusive.to_json(),
            "to_inclusive": self.to_inclusive.to_json(),
            "icdc_table": self.icdc_table,
            "before_table": self.before_table,
            "attempted": None if self.attempted is None else self.attempted.to_json(),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Parse what :meth:`to_json` wrote."""
        return cls(
            source=text_of(raw, "source"),
            branch=text_of(raw, "branch"),
            kind=Kind(raw["kind"]),
            from_exclusive=None if raw["from_exclusive"] is None else one_of(raw, "from_exclusive", Position.from_json),
            to_inclusive=one_of(raw, "to_inclusive", Position.from_json),
            icdc_table=None if raw["icdc_table"] is None else text_of(raw, "icdc_table"),
            before_table=None if raw.get("before_table") is None else text_of(raw, "before_table"),
            attempted=None if raw.get("attempted") is None else one_of(raw, "attempted", Position.from_json),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCapture:
    """A capture that has begun and is not committed. ``supersedes`` lists uncommitted ones that it stands in for."""

    capture_id: str
    run: RunIdentity
    started_at_ms: int
    ranges: tuple[SourceRange, ...]
    supersedes: tuple[str, ...] = ()

    @property
    def icdc_tables(self) -> tuple[str, ...]:
        """The tables made for it."""
        return _tables(self.ranges)

    def to_json(self) -> dict[str, Any]:
        """As the document holds it."""
        return {
            "capture_id": self.capture_id,
            "run": self.run.to_json(),
            "started_at_ms": self.started_at_ms,
            "ranges": [r.to_json() for r in self.ranges],
            "supersedes": list(self.supersedes),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Parse what :meth:`to_json` wrote."""
        return cls(
            capture_id=text_of(raw, "capture_id"),
            run=one_of(raw, "run", RunIdentity.from_json),
            started_at_ms=number_of(raw, "started_at_ms"),
            ranges=many_of(raw, "ranges", SourceRange.from_json),
            supersedes=texts_of(raw, "supersedes"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedCapture:
    """A capture that moved the checkpoint; a seed has no run.

    ``released`` names the ICDC tables that this commit let go, so that a commit that died before it dropped them can do
    so when it is tried again.
    """

    capture_id: str
    run: RunIdentity | None
    committed_at_ms: int
    ranges: tuple[SourceRange, ...]
    supersedes: tuple[str, ...] = ()
    released: tuple[str, ...] = ()

    @property
    def wrote(self) -> bool:
        """Whether a job had something to process: a seed and an empty capture have not."""
        return self.run is not None and bool(self.icdc_tables)

    @property
    def icdc_tables(self) -> tuple[str, ...]:
        """The tables made for it."""
        return _tables(self.ranges)

    def to_json(self) -> dict[str, Any]:
        """As the document holds it."""
        return {
            "capture_id": self.capture_id,
            "run": None if self.run is None else self.run.to_json(),
            "committed_at_ms": self.committed_at_ms,
            "ranges": [r.to_json() for r in self.ranges],
            "supersedes": list(self.supersedes),
            "released": list(self.released),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Parse what :meth:`to_json` wrote."""
        return cls(
            capture_id=text_of(raw, "capture_id"),
            run=None if raw["run"] is None else one_of(raw, "run", RunIdentity.from_json),
            committed_at_ms=number_of(raw, "committed_at_ms"),
            ranges=many_of(raw, "ranges", SourceRange.from_json),
            supersedes=texts_of(raw, "supersedes"),
            released=texts_of(raw, "released"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePosition:
    """Up to where one source is processed."""

    source: str
    branch: str
    position: Position

    def to_json(self) -> dict[str, Any]:
        """As the document holds it."""
        return {"source": self.source, "branch": self.branch, "position": self.position.to_json()}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Parse what :meth:`to_json` wrote."""
        return cls(
            source=text_of(raw, "source"),
            branch=text_of(raw, "branch"),
            position=one_of(raw, "position", Position.from_json),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a consumer must remember between runs. ``history`` is newest last; ``retained`` goes at the next commit."""

    consumer: str
    revision: int
    positions: tuple[SourcePosition, ...] = ()
    pending: PendingCapture | None = None
    history: tuple[CommittedCapture, ...] = ()
    retained: tuple[str, ...] = ()
    interventions: tuple[Intervention, ...] = ()
    moved_to: str | None = None
    """The store that holds this checkpoint now; what stands here is what it was when it left."""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Fields of a later release with the same schema version: kept, so that an older worker does not lose them."""

    def __post_init__(self) -> None:
        """Refuse two answers to the same question."""
        _refuse_twice(self.positions, "positions")
        if self.pending is not None:
            _refuse_twice(self.pending.ranges, "pending.ranges")

    def position_of(self, source: str, branch: str) -> Position | None:
        """Up to where this source is committed, None if it never was."""
        return next((p.position for p in self.positions if (p.source, p.branch) == (source, branch)), None)

    def to_text(self) -> str:
        """Write it as JSON that a person can read and a comparison of bytes can trust."""
        document = {
            **self.extra,
            "schema_version": SCHEMA_VERSION,
            "consumer": self.consumer,
            "revision": self.revision,
            "positions": [p.to_json() for p in self.positions],
            "pending": None if self.pending is None else self.pending.to_json(),
            "history": [c.to_json() for c in self.history],
            "retained": list(self.retained),
            "interventions": [i.to_json() for i in self.interventions],
            **({} if self.moved_to is None else {"moved_to": self.moved_to}),
        }
        return json.dumps({**document, SEAL: _seal_of(document)}, indent=1, sort_keys=True)

    @classmethod
    def parse(cls, text: str, *, consumer: str, even_if_moved: bool = False) -> Self:
        """Read what :meth:`to_text` wrote, and refuse anything else: a guess here loses or repeats data."""
        if MASK in text:
            raise _damaged(
                consumer,
                f"holds {MASK!r}, the mask that Airflow shows in place of a secret: it was saved through a form",
            )
        try:
            raw = json.loads(text)
        except ValueError as error:
            raise _damaged(consumer, f"is not JSON ({error})") from error
        if not isinstance(raw, dict):
            raise _damaged(consumer, f"is a {type(raw).__name__}, not an object")
        _check_version(raw.get("schema_version"), consumer)
        try:
            found = cls._from_json(raw)
        except PARSE_ERRORS as error:
            raise _damaged(consumer, f"cannot be understood: {explain(error)}") from error
        if found.consumer != consumer:
            raise _damaged(consumer, f"belongs to consumer {found.consumer!r}")
        if raw.get(SEAL) != _seal_of(raw):
            raise _damaged(consumer, f"was changed by hand, or by something else: its {SEAL!r} does not fit the rest")
        if found.moved_to is not None and not even_if_moved:
            raise has_moved(consumer, found.moved_to)
        return found

    @classmethod
    def _from_json(cls, raw: Mapping[str, Any]) -> Self:
        return cls(
            consumer=text_of(raw, "consumer"),
            revision=number_of(raw, "revision"),
            positions=many_of(raw, "positions", SourcePosition.from_json),
            pending=None if raw["pending"] is None else one_of(raw, "pending", PendingCapture.from_json),
            history=many_of(raw, "history", CommittedCapture.from_json),
            retained=texts_of(raw, "retained"),
            interventions=many_of(raw, "interventions", Intervention.from_json) if "interventions" in raw else (),
            moved_to=None if raw.get("moved_to") is None else text_of(raw, "moved_to"),
            extra={key: value for key, value in raw.items() if key not in _TOP_LEVEL},
        )


_TOP_LEVEL: Final = (
    *("schema_version", "consumer", "revision", "positions", "pending", "history", "retained"),
    *("interventions", "moved_to", SEAL),
)


def _seal_of(document: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in document.items() if key != SEAL}
    return digest(json.dumps(rest, sort_keys=True), length=32)


def document_keys(value: object) -> set[str]:
    """All keys in a parsed document. Airflow must not take one of them for a secret's name."""
    if isinstance(value, Mapping):
        return set(value).union(*(document_keys(v) for v in value.values()))
    if isinstance(value, list):
        return set().union(*(document_keys(v) for v in value))
    return set()


def _check_version(version: object, consumer: str) -> None:
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise _damaged(consumer, f"has no usable schema_version ({version!r})")
    if version > SCHEMA_VERSION:
        raise CheckpointError(
            f"the checkpoint of consumer {consumer!r} has schema version {version}, not {SCHEMA_VERSION}",
            consequence="A newer airflow-provider-ips wrote it; reading it here could misplace the consumer",
            remedy="install that release, or a later one, on every worker",
        )


def has_moved(consumer: str, store: str) -> CheckpointError:
    """A store that the consumer has left."""
    return CheckpointError(
        f"the checkpoint of consumer {consumer!r} was moved to the store {store!r}",
        consequence="What is left here is out of date, so nothing was captured or committed by it",
        remedy=f"set [ips] checkpoint_store={store!r} on every worker, or checkpoint_store={store!r} on the capture; "
        f"if the move did not finish, or to move it back: `airflow ips move --consumer {consumer}`",
    )


def _damaged(consumer: str, what: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(
        f"the checkpoint of consumer {consumer!r} {what}",
        consequence="Nothing was captured or overwritten: to guess a position would lose or repeat data",
        remedy="restore the document from a backup, or remove it and set the position anew with `airflow ips seed`",
    )


def _refuse_twice(entries: Sequence[SourcePosition | SourceRange], where: str) -> None:
    names = [(entry.source, entry.branch) for entry in entries]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{where} names source {twice[0]!r} (branch {twice[1]!r}) twice")


def _tables(ranges: Iterable[SourceRange]) -> tuple[str, ...]:
    return tuple(table for r in ranges for table in (r.icdc_table, r.before_table) if table is not None)
