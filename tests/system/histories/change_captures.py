"""Captures of changes, and the law that makes them worth having: a target that follows them is the table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.errors import GapError, RefusedOperationError, UnsupportedTableError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.planning.uncommitted import ALL_COMMITTED, UncommittedCaptures
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings, SourceTable
from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from tests.kit.icdc import build_icdc
from tests.system.histories.captures import gap_setting, limit_setting, retained_range
from tests.system.histories.lake import CATALOG
from tests.system.histories.readers import HistoryFailureError, as_read, by_pyiceberg, by_spark, compare
from tests.system.histories.registry import CHANGE_CAPTURE, step
from tests.system.histories.world import NotNowError

if TYPE_CHECKING:
    from random import Random

    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.results.capture_record import SourceRecord
    from tests.system.histories.ledger import Commit, Ledger, Row
    from tests.system.histories.world import World

    Target = dict[int, Row]

SUPERSETS: Final = ("fail", "allow", "complete")


@dataclass(slots=True, kw_only=True)
class Follower:
    """A consumer with a target of its own, which must become what the source is."""

    position: Position | None = None
    uncommitted: UncommittedCaptures = ALL_COMMITTED
    ledger: Ledger | None = None
    snapshot_id: int | None = None
    target: Target = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What Spark reads from the two tables, as the ledger's rows where it knows them."""

    source: Counter[tuple[Any, ...]]
    before: Counter[tuple[Any, ...]]
    source_ids: frozenset[int]
    keys: frozenset[int]


@step(CHANGE_CAPTURE, weight=6)
def follow_changes(world: World, rng: Random) -> None:
    """The next run of a consumer, which may fail behind the capture with its target half written."""
    branch = rng.choice(sorted(world.heads))
    wanted = rng.choice(("allow", "complete", "complete"))
    follower = world.consumers.setdefault(f"changes of {branch}", Follower())
    settings = _settings(rng, on_superset=wanted, **limit_setting(rng), **gap_setting(rng))
    source = open_source(world.lake.catalog, Source(world.name, branch))
    commits = retained_range(world, follower.ledger, follower.snapshot_id, world.heads[branch])
    world.tally["superseded runs"] += bool(follower.uncommitted)
    into = f"icdc.c{world.name.rpartition('.')[2]}_{world.number()}"

    def run() -> SourceRecord:
        plan = plan_capture(
            source,
            committed=follower.position,
            settings=settings,
            uncommitted=follower.uncommitted,
        )
        return build_icdc(
            world.lake.catalog,
            source,
            plan,
            table=SourceTable(world.name, branch=branch),
            settings=settings,
            icdc_table=into,
            before_table=f"{into}_before",
            identity={},
        )

    record = _answer(world, commits, settings, run, follower)
    if record is None:
        # What the error asks for: the target is made anew.
        follower.target = world.rows(branch)
        follower.position, follower.uncommitted = source.position, ALL_COMMITTED
        follower.ledger, follower.snapshot_id = world.ledger, world.heads[branch]
        return
    _process(world, rng, record, settings, follower)


def _process(
    world: World,
    rng: Random,
    record: SourceRecord,
    settings: CaptureSettings,
    follower: Follower,
) -> None:
    """What the job and the commit do."""
    now = _state_at(world, record)
    was = follower.ledger.state(follower.snapshot_id) if follower.ledger and follower.position else {}
    # A full capture over a gap, and a warning that asks for it, are for an empty target.
    over_gap = any("on_gap='full'" in warning for warning in record.warnings)
    if over_gap or any("empty the target" in warning for warning in record.warnings):
        was, follower.target = {}, {}
    captured = _read(world, record)
    _check_tables(world, record, settings, was, now, captured, superseded=bool(follower.uncommitted))
    after = _apply(follower.target, record, captured, now, settings)
    if after != now:
        raise HistoryFailureError(_difference(world, record, settings, after, now))
    _drop(world, record)
    if rng.random() < 0.3 and record.kind is not Kind.EMPTY:
        # The run fails behind the capture: some keys of its target are written, some are not.
        every = sorted(set(after) | set(follower.target))
        written = {i for i in every if rng.random() < 0.5}
        mixed = {i: (after if i in written else follower.target).get(i) for i in every}
        follower.target = {i: row for i, row in mixed.items() if row is not None}
        follower.uncommitted = follower.uncommitted.then(record.to_inclusive)
        return
    follower.target, follower.position = after, record.to_inclusive
    follower.uncommitted = ALL_COMMITTED
    follower.ledger, follower.snapshot_id = world.ledger, record.to_inclusive.snapshot_id


@step(CHANGE_CAPTURE, weight=4)
def capture_changes_between(world: World, rng: Random) -> None:
    """Any two places of main's lineage."""
    chain = [c.snapshot_id for c in world.ledger.chain(world.head) if c.effect.after is not None][::-1]
    if len(chain) < 2:
        raise NotNowError
    since, until = (chain[i] for i in sorted(rng.sample(range(len(chain)), 2)))
    settings = _settings(rng, on_superset=rng.choice(SUPERSETS))
    provable = until not in world.ledger.expired and world.ledger.is_provable(since, world.head)
    commits = tuple(world.ledger.since(since, until) or ()) if provable else None
    into = f"icdc.d{world.name.rpartition('.')[2]}_{world.number()}"

    def run() -> SourceRecord:
        return capture(
            world.lake.catalog,
            world.name,
            since=since,
            until=until,
            into=into,
            data_operations=ALL_OPERATIONS,
            on_superset=settings.on_superset,
            equality_deletes=settings.equality_deletes,
        )

    record = _answer(world, commits, settings, run, None)
    if record is None:
        return
    if record.to_inclusive.snapshot_id != until:
        raise HistoryFailureError(f"the range ends at {record.to_inclusive}, not at {until}")
    was, now = world.ledger.state(since), world.ledger.state(until)
    captured = _read(world, record)
    _check_tables(world, record, settings, was, now, captured, superseded=False)
    after = _apply(was, record, captured, now, settings)
    if after != now:
        raise HistoryFailureError(_difference(world, record, settings, after, now))
    _drop(world, record)


def _settings(rng: Random, **settings: Any) -> CaptureSettings:
    return CaptureSettings(
        data_operations=ALL_OPERATIONS, equality_deletes=rng.choice(("carry", "carry", "fail")), **settings
    )


def _answer(
    world: World, commits: tuple[Commit, ...] | None, settings: CaptureSettings, run: Any, follower: Follower | None
) -> SourceRecord | None:
    """Let the package capture. None stands for a refusal that was due."""
    before = world.load().metadata_location
    try:
        record: SourceRecord = run()
    except RefusedOperationError as error:
        by_equality = settings.equality_deletes == "fail" and world.has_equality_deletes
        by_superset = settings.on_superset == "fail" and any(_may_rewrite(c) for c in commits or ())
        if commits is None or not (by_equality or by_superset):
            raise HistoryFailureError(f"refused without a reason: {error}") from error
        world.tally["changes refused: " + ("superset" if by_superset else "equality deletes")] += 1
        return None
    except UnsupportedTableError as error:
        if settings.equality_deletes == "carry" or not world.has_equality_deletes:
            raise HistoryFailureError(f"refused as unsupported: {error}") from error
        world.tally["changes refused: equality deletes"] += 1
        return None
    except GapError as error:
        named_by_id_only = follower is None and _starts_at_expired(world, commits or ())
        if not named_by_id_only and not _gap_is_due(world, commits, follower):
            raise HistoryFailureError(f"a gap where there is none: {error}") from error
        world.tally["changes refused: gap"] += 1
        return None
    is_first = follower is not None and follower.position is None
    if commits is None and settings.on_gap != "full" and not is_first:
        raise HistoryFailureError(f"captured over a gap: {record.kind}")
    if world.load().metadata_location != before:
        raise HistoryFailureError("a capture changed its source")
    world.tally[f"changes exact: {record.kind.value}{' superset' if record.superset else ''}"] += 1
    return record


def _may_rewrite(commit: Commit) -> bool:
    return commit.effect.is_change or commit.effect.is_unclear


def _gap_is_due(world: World, commits: tuple[Commit, ...] | None, follower: Follower | None) -> bool:
    """Nothing connects the two ends; or rows changed, and where they were is no longer there to be read."""
    if commits is None or (_starts_at_expired(world, commits) and any(map(_may_rewrite, commits))):
        return True
    if follower is None:
        return False
    accounted = {follower.snapshot_id, *(c.snapshot_id for c in commits)}
    return any(end.snapshot_id not in accounted for end in follower.uncommitted.ends)


def _starts_at_expired(world: World, commits: tuple[Commit, ...]) -> bool:
    return bool(commits) and commits[0].parent_id in world.ledger.expired


def _state_at(world: World, record: SourceRecord) -> Target:
    to = record.to_inclusive.snapshot_id
    return world.ledger.state(to)


def _read(world: World, record: SourceRecord) -> Captured:
    tables = [record.icdc_table, record.before_table]
    source, before = (by_spark(world, t, world.columns) if t else Counter() for t in tables)
    if not world.has_equality_deletes:
        for table, found in zip(tables, (source, before), strict=True):
            if table:
                compare("PyIceberg reads other rows than Spark", by_pyiceberg(world, table, world.columns), found)
    at = [c.name for c in world.columns].index("id")
    ids, origins = (frozenset(row[at] for row in rows) for rows in (source, before))
    return Captured(source=source, before=before, source_ids=ids, keys=ids | origins)


def _check_tables(
    world: World,
    record: SourceRecord,
    settings: CaptureSettings,
    was: Target,
    now: Target,
    captured: Captured,
    *,
    superseded: bool,
) -> None:
    """What each of the two tables must hold, may hold and must not."""
    what = f"on_superset={settings.on_superset!r} {record.kind.value}"
    new = [row for i, row in now.items() if was.get(i) != row]
    new_rows, live = as_read(new, world.columns), as_read(now.values(), world.columns)
    # A row that was removed and brought back as it was is no news, and yet the range wrote it.
    again = _brought_back(world, record, was, now)
    if record.superset or settings.on_superset == "complete":
        compare(f"{what}: a new row is missing", new_rows - captured.source, Counter())
        compare(f"{what}: a stale or deleted row", captured.source - live, Counter())
    else:
        compare(f"{what}: <source> is to be exact", captured.source - again, new_rows)
    gone = as_read([row for i, row in was.items() if now.get(i) != row], world.columns)
    compare(f"{what}: <source>.before lacks a row", gone - captured.before, Counter())
    if not superseded:
        compare(f"{what}: <source>.before", captured.before - as_read(was.values(), world.columns), Counter())
    _check_predicate(world, record, new_rows, again)
    _check_row_lineage(world, record)


def _brought_back(world: World, record: SourceRecord, was: Target, now: Target) -> Counter[tuple[Any, ...]]:
    start = record.from_exclusive.snapshot_id if record.from_exclusive else None
    commits = world.ledger.since(start, record.to_inclusive.snapshot_id) or []
    came = {row for commit in commits for row in commit.effect.appends}
    return as_read([row for i, row in now.items() if was.get(i) == row and row in came], world.columns)


def _check_predicate(
    world: World, record: SourceRecord, new_rows: Counter[tuple[Any, ...]], again: Counter[tuple[Any, ...]]
) -> None:
    if record.predicate is None or record.icdc_table is None:
        return
    world.tally["changes exact: by predicate"] += 1
    found = by_spark(world, record.icdc_table, world.columns, f"where {record.predicate}")
    compare(f"with {record.predicate}", found - again, new_rows)


def _check_row_lineage(world: World, record: SourceRecord) -> None:
    """On v3 the ids and numbers of rows read as they do in the source, where the source has any."""
    to = record.to_inclusive.snapshot_id
    if world.format_version < 3 or record.icdc_table is None or to is None:
        return
    columns = "id, _row_id, _last_updated_sequence_number"
    there = set(world.lake.sql(f"select {columns} from {world.sql_name} version as of {to}"))
    here = set(world.lake.sql(f"select {columns} from {CATALOG}.{record.icdc_table}"))
    strange = {row for row in here - there if row[1:] != (None, None) or not world.was_upgraded}
    if strange:
        raise HistoryFailureError(f"row ids differ from the source's: {sorted(strange)[:6]} in {sorted(there)[:9]}")


def _apply(target: Target, record: SourceRecord, captured: Captured, now: Target, settings: CaptureSettings) -> Target:
    """Drop the keys of both tables, and insert: what was captured where it is complete, else the source's own rows."""
    kept = {i: row for i, row in target.items() if i not in captured.keys}
    complete = settings.on_superset == "complete" or record.kind is Kind.FULL
    if not complete:
        return kept | {i: row for i, row in now.items() if i in captured.keys}
    # Each of them was found to be a row that lives at the end of the range.
    return kept | {i: now[i] for i in captured.source_ids}


def _difference(world: World, record: SourceRecord, settings: CaptureSettings, after: Target, now: Target) -> str:
    stale = {i: row.read(world.columns) for i, row in after.items() if now.get(i) != row}
    lost = {i: row.read(world.columns) for i, row in now.items() if after.get(i) != row}
    return (
        f"the target is not the table after a capture with on_superset={settings.on_superset!r} of kind {record.kind}: "
        f"stale {stale}, lost {lost}"
    )


def _drop(world: World, record: SourceRecord) -> None:
    for table in record.icdc_tables:
        drop_icdc(world.lake.catalog, table)
