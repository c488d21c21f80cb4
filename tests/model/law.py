"""The law: when a checkpoint moves, the target holds what its settings promise.

    job                                    the target after a commit
    merge, filter, complete                the rows of the source
    log                                    of each range: the rows that it added or changed, once
    insert, upsert with "fail"             what the range added is added, and it did nothing else
    insert, upsert with "skip"             the rows of every append of the range are added
    any, with all live rows captured       the rows of the source
    insert, upsert, resynchronised         no live row is missing; none comes twice if the record does not say so

Rows that a run wrote whose capture was never committed may be there twice where the job inserts: a superseding capture
has another id, and the documentation says so. None may be missing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.requests.request import RunKind
from tests.model.jobs import FOLLOWS_CHANGES, merges, says_superset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_ips.core.positions import RunIdentity
    from airflow_provider_ips.core.requests.request import RunRequest
    from airflow_provider_ips.core.results.capture_record import CaptureRecord, SourceRecord
    from airflow_provider_ips.core.settings import CaptureSettings
    from tests.model.jobs import Target
    from tests.model.table import Table
    from tests.model.warehouse import Row


class LawBrokenError(AssertionError):
    """The target is wrong, and nothing was reported."""


@dataclass(slots=True)
class Run:
    """A run of the DAG."""

    identity: RunIdentity
    request: RunRequest
    commits_before: int
    """How many runs had committed when it was triggered."""


@dataclass(slots=True)
class Attempt:
    """A capture that was made: what it says, with which settings and job, and how far its run got."""

    run: Run
    record: CaptureRecord
    settings: CaptureSettings
    job: str
    merges_full: bool
    is_resync: bool = False
    has_begun: bool = False
    """Its job has begun to write."""

    has_written: bool = False
    is_committed: bool = False
    committed_by: str = ""
    """The job of the run that was committed; a replay may have another."""

    inserted: dict[str, Counter[Row]] = field(default_factory=dict)
    was: dict[str, Counter[Row]] = field(default_factory=dict)
    """The targets before its job."""


def keep_law(attempt: Attempt, source: SourceRecord, target: Target) -> None:
    """Check one source of a capture that was committed just now, and move the model's own checkpoint."""
    name, end = source.source.table, source.to_inclusive.snapshot_id
    if end not in target.table.states:
        raise broken(attempt, target, (), f"a commit at {source.to_inclusive}, which never was")
    if attempt.job == "log":
        _keep_change_log(attempt, source, target, end)
    elif attempt.job in FOLLOWS_CHANGES:
        _keep_changes(attempt, source, target, end)
    else:
        _keep_appends(attempt, source, target, end, attempt.was.get(name, target.rows))
    target.at = end


def _keep_changes(attempt: Attempt, source: SourceRecord, target: Target, end: int | None) -> None:
    truth = target.table.rows_at(end)
    target.is_exact |= not merges(attempt.job, source, merges_full=attempt.merges_full)
    if target.is_exact and set(target.rows) != set(truth):
        raise broken(attempt, target, truth, f"{source.kind} up to {end}")
    target.expected = truth


def _keep_change_log(attempt: Attempt, source: SourceRecord, target: Target, end: int | None) -> None:
    """Rows that were deleted and came back may be inserted again."""
    truth, inserted = target.table.rows_at(end), attempt.inserted.get(target.table.name, Counter())
    new = truth if source.kind is Kind.FULL else truth - target.table.rows_at(target.at)
    unchanged = Counter() if source.kind is Kind.FULL else inserted - new
    if not new <= inserted <= truth or set(unchanged) - target.table.returned:
        raise broken(attempt, target, new, f"{source.kind} up to {end} that inserted {sorted(inserted.elements())}")
    target.expected, target.is_exact = Counter(target.rows), False


def _keep_appends(attempt: Attempt, source: SourceRecord, target: Target, end: int | None, was: Counter[Row]) -> None:
    table, truth = target.table, target.table.rows_at(end)
    if takes_all(attempt, source):
        expected, target.is_exact = truth, True
    elif source.kind is Kind.RESYNC or attempt.is_resync:
        _keep_resync(attempt, source, target, end, was)
        expected, target.is_exact = +target.rows, False
    elif attempt.settings.on_other_operation == "fail":
        expected = _moved(was, truth, table.rows_at(target.at))
    else:
        new, old = set(table.line_of(end)), set(table.line_of(target.at))
        expected, target.is_exact = _moved(was, _brought(table, new - old), _brought(table, old - new)), False
        if attempt.settings.on_other_operation == "skip_retention":
            _keep_retention(attempt, target, new - old)
    found = +target.rows
    if attempt.job == "upsert":
        found, expected = _once(found), _once(expected)
        if takes_all(attempt, source) and merges(attempt.job, source, merges_full=attempt.merges_full):
            expected |= _once(was)
    if found != expected:
        raise broken(attempt, target, expected, f"{source.kind} up to {end}")
    target.expected = found


def takes_all(attempt: Attempt, source: SourceRecord) -> bool:
    """Whether all live rows were to be captured, be there any or none."""
    is_first = source.from_exclusive is None and attempt.settings.start.kind == "full"
    return source.kind is Kind.FULL or is_first or attempt.run.request.kind is RunKind.FULL


def _keep_retention(attempt: Attempt, target: Target, snapshots: set[int]) -> None:
    """What was skipped was retention: it removed whole files, and none of the rows that the range appended."""
    table, brought = target.table, set(_brought(target.table, snapshots))
    for snapshot_id in sorted(snapshots):
        if table.operations[snapshot_id] == "replace" or table.brought[snapshot_id] is not None:
            continue
        removed = table.rows_at(table.parents[snapshot_id]) - table.rows_at(snapshot_id)
        if not table.only_removed[snapshot_id] or set(removed) & brought:
            raise broken(attempt, target, removed, f"snapshot {snapshot_id} was skipped as retention")


def _keep_resync(attempt: Attempt, source: SourceRecord, target: Target, end: int | None, was: Counter[Row]) -> None:
    table, truth = target.table, target.table.rows_at(end)
    wanted = set(truth)
    # With "skip" a change is skipped as a whole, with what it wrote, gap or not: the docs promise the log of appends.
    # Every live row that an append of the head's lineage brought is still wanted, so this hides no loss of one.
    if attempt.settings.on_other_operation == "skip":
        wanted &= set(_brought(table, table.line_of(end)))
    if not wanted <= set(target.rows):
        raise broken(attempt, target, truth, "a resync that lost rows")
    if attempt.job == "insert" and not says_superset(source):
        brought = _brought(table, set(table.line_of(end)) - set(table.line_of(target.at)))
        if any(count > max(was[row] + brought[row], truth[row]) for row, count in target.rows.items()):
            raise broken(attempt, target, truth, "a resync that says it is exact, and brought rows again")


def keep_replay(attempt: Attempt, source: SourceRecord, target: Target) -> None:
    """A replay moves nothing: the target must be what it was, if it is kept in the same way as before."""
    if attempt.job not in FOLLOWS_CHANGES or attempt.job == "log":
        is_comparable = attempt.job == attempt.committed_by
    else:
        is_comparable = target.is_exact
    if is_comparable and set(target.rows) != set(target.expected):
        raise broken(attempt, target, target.expected, f"a replay of {source.kind}")


def broken(attempt: Attempt, target: Target, expected: Iterable[Row], what: str) -> LawBrokenError:
    wanted, found = Counter(expected), +target.rows
    return LawBrokenError(
        f"{target.table.name}, {attempt.job} job, after {what}: "
        f"missing {sorted((wanted - found).elements())}, too many {sorted((found - wanted).elements())}"
    )


def _brought(table: Table, snapshots: Iterable[int]) -> Counter[Row]:
    """The rows that these snapshots appended."""
    rows: Counter[Row] = Counter()
    for snapshot_id in snapshots:
        rows.update(table.brought[snapshot_id] or {})
    return rows


def _moved(rows: Counter[Row], more: Counter[Row], less: Counter[Row]) -> Counter[Row]:
    """Rows with some more and some less: of what it had not, too, so that a difference is not lost."""
    result = Counter(rows)
    result.update(more)
    result.subtract(less)
    return +result


def _once(rows: Counter[Row]) -> Counter[Row]:
    return Counter(set(rows))
