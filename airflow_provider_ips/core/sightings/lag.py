"""How far a position is from the head of a table, and for how long the table keeps what proves the range between.

Only what the table's metadata holds in memory is counted, so that looking costs no more than loading the table. What a
capture takes is decided by manifests, and may differ where a summary lacks a count: then the count is unknown here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_ips.core.advice.retention import DEFAULT_MAX_AGE_MS, RetentionFacts
from airflow_provider_ips.core.errors import GapError, SourceError
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, TableHistory, head_position
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.lineage.walk import prove_lineage
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.core.sightings.consumer_sighting import (
    MAX_WORDS,
    UNKNOWN_LAG,
    UNKNOWN_VOLUME,
    Lag,
    PendingRange,
    SeenBy,
    SourceSighting,
)
from airflow_provider_ips.core.sightings.table_sighting import Effect, commit_of, effect_of, whole_table

_TO_PROCESS: Final = (Effect.APPEND, Effect.CHANGE, Effect.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Who looks at one source, and when."""

    at_ms: int
    by: SeenBy
    skips_changes: bool = False
    """See :class:`SourceSighting`."""


def skips_changes(settings: CaptureSettings) -> bool:
    """Whether commits that change or remove rows are skipped. One that is refused is lag: the capture stops there."""
    return not settings.captures_changes and settings.on_other_operation != "fail"


def see_source(
    history: TableHistory,
    look: Look,
    *,
    committed: Position | None,
    retention: RetentionFacts | None = None,
) -> SourceSighting:
    """See how far a checkpoint is from the head of a source."""
    seen = SourceSighting(
        source=Source(history.name, history.branch),
        seen_at_ms=look.at_ms,
        seen_by=look.by,
        head=head_position(history),
        table=whole_table(history.head),
        committed=None if committed is None else replace(committed, evidence=None, extra={}),
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
    return replace(
        seen, lag=lag_of(after, skips_changes=look.skips_changes), runway_until_ms=runway_until(after, retention, look)
    )


def unseen_source(source: Source, look: Look, *, committed: Position | None, problem: str) -> SourceSighting:
    """A source that could not be looked at: nothing is known of it now."""
    return SourceSighting(
        source=source,
        seen_at_ms=look.at_ms,
        seen_by=look.by,
        head=None,
        table=UNKNOWN_VOLUME,
        committed=None if committed is None else replace(committed, evidence=None, extra={}),
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
    retention: RetentionFacts | None = None,
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
        volume=Volume.total(_added(each) for _, each in taken),
        oldest_unprocessed_at_ms=None if oldest is None else oldest[1].committed_at_ms,
    )


def _added(snapshot: SnapshotFacts) -> Volume:
    commit = commit_of(snapshot)
    size_bytes = 0 if commit.added_files == 0 else snapshot.count("added-files-size")
    return Volume(files=commit.added_files, records=commit.added_records, size_bytes=size_bytes)


def runway_until(after: Sequence[SnapshotFacts], retention: RetentionFacts | None, look: Look) -> int | None:
    """When expiry by the table's own rules may remove the first snapshot after a checkpoint, which proves the range.

    The checkpoint may be expired itself: its child still names it as its parent. A consumer that has processed all has
    at least the whole retention from now on, because its next snapshot is still to come.

        max-snapshot-age 5 days, first snapshot after the checkpoint 2 days old      3 days
        the same, min-snapshots-to-keep 10, 4 snapshots since, one an hour           3 days, or 6 hours if longer
    """
    if retention is None:
        return None
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
