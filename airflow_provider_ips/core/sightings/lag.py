"""How far a checkpoint is from the head of a table, and how a sighting follows from that and from the one before it.

Only what the table's metadata holds in memory is counted, so that looking costs no more than loading the table. What a
capture takes is decided by manifests, and may differ where a summary lacks a count: then the count is unknown here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_ips.core.advice.retention import DEFAULT_MAX_AGE_MS, RetentionFacts
from airflow_provider_ips.core.errors import GapError, SourceError
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, TableHistory, head_position
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.lineage.walk import prove_lineage
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import UNKNOWN_VOLUME, Volume
from airflow_provider_ips.core.sightings.consumer_sighting import (
    MAX_POINTS,
    MAX_WORDS,
    UNKNOWN_LAG,
    Breach,
    ConsumerSighting,
    Lag,
    PendingRange,
    PendingSighting,
    Point,
    SeenBy,
    SourceSighting,
)
from airflow_provider_ips.core.sightings.table_sighting import Effect, commit_of, effect_of, whole_table

Retention = Callable[[], RetentionFacts]

_TO_PROCESS: Final = (Effect.APPEND, Effect.CHANGE, Effect.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Who looks at one source, and when."""

    at_ms: int
    by: SeenBy
    skips_changes: bool = False
    """See :class:`SourceSighting`."""


def see_source(
    history: TableHistory,
    look: Look,
    *,
    committed: Position | None,
    retention: Retention | None = None,
) -> SourceSighting:
    """See how far a checkpoint is from the head of a source.

    :param retention: called only if the range is proven
    """
    seen = SourceSighting(
        source=Source(history.name, history.branch),
        seen_at_ms=look.at_ms,
        seen_by=look.by,
        table=whole_table(history.head),
        head=head_position(history),
        committed=_bare(committed),
        lag=UNKNOWN_LAG,
        skips_changes=look.skips_changes,
    )
    if committed is None:
        return seen
    try:
        after = prove_lineage(history, after=committed, to=history.head).snapshots
    except GapError as gap:
        return replace(seen, gap=gap.problem[:MAX_WORDS])
    except SourceError as error:
        return replace(seen, problem=error.problem[:MAX_WORDS])
    until_ms = None if retention is None else runway_until(after, retention(), look)
    return replace(seen, lag=lag_of(after, skips_changes=look.skips_changes), runway_until_ms=until_ms)


def unseen_source(source: Source, look: Look, *, committed: Position | None, problem: str) -> SourceSighting:
    """A source that could not be looked at: nothing is known of it now."""
    return SourceSighting(
        source=source,
        seen_at_ms=look.at_ms,
        seen_by=look.by,
        head=None,
        table=UNKNOWN_VOLUME,
        committed=_bare(committed),
        lag=UNKNOWN_LAG,
        problem=problem[:MAX_WORDS],
        skips_changes=look.skips_changes,
    )


def with_pending(
    seen: SourceSighting,
    history: TableHistory,
    look: Look,
    *,
    to: Position,
    captured: Volume,
    retention: Retention | None = None,
) -> SourceSighting:
    """Add a pending range, and the lag that is left once it is committed."""
    after = see_source(history, look, committed=to, retention=retention)
    pending = PendingRange(
        to_inclusive=replace(to, evidence=None, extra={}),
        captured=captured,
        rest=after.lag,
        runway_until_ms=after.runway_until_ms,
    )
    return replace(seen, pending=pending)


def _bare(position: Position | None) -> Position | None:
    """A position without what only a capture needs."""
    return None if position is None else replace(position, evidence=None, extra={})


def lag_of(after: Sequence[SnapshotFacts], *, skips_changes: bool) -> Lag:
    """Count the commits of a proven range, oldest first, that have something to process.

    append, compaction, append    2 commits, waiting since the first
    append, unknown               an unknown number of commits, waiting since the first
    unknown, append               unknown since when: the first may be empty
    """
    found = [(effect_of(each), each) for each in after]
    taken = [(effect, each) for effect, each in found if effect in _TO_PROCESS]
    if skips_changes:
        taken = [(effect, each) for effect, each in taken if effect is not Effect.CHANGE]
    is_known = all(effect is not Effect.UNKNOWN for effect, _ in taken)
    oldest = taken[0] if taken and taken[0][0] is not Effect.UNKNOWN else None
    return Lag(
        commits=len(taken) if is_known else None,
        volume=_added(each for _, each in taken),
        oldest_unprocessed_at_ms=None if oldest is None else oldest[1].committed_at_ms,
    )


def _added(snapshots: Iterable[SnapshotFacts]) -> Volume:
    """What commits added in total. What is unknown of one is unknown of all."""
    commits = [(commit_of(each), each.count("added-files-size")) for each in snapshots]
    sizes = [0 if commit.added_files == 0 else size_bytes for commit, size_bytes in commits]
    return Volume(
        files=_sum(commit.added_files for commit, _ in commits),
        records=_sum(commit.added_records for commit, _ in commits),
        size_bytes=_sum(sizes),
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    return None if None in known else sum(number or 0 for number in known)


def runway_until(after: Sequence[SnapshotFacts], retention: RetentionFacts, look: Look) -> int | None:
    """When expiry by the table's own rules may remove the first snapshot after a checkpoint, which proves the range.

    The checkpoint may be expired itself: its child still names it as its parent. A consumer that has processed all has
    at least the whole retention from now on, because its next snapshot is still to come.

        max-snapshot-age 5 days, first snapshot after the checkpoint 2 days old      3 days
        the same, min-snapshots-to-keep 10, 4 snapshots since, one an hour           3 days, or 6 hours if longer
    """
    until = [_by_age(after, retention, look), _by_branch(retention, look)]
    return min((each for each in until if each is not None), default=None)


def _by_age(after: Sequence[SnapshotFacts], retention: RetentionFacts, look: Look) -> int | None:
    max_age_ms = retention.max_age_ms
    if max_age_ms is None and retention.is_cut_off:
        max_age_ms = DEFAULT_MAX_AGE_MS
    if max_age_ms is None:
        return None
    first_ms = after[0].committed_at_ms if after else look.at_ms
    return max(first_ms + max_age_ms, _by_number(len(after), retention, look))


def _by_number(after: int, retention: RetentionFacts, look: Look) -> int:
    """When it will no longer be among those that are kept at any age, at the pace of the commits that are retained."""
    left = retention.min_kept - after
    times = retention.committed_at_ms
    if left <= 0 or len(times) < 2:  # noqa: PLR2004 - a pace takes two
        return 0
    return look.at_ms + left * (times[0] - times[-1]) // (len(times) - 1)


def _by_branch(retention: RetentionFacts, look: Look) -> int | None:
    """A branch may be expired as a whole, some time after its newest commit."""
    if retention.max_ref_age_ms is None:
        return None
    newest_ms = retention.committed_at_ms[0] if retention.committed_at_ms else look.at_ms
    return newest_ms + retention.max_ref_age_ms


def after_capture(
    before: ConsumerSighting | None, seen: ConsumerSighting, captured: Sequence[Volume]
) -> ConsumerSighting:
    """Carry over what a capture does not know from the sighting before: the earlier figures, and a breach.

    :param captured: of each source; nothing if the capture failed
    """
    return _judged(seen, before, _sum(each.size_bytes for each in captured) if captured else None)


def after_look(before: ConsumerSighting | None, seen: ConsumerSighting, *, is_complete: bool) -> ConsumerSighting:
    """Carry over what only a capture knows, too: its DAG, its settings, what it took.

    :param is_complete: all sources of the consumer were seen, and what is pending; else only these, and no more
    """
    if before is None:
        return _judged(seen, None)
    sources = tuple(_carried(each, before.source_sighting(each.source)) for each in seen.sources)
    pending = seen.pending
    if not is_complete:
        listed = {each.source for each in sources}
        sources = (*sources, *(each for each in before.sources if each.source not in listed))
        pending = before.pending if any(each.pending for each in sources) else None
    elif pending is None:
        sources = tuple(replace(each, pending=None) for each in sources)
    known = replace(
        seen,
        dag_id=before.dag_id or seen.dag_id,
        task_id=before.task_id or seen.task_id,
        target_lag_s=before.target_lag_s if seen.target_lag_s is None else seen.target_lag_s,
        settings=before.settings,
        held=seen.held if is_complete else before.held,
        sources=sources,
        unlisted_sources=0 if is_complete else before.unlisted_sources,
        pending=pending,
    )
    return _judged(known, before)


def after_commit(
    before: ConsumerSighting, *, capture_id: str, positions: Mapping[Source, Position], now_ms: int
) -> ConsumerSighting:
    """Move the positions, as the commit did. What is left to process was counted when the capture looked."""
    is_pending = before.pending is not None and before.pending.capture_id == capture_id
    sources = [_moved(each, positions[each.source]) if each.source in positions else each for each in before.sources]
    return _changed(before, sources, None if is_pending else before.pending, by=SeenBy.COMMIT, now_ms=now_ms)


def after_change_by_hand(
    before: ConsumerSighting, *, positions: Mapping[Source, Position], is_pending: bool, now_ms: int
) -> ConsumerSighting:
    """Forget what was seen of a source whose position a person has moved: it is unknown until the next look."""
    sources = [
        each if each.committed == positions.get(each.source) else _unknown(each, positions.get(each.source))
        for each in before.sources
    ]
    if not is_pending:
        sources = [replace(each, pending=None) for each in sources]
    return _changed(before, sources, before.pending if is_pending else None, by=SeenBy.COMMAND, now_ms=now_ms)


def _changed(
    before: ConsumerSighting,
    sources: Iterable[SourceSighting],
    pending: PendingSighting | None,
    *,
    by: SeenBy,
    now_ms: int,
) -> ConsumerSighting:
    seen = replace(before, seen_at_ms=now_ms, seen_by=by, sources=tuple(sources), pending=pending)
    return _judged(seen, before)


def with_notice(sighting: ConsumerSighting, now_ms: int) -> ConsumerSighting:
    """Note that people were notified of the breach, or that they know of its end."""
    if sighting.breach is None or not sighting.breach.is_open:
        return replace(sighting, breach=None)
    return replace(sighting, breach=replace(sighting.breach, notified_at_ms=now_ms))


def breach_after(before: Breach | None, sighting: ConsumerSighting, now_ms: int) -> Breach | None:
    """Whether a consumer breaches its target, by what was seen now. Where that is unknown nothing changes.

    seen        before              after
    breached    kept                a breach since the oldest commit became too old
    kept        breach, notified    over, until people are notified of that
    kept        breach, unnoticed   none
    breached    over, unnoticed     the same breach again
    """
    if sighting.target_lag_s is None:
        return None
    match sighting.is_kept(now_ms):
        case None:
            return before
        case True:
            if before is None or before.notified_at_ms is None:
                return None
            return before if before.over_at_ms is not None else replace(before, over_at_ms=now_ms)
        case False:
            lag_s = sighting.lag_s(now_ms) or 0
            since_ms = now_ms - int((lag_s - sighting.target_lag_s) * 1000)
            return replace(before, over_at_ms=None) if before else Breach(since_ms=since_ms)


def _judged(
    seen: ConsumerSighting, before: ConsumerSighting | None, captured_bytes: int | None = None
) -> ConsumerSighting:
    points = () if before is None else before.points
    return replace(
        seen,
        points=(*points, _point(seen, captured_bytes))[-MAX_POINTS:],
        breach=breach_after(None if before is None else before.breach, seen, seen.seen_at_ms),
    )


def _point(seen: ConsumerSighting, captured_bytes: int | None) -> Point:
    lag_s = seen.lag_s(seen.seen_at_ms)
    return Point(
        at_ms=seen.seen_at_ms,
        lag_s=None if lag_s is None else int(lag_s),
        lag_bytes=_sum(each.lag.volume.size_bytes for each in seen.sources),
        captured_bytes=captured_bytes,
        table_bytes=_sum(each.table.size_bytes for each in seen.sources),
    )


def _carried(seen: SourceSighting, before: SourceSighting | None) -> SourceSighting:
    """Keep what is known of a pending range that is still pending."""
    if before is None or before.pending is None or seen.committed != before.committed:
        return seen
    if seen.pending is None:
        return replace(seen, pending=before.pending)
    if seen.pending.to_inclusive == before.pending.to_inclusive:
        return replace(seen, pending=replace(seen.pending, captured=before.pending.captured))
    return seen


def _moved(seen: SourceSighting, to: Position) -> SourceSighting:
    pending = seen.pending
    if pending is not None and pending.to_inclusive == to:
        return replace(
            seen, committed=to, lag=pending.rest, runway_until_ms=pending.runway_until_ms, gap=None, pending=None
        )
    if seen.committed == to:
        return replace(seen, pending=None)
    return _unknown(seen, to)


def _unknown(seen: SourceSighting, committed: Position | None) -> SourceSighting:
    """A source whose position has moved to where its lag was not counted."""
    return replace(seen, committed=_bare(committed), lag=UNKNOWN_LAG, runway_until_ms=None, gap=None, pending=None)
