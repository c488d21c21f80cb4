"""Captures in the middle of a history, and what the ledger says that each must hold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.errors import GapError, InputError, RefusedOperationError, UnsupportedTableError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.record import Decision, Kind
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.iceberg.source.iceberg_source import open_source, position_at
from tests.kit.icdc import build_icdc
from tests.system.histories.lake import CATALOG
from tests.system.histories.readers import HistoryFailureError, as_read, by_pyiceberg, by_spark, compare
from tests.system.histories.registry import CAPTURE, step
from tests.system.histories.values import sql_literal
from tests.system.histories.world import NotNowError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.results.capture_record import SourceRecord
    from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
    from tests.system.histories.ledger import Commit, Ledger, Row
    from tests.system.histories.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a consumer stands: by the package's own account, and by the ledger's."""

    position: Position | None = None
    ledger: Ledger | None = None
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What the ledger says about one range, before the package is asked."""

    commits: tuple[Commit, ...] | None
    """Oldest first; None where nothing that is retained connects its two ends."""
    settings: CaptureSettings
    is_first: bool = False
    """Nothing was processed before, so all that lives is due."""
    may_be_a_gap: bool = False
    """A snapshot that is gone is only known as the parent of the next one, if it is."""

    @property
    def may_end_early(self) -> bool:
        limits = (self.settings.max_snapshots, self.settings.max_files, self.settings.max_bytes)
        return any(limit is not None for limit in limits)

    @property
    def has_change(self) -> bool:
        return any(c.effect.is_change for c in self.commits or ())

    @property
    def has_unclear(self) -> bool:
        return any(c.effect.is_unclear for c in self.commits or ())


@step(CAPTURE, weight=6)
def capture_next(world: World, rng: Random) -> None:
    """A consumer's next run: from where it stands to a branch's head, and not always committed."""
    branch = rng.choice(sorted(world.heads))
    name = f"appends of {branch}"
    source = open_source(world.lake.catalog, Source(world.name, branch))
    place = world.consumers.get(name) or _seeded(world, rng, source)
    settings = CaptureSettings(
        on_other_operation=rng.choice(("fail", "fail", "skip", "skip_retention")),
        equality_deletes=rng.choice(("fail", "carry")),
        **limit_setting(rng),
        **gap_setting(rng),
        range_columns=("id", "p"),
    )
    due = Due(
        commits=retained_range(world, place.ledger, place.snapshot_id, world.heads[branch]),
        settings=settings,
        is_first=not place.position,
    )
    into = f"icdc.x{world.name.rpartition('.')[2]}_{world.number()}"

    def run() -> SourceRecord:
        plan = plan_capture(source, committed=place.position, settings=settings)
        table = SourceTable(world.name, branch=branch)
        return build_icdc(
            world.lake.catalog, source, plan, table=table, settings=settings, icdc_table=into, identity={}
        )

    record = _answer(world, due, run)
    if record is None:
        # What the error asks for: process the table in full, and go on from there.
        world.consumers[name] = Place(
            position=source.position, ledger=world.ledger, snapshot_id=source.position.snapshot_id
        )
        return
    check_rows(world, rng, record, due, place, head=world.heads[branch])
    if rng.random() < 0.8:  # else the run failed after capture, and the next one covers its range
        to = record.to_inclusive
        world.consumers[name] = Place(position=to, ledger=world.ledger, snapshot_id=to.snapshot_id)


def _seeded(world: World, rng: Random, source: IcebergSource) -> Place:
    """A consumer that begins somewhere: with the whole table, or behind a snapshot as `airflow ips seed` does."""
    chain = [c.snapshot_id for c in world.ledger.chain(world.heads[source.branch])]
    known = [i for i in chain if i not in world.ledger.expired and world.ledger.commits[i].effect.after is not None]
    try:
        connected = [i for i in known if world.ledger.is_provable(i, world.heads[source.branch])]
        if not connected or rng.random() < 0.3:
            return Place()
        start = rng.choice(connected)
        return Place(position=position_at(source, snapshot_id=start), ledger=world.ledger, snapshot_id=start)
    except GapError as error:
        raise HistoryFailureError(f"no place to begin at: {error}") from error


@step(CAPTURE, weight=3)
def capture_between(world: World, rng: Random) -> None:
    """Any two places of main's lineage, by the function for notebooks; the later one need not be the head."""
    chain = [c.snapshot_id for c in world.ledger.chain(world.head) if c.effect.after is not None][::-1]
    if not chain:
        raise NotNowError
    first = -1 if len(chain) < 2 or rng.random() < 0.2 else 0
    start, end = sorted(rng.sample(range(first, len(chain)), 2))
    since = None if start < 0 else chain[start]
    until = chain[end]
    passing = rng.choice(("fail", "skip", "skip_retention"))
    settings = CaptureSettings(on_other_operation=passing)
    commits = world.ledger.since(since, until)
    provable = until not in world.ledger.expired and (since is None or world.ledger.is_provable(since, world.head))
    due = Due(
        commits=tuple(commits or ()) if provable else None,
        settings=settings,
        is_first=since is None,
        may_be_a_gap=since in world.ledger.expired,
    )
    into = f"icdc.b{world.name.rpartition('.')[2]}_{world.number()}"
    record = _answer(
        world,
        due,
        lambda: capture(
            world.lake.catalog, world.name, since=since, until=until, into=into, on_other_operation=passing
        ),
    )
    if record is not None:
        check_range(world, record, since=since, until=until, on_other_operation=passing)
        check_rows(world, rng, record, due, Place(ledger=world.ledger, snapshot_id=since), head=until)


def check_range(world: World, record: SourceRecord, **options: Any) -> None:
    """Let Spark read the same range by itself: the rows of the ICDC table, or a refusal."""
    try:
        ranged = capture(world.lake.catalog, world.name, mode="RANGE", **options)
    except (RefusedOperationError, UnsupportedTableError):
        world.tally["range: refused"] += 1
        return
    if (record.icdc_table is None) != (ranged.icdc_table is None):
        raise HistoryFailureError(f"{record.icdc_table} is captured as {ranged.icdc_table}")
    if record.icdc_table is None or ranged.captured_range is None:
        return
    found = by_spark(world, ranged.captured_range.as_sql(CATALOG), world.columns)
    compare("Spark reads other rows by itself", found, by_spark(world, record.icdc_table, world.columns))
    world.tally["range: exact"] += 1


@step(CAPTURE, weight=1)
def capture_from_a_time(world: World, rng: Random) -> None:
    """A first run that starts at a time takes what main gained since; rolled back snapshots are no place to start."""
    if not world.timeline:
        raise NotNowError
    at_ms, then = rng.choice(world.timeline)
    common = [c.snapshot_id for c in world.ledger.chain(then)]
    start = next((c.snapshot_id for c in world.ledger.chain(world.head) if c.snapshot_id in common), None)
    moment = datetime.fromtimestamp(at_ms / 1000, tz=UTC).isoformat()
    commits = world.ledger.since(start, world.head) or []
    provable = world.ledger.is_provable(start, world.head)
    settings = CaptureSettings(on_other_operation="skip", initial=moment)
    due = Due(
        commits=tuple(commits) if provable else None, settings=settings, may_be_a_gap=start in world.ledger.expired
    )
    into = f"icdc.t{world.name.rpartition('.')[2]}_{world.number()}"
    record = _answer(
        world,
        due,
        lambda: capture(world.lake.catalog, world.name, into=into, on_other_operation="skip", initial=moment),
    )
    if record is not None:
        check_rows(world, rng, record, due, Place(ledger=world.ledger, snapshot_id=start), head=world.head)


def limit_setting(rng: Random) -> dict[str, Any]:
    name = rng.choice(("", "", "", "max_snapshots", "max_files", "max_bytes"))
    amount = {"max_snapshots": rng.randint(1, 3), "max_files": rng.randint(1, 4), "max_bytes": rng.randint(500, 6000)}
    return {name: amount[name]} if name else {}


def gap_setting(rng: Random) -> dict[str, Any]:
    return {"on_gap": rng.choice(("fail", "fail", "resync", "full"))}


def retained_range(
    world: World, ledger: Ledger | None, snapshot_id: int | None, head: int | None
) -> tuple[Commit, ...] | None:
    """The commits since a consumer's place; None where nothing that is retained connects it with the head."""
    if ledger is not None and ledger is not world.ledger:
        return None
    if not world.ledger.is_provable(snapshot_id, head):
        return None
    return tuple(world.ledger.since(snapshot_id, head) or ())


def _answer(world: World, due: Due, run: Any) -> SourceRecord | None:
    """Let the package capture. None stands for a refusal that was due; one that was not is a failure."""
    before = world.load().metadata_location
    try:
        record: SourceRecord = run()
    except RefusedOperationError as error:
        if due.commits is None or not (due.has_change or due.has_unclear) or due.settings.on_other_operation == "skip":
            raise HistoryFailureError(f"refused without a reason: {error}") from error
        world.tally["refused: change"] += 1
        return None
    except GapError as error:
        if due.commits is not None and not due.may_be_a_gap:
            raise HistoryFailureError(f"a gap where there is none: {error}") from error
        world.tally["refused: gap"] += 1
        return None
    except UnsupportedTableError as error:
        if not world.has_equality_deletes or due.settings.equality_deletes == "carry":
            raise HistoryFailureError(f"refused as unsupported: {error}") from error
        world.tally["refused: equality deletes"] += 1
        return None
    except InputError as error:
        if "max_bytes" not in str(error):
            raise
        world.tally["refused: unknown bytes"] += 1
        return None
    if world.load().metadata_location != before:
        raise HistoryFailureError("a capture changed its source")
    _check_kind(record, due)
    world.tally[f"exact: {record.kind.value}"] += 1
    return record


def _check_kind(record: SourceRecord, due: Due) -> None:
    if due.is_first:
        if record.kind not in (Kind.FULL, Kind.EMPTY):
            raise HistoryFailureError(f"a first capture is {record.kind}")
        return
    allowed = {Kind.RANGE, Kind.EMPTY}
    if due.commits is None:
        allowed = {
            "fail": set(),
            "resync": {Kind.RESYNC, Kind.EMPTY},
            "full": {Kind.FULL, Kind.EMPTY},
        }[due.settings.on_gap]
    if record.kind not in allowed:
        raise HistoryFailureError(f"a capture of kind {record.kind} where {sorted(allowed)} is due")


def check_rows(world: World, rng: Random, record: SourceRecord, due: Due, place: Place, *, head: int | None) -> None:
    """Compare what both engines read from the ICDC table with what the ledger says must be there."""
    expected = expected_rows(world, record, due, place, head)
    if record.icdc_table is None:
        if record.kind is Kind.RESYNC or record.kind is Kind.FULL:
            raise HistoryFailureError(f"kind {record.kind} and no table")
        _compare_with(world, record, expected, found=as_read((), world.columns))
        return
    found = by_spark(world, record.icdc_table, world.columns)
    _compare_with(world, record, expected, found=found)
    if not (world.has_equality_deletes and record.kind is not Kind.RANGE):
        compare("PyIceberg reads other rows than Spark", by_pyiceberg(world, record.icdc_table, world.columns), found)
    _check_filter(world, rng, record.icdc_table, found)
    _check_record(world, record, found)
    drop_icdc(world.lake.catalog, record.icdc_table)


def expected_rows(
    world: World, record: SourceRecord, due: Due, place: Place, head: int | None
) -> tuple[list[Row], list[Row]]:
    """The rows that must be there, and those that may be there besides."""
    if record.to_inclusive.snapshot_id != head and not due.may_end_early:
        raise HistoryFailureError(f"the range ends at {record.to_inclusive}, the head is {head}")
    if due.is_first:
        return list(world.ledger.state(head).values()), []
    if due.commits is None:
        return _over_a_gap(world, record, place, head)
    taken = _up_to(due.commits, record.to_inclusive.snapshot_id)
    decisions = {v.snapshot_id: v.decision for v in record.verdicts}
    changes = [c for c in taken if c.effect.is_change]
    if due.settings.on_other_operation == "fail" and changes:
        raise HistoryFailureError(f"captured over a change: {[c.step for c in changes]}")
    if due.settings.on_other_operation == "skip_retention" and changes:
        _check_retention(world, place, taken, changes)
    rows = [
        row
        for commit in taken
        if not commit.effect.is_unclear or decisions.get(commit.snapshot_id) is Decision.CAPTURED
        for row in commit.effect.appends
    ]
    return rows, []


def _check_retention(world: World, place: Place, taken: Sequence[Commit], changes: Sequence[Commit]) -> None:
    """What was passed over removed rows from before the range, changed none, and met no append in its partition."""
    world.tally["exact: over retention"] += 1
    old = world.ledger.state(place.snapshot_id)
    gained = [row for commit in taken for row in commit.effect.appends]
    for commit in changes:
        after, before = commit.effect.after, world.ledger.commits.get(commit.parent_id or 0)
        was = before.effect.after if before else {}
        if after is None or was is None:
            continue  # one half of a statement
        removed = [row for i, row in was.items() if i not in after]
        if any(was.get(i) != row for i, row in after.items()) or any(row not in old.values() for row in removed):
            raise HistoryFailureError(f"took {commit.step} for retention")
        p = next(c.uid for c in world.columns if c.name == "p")
        if world.partitioned_by_p_always and {row.get(p) for row in removed} & {row.get(p) for row in gained}:
            raise HistoryFailureError(f"took {commit.step} for retention, in a partition that gained rows")


def _up_to(commits: Sequence[Commit], to: int | None) -> list[Commit]:
    if to is None or not commits:
        return []
    ids = [c.snapshot_id for c in commits]
    if to not in ids:
        raise HistoryFailureError(f"the range ends at {to}, which is not in it")
    return list(commits[: ids.index(to) + 1])


def _over_a_gap(world: World, record: SourceRecord, place: Place, head: int | None) -> tuple[list[Row], list[Row]]:
    """A resync loses nothing and may repeat: all rows that are new since must be there, and only rows that live."""
    now = world.ledger.state(head)
    if record.kind is Kind.FULL or (record.kind is Kind.EMPTY and due_is_full(record)):
        return list(now.values()), []
    before = place.ledger.state(place.snapshot_id) if place.ledger else {}
    new = [row for i, row in now.items() if before.get(i) != row]
    return new, [row for i, row in now.items() if before.get(i) == row]


def due_is_full(record: SourceRecord) -> bool:
    """An empty table captured in full is told by its warning only."""
    return any("on_gap='full'" in warning for warning in record.warnings)


def _compare_with(world: World, record: SourceRecord, expected: tuple[list[Row], list[Row]], *, found: Any) -> None:
    must, may = (as_read(rows, world.columns) for rows in expected)
    extra = found - must
    allowed = extra & may
    compare(f"a capture of kind {record.kind.value} to {record.to_inclusive}", found - allowed, must)


def _check_filter(world: World, rng: Random, table: str, found: Any) -> None:
    """Bounds and partitions in the metadata must not prune away a row that a filter asks for."""
    if not found:
        return
    column = rng.choice(world.columns)
    at = world.columns.index(column)
    value = rng.choice(sorted(found, key=repr))[at]
    condition = f"where {column.name} <=> {sql_literal(value, column.type)}"
    kept = type(found)({row: n for row, n in found.items() if row[at] == value})
    compare(f"Spark with {condition}", by_spark(world, table, world.columns, condition), kept)
    if not world.has_equality_deletes:
        by_filter = f"{column.name} is null" if value is None else None
        if by_filter is None and isinstance(value, (int, str)):
            by_filter = f"{column.name} = {value!r}"
        if by_filter:
            rows = by_pyiceberg(world, table, world.columns, row_filter=by_filter)
            compare(f"PyIceberg with {by_filter}", rows, kept)


def _check_record(world: World, record: SourceRecord, found: Any) -> None:
    """Counts and bounds go to users as they are: a bound that is too narrow loses rows."""
    if record.kind is Kind.RANGE and record.captured.records not in (None, found.total()):
        raise HistoryFailureError(f"the record counts {record.captured.records} rows, there are {found.total()}")
    names = [c.name for c in world.columns]
    for bound in record.ranges:
        values = [row[names.index(bound.column)] for row in found]
        there = [v for v in values if v is not None]
        if bound.known and there and not (bound.lower <= min(there) and max(there) <= bound.upper):
            raise HistoryFailureError(f"{bound} is narrower than {min(there)} to {max(there)}")
