"""A capture that still works warns of a source that expires snapshots before the next run."""

from __future__ import annotations

import pytest

from airflow_provider_ips.core.advice.retention import RetentionFacts, retention_warnings, usual_gap_ms
from airflow_provider_ips.core.checkpoint.entries import CommittedCapture, SourceRange
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import Kind

HOUR = 3600 * 1000
DAY = 24 * HOUR
NOW = 1000 * DAY
RUN = RunIdentity(dag_id="d", run_id="r", map_index=-1, run_after="2026-11-18T00:00:00+00:00")
THERE = Position(table_uuid="u", snapshot_id=1, sequence_number=1, committed_at_ms=1)


def committed(at_ms: int, *, wrote: bool = True) -> CommittedCapture:
    """A commit at a time; one without an ICDC table had nothing to process."""
    taken = SourceRange(
        source=Source("db.t"),
        kind=Kind.RANGE,
        from_exclusive=THERE,
        to_inclusive=THERE,
        icdc_table="icdc.x" if wrote else None,
    )
    return CommittedCapture(capture_id=str(at_ms), run=RUN, committed_at_ms=at_ms, ranges=(taken,))


def facts(
    *,
    max_age_ms: int | None = None,
    min_kept: int = 1,
    max_ref_age_ms: int | None = None,
    ages_ms: tuple[int, ...] = (HOUR, DAY),
    is_cut_off: bool = False,
) -> RetentionFacts:
    """A table whose snapshots have these ages."""
    return RetentionFacts(
        source="db.t",
        max_age_ms=max_age_ms,
        min_kept=min_kept,
        max_ref_age_ms=max_ref_age_ms,
        committed_at_ms=tuple(NOW - age for age in ages_ms),
        is_cut_off=is_cut_off,
    )


def warnings(table: RetentionFacts, gap_ms: int = DAY) -> tuple[str, ...]:
    """The warnings for a consumer with this gap."""
    return retention_warnings(table, gap_ms=gap_ms, now_ms=NOW)


class TestUsualGap:
    """The time between two commits, by the history of the checkpoint."""

    def test_is_the_median(self) -> None:
        """One long outage does not count."""
        assert usual_gap_ms([committed(t * DAY) for t in (0, 1, 2, 30, 31)]) == DAY

    @pytest.mark.parametrize("history", [[], [committed(5)]])
    def test_is_unknown_before_two_commits(self, history: list[CommittedCapture]) -> None:
        """Then there is no warning."""
        assert usual_gap_ms(history) is None

    def test_leaves_out_the_time_before_runs_without_rows(self) -> None:
        """They are one entry with the time of the last, so a month of hourly runs would look like a gap."""
        history = [committed(0), committed(30 * DAY, wrote=False), committed(30 * DAY + HOUR)]
        assert usual_gap_ms(history) == HOUR


class TestWarnings:
    """One for each setting or habit that is too short."""

    def test_a_setting_that_is_shorter_than_the_gap(self) -> None:
        """With both times and the property to change."""
        (told,) = warnings(facts(max_age_ms=6 * HOUR))
        assert "snapshots may be expired after 6 hours (history.expire.max-snapshot-age-ms)" in told
        assert "a run after the usual time (1 day)" in told
        assert "keep snapshots of db.t longer" in told

    def test_no_warning_of_a_setting_that_is_long_enough(self) -> None:
        """Nor of a table without settings that has never expired a snapshot."""
        assert warnings(facts(max_age_ms=DAY)) == ()
        assert warnings(facts(), 30 * DAY) == ()

    def test_icebergs_default_counts_once_something_was_expired(self) -> None:
        """The expiry does run, and its default is five days."""
        weekly = facts(ages_ms=(HOUR, 20 * DAY), is_cut_off=True)
        (told,) = warnings(weekly, 7 * DAY)
        assert "after 5 days (history.expire.max-snapshot-age-ms is not set, and this is Iceberg's default)" in told

    def test_enough_snapshots_kept_by_number_outlast_a_short_age(self) -> None:
        """Two in a day, ten kept."""
        ages = (HOUR, 12 * HOUR, 2 * DAY, 3 * DAY)
        assert warnings(facts(max_age_ms=HOUR, min_kept=10, ages_ms=ages)) == ()
        assert warnings(facts(max_age_ms=HOUR, min_kept=3, ages_ms=ages))

    def test_what_has_expired_counts_whatever_the_setting_is(self) -> None:
        """The expiry may run with other arguments."""
        (told,) = warnings(facts(max_age_ms=30 * DAY, ages_ms=(HOUR, 2 * HOUR, 3 * HOUR), is_cut_off=True))
        assert "the oldest of 3 retained snapshots is 3 hours old" in told
        assert "others were expired" in told

    def test_no_warning_of_a_table_that_is_seldom_written(self) -> None:
        """The commit before the oldest retained one is older than the gap."""
        assert warnings(facts(ages_ms=(HOUR, 20 * HOUR), is_cut_off=True)) == ()

    def test_a_branch_that_expires_as_a_whole(self) -> None:
        """Main never does."""
        (told,) = warnings(facts(max_ref_age_ms=HOUR))
        assert "the branch itself may be expired after 1 hour (history.expire.max-ref-age-ms)" in told
