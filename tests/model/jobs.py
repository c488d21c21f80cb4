"""The documented jobs: what they do to their target with the tables of a capture.

insert      INSERT the rows of <source>                                     a log of appends
upsert      MERGE them by key                                               a log of appends
merge       MERGE <source> by key, then DELETE the keys of <source>.before that the table no longer has
filter      read the rows of all captured keys from the table again
complete    DELETE the keys of both tables, then INSERT <source>            on_superset="complete"
log         INSERT the rows that changed, by the predicate if need be       a log of changes
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.record import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_ips.core.results.capture_record import SourceRecord
    from tests.model.table import Table
    from tests.model.warehouse import ReadRow, Row

FOLLOWS_CHANGES: Final = ("merge", "filter", "complete", "log")
FOLLOWS_APPENDS: Final = ("insert", "upsert")
INSERTS: Final = ("insert", "log")
"""Jobs that must not run twice over the same rows: they stamp their target with the capture's id."""


class JobRefusedError(Exception):
    """The record shows that the job must not go on, so it fails."""


@dataclass(slots=True)
class Target:
    """What a job keeps of one source, and what it should be."""

    table: Table
    rows: Counter[Row] = field(default_factory=Counter)
    expected: Counter[Row] = field(default_factory=Counter)
    at: int | None = None
    """The snapshot up to which the source is processed, by the model's own reckoning."""

    is_seeded: bool = False
    """It was filled from the source up to where the consumer starts."""

    is_exact: bool = True
    """Nothing was left out on purpose (by a log, or by a resync), so it should equal the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What a job is given for one source."""

    source: SourceRecord
    rows: list[ReadRow]
    before: list[ReadRow]
    truth: Counter[Row]
    """The table as of the captured end, for jobs that read it."""


def run_job(job: str, given: Input, target: Target, *, merges_full: bool, halfway: bool) -> Counter[Row]:
    """Run a job, or only the first of its two statements, and return the rows that it inserted."""
    if given.source.kind is Kind.FULL:
        if not merges(job, given.source, merges_full=merges_full):
            return _overwrite(given, target, halfway=halfway)
        if _must_be_emptied(given.source):
            target.rows = Counter()
    steps = {"insert": _insert, "upsert": _upsert, "log": _log, "merge": _merge, "filter": _filter}
    return steps.get(job, _complete)(given, target, halfway)


def merges(job: str, source: SourceRecord, *, merges_full: bool) -> bool:
    """Whether a capture is merged into the target: all live rows may overwrite it instead."""
    return source.kind is not Kind.FULL or (merges_full and job not in INSERTS)


def _overwrite(given: Input, target: Target, *, halfway: bool) -> Counter[Row]:
    if halfway:
        return Counter()
    target.rows = Counter(read.row for read in given.rows)
    return Counter(target.rows)


def _insert(given: Input, target: Target, halfway: bool) -> Counter[Row]:  # noqa: FBT001 - as all jobs
    new = Counter(read.row for read in given.rows)
    if given.source.kind is Kind.RESYNC and says_superset(given.source):
        new = Counter({row: count for row, count in new.items() if row not in target.rows})
    return _inserted(new, target, halfway)


def _upsert(given: Input, target: Target, halfway: bool) -> Counter[Row]:  # noqa: FBT001
    return _inserted(Counter({read.row: 1 for read in given.rows if read.row not in target.rows}), target, halfway)


def _log(given: Input, target: Target, halfway: bool) -> Counter[Row]:  # noqa: FBT001
    if given.source.superset and given.source.predicate is None:
        raise JobRefusedError(f"unchanged rows, and no predicate: {given.source.no_predicate}")
    return _inserted(Counter(read.row for read in _changed(given)), target, halfway)


def _merge(given: Input, target: Target, halfway: bool) -> Counter[Row]:  # noqa: FBT001
    merged = {
        read.row[0]: read.row for read in sorted(_changed(given), key=lambda read: -read.row[1])
    }  # stale rows win
    target.rows = _without(target.rows, set(merged)) + Counter(merged.values())
    if not halfway:
        target.rows = _without(target.rows, _keys(given.before) - {key for key, _ in given.truth})
    return Counter(merged.values())


def _filter(given: Input, target: Target, halfway: bool) -> Counter[Row]:  # noqa: FBT001
    keys = _keys(given.rows) | _keys(given.before)
    target.rows = _without(target.rows, keys)
    return _inserted(Counter({row: 1 for row in given.truth if row[0] in keys}), target, halfway)


def _complete(given: Input, target: Target, halfway: bool) -> Counter[Row]:  # noqa: FBT001
    target.rows = _without(target.rows, _keys(given.rows) | _keys(given.before))
    return _inserted(Counter({read.row: 1 for read in given.rows}), target, halfway)


def _inserted(new: Counter[Row], target: Target, halfway: bool) -> Counter[Row]:  # noqa: FBT001
    if halfway:
        return Counter()
    target.rows = target.rows + new
    return new


def _changed(given: Input) -> list[ReadRow]:
    """The rows of a superset that changed, as far as the record has a predicate for them."""
    if given.source.predicate is None:
        return given.rows
    after = int(given.source.predicate.rpartition(">")[2])
    return [read for read in given.rows if read.updated > after]


def says_superset(source: SourceRecord) -> bool:
    """Whether a resync says that it may bring rows again."""
    return any("superset" in warning for warning in source.warnings)


def _must_be_emptied(source: SourceRecord) -> bool:
    return any("empty it before" in warning or "empty the target" in warning for warning in source.warnings)


def _keys(rows: Iterable[ReadRow]) -> set[int]:
    return {read.row[0] for read in rows}


def _without(rows: Counter[Row], keys: set[int]) -> Counter[Row]:
    return Counter({row: count for row, count in rows.items() if row[0] not in keys})
