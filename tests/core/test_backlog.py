"""When a sensor succeeds: what was appended, how much of it, and since when."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ips.core.errors import GapError, InputError, RefusedOperationError
from airflow_provider_ips.core.history.snapshots import head_position
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.core.watching.backlog import backlog_across_rollback, backlog_of
from airflow_provider_ips.core.watching.thresholds import AtLeast, Require, Thresholds, assess
from airflow_provider_ips.testing import FILE_BYTES, InMemoryHistory

SETTINGS = CaptureSettings()
CHANGES = CaptureSettings(data_operations=("append", "overwrite", "delete"))
NO_THRESHOLDS = Thresholds.parse()


class CountingHistory(InMemoryHistory):
    """Counts the manifest lists that were opened."""

    opened = 0

    def reads_manifests(self, snapshot_id):
        type(self).opened += 1
        return super().reads_manifests(snapshot_id)


@pytest.fixture
def history():
    CountingHistory.opened = 0
    return CountingHistory("db.playback")


def ready(history, committed, thresholds=NO_THRESHOLDS, *, now_ms=10**12, settings=SETTINGS):
    return assess(backlog_of(history, committed=committed, settings=settings), thresholds, now_ms=now_ms).ready


def test_appended_rows_are_ready(history):
    """One append beyond the checkpoint is enough, and its volume is counted."""
    committed = history.append()
    history.append(files=3)

    backlog = backlog_of(history, committed=committed, settings=SETTINGS)

    assert assess(backlog, NO_THRESHOLDS, now_ms=0).ready
    assert (backlog.snapshots, backlog.volume.files, backlog.newest_snapshot_id) == (1, 3, 2)


def test_nothing_new_reads_no_manifest(history):
    """The most frequent poll costs a catalog load and nothing else."""
    committed = history.append()

    assert not ready(history, committed)
    assert history.opened == 0


def test_compactions_alone_read_no_manifest(history):
    """A head that only compactions have moved is not ready, and its manifests are not read."""
    committed = history.append(files=5)
    history.compact()
    history.compact()

    assert not ready(history, committed)
    assert history.opened == 0


def test_an_empty_commit_is_not_ready(history):
    """An append without files adds no row."""
    committed = history.append()
    history.append(files=0)

    assert not ready(history, committed)


def test_expiry_is_not_ready(history):
    """It does not move the head."""
    oldest = history.append()
    committed = history.append()
    history.expire(oldest)

    assert not ready(history, committed)


def test_a_rollback_is_not_ready(history):
    """It adds nothing; the reason names the rollback."""
    kept = history.append()
    committed = history.append()
    history.rollback(kept)

    verdict = assess(backlog_of(history, committed=committed, settings=SETTINGS), NO_THRESHOLDS, now_ms=0)

    assert not verdict.ready
    assert "rolled back" in verdict.reason


def test_a_rollback_before_a_given_snapshot_is_not_ready(history):
    """A given start is treated as a checkpoint is."""
    kept = history.append()
    since = replace(SETTINGS, initial=str(history.append().snapshot_id))
    history.rollback(kept)

    assert not ready(history, None, settings=since)
    history.append()
    with pytest.raises(GapError):
        backlog_of(history, committed=None, settings=since)


@pytest.mark.parametrize("on_gap", ["resync", "full"])
def test_a_rollback_is_not_ready_whatever_on_gap_is(history, on_gap):
    """There is no gap to handle before something is appended."""
    kept = history.append()
    committed = history.append()
    history.rollback(kept)

    assert not ready(history, committed, settings=replace(SETTINGS, on_gap=on_gap))


def test_an_append_after_a_rollback_is_a_gap(history):
    """The capture would fail on it, so the sensor does."""
    kept = history.append()
    committed = history.append()
    history.rollback(kept)
    history.append()

    with pytest.raises(GapError, match="rolled back"):
        backlog_of(history, committed=committed, settings=SETTINGS)


def test_a_gap_is_handled_as_the_capture_would(history):
    """With on_gap='full' everything is new, and counted by the totals of the head."""
    kept = history.append(files=2)
    committed = history.append()
    history.rollback(kept)
    history.append(files=3)

    backlog = backlog_of(history, committed=committed, settings=replace(SETTINGS, on_gap="full"))

    assert backlog.volume == Volume(files=5, records=50, size_bytes=5 * FILE_BYTES)


def test_the_volume_of_a_resync_is_unknown_and_ready(history):
    """No count says how many of the live files are newer."""
    kept = history.append()
    committed = history.append()
    history.rollback(kept)
    history.append()

    settings = replace(SETTINGS, on_gap="resync")

    assert backlog_of(history, committed=committed, settings=settings).volume.files is None
    assert ready(history, committed, Thresholds.parse(min_files=10**6), settings=settings)


def test_a_refused_operation_is_an_error_of_the_sensor(history):
    """If it succeeded, the run that it starts would fail."""
    committed = history.append(files=2)
    history.remove()

    with pytest.raises(RefusedOperationError):
        backlog_of(history, committed=committed, settings=SETTINGS)
    assert not ready(history, committed, settings=replace(SETTINGS, on_other_operation="skip"))


def test_a_first_run_sees_the_whole_table(history):
    """A consumer without a checkpoint starts by `initial`."""
    history.append(files=2)
    history.append(files=2)

    backlog = backlog_of(history, committed=None, settings=SETTINGS)

    assert (backlog.volume.files, backlog.snapshots) == (4, 2)
    assert not ready(history, None, settings=replace(SETTINGS, initial="latest"))


def test_a_first_run_on_an_empty_table_waits(history):
    """There is nothing to process."""
    assert not ready(history, None)


def test_limits_of_a_capture_do_not_limit_the_backlog(history):
    """A capture takes a part of it; the sensor waits for the whole."""
    committed = history.append()
    history.append(files=4)
    history.append(files=4)

    backlog = backlog_of(history, committed=committed, settings=replace(SETTINGS, max_snapshots=1))

    assert backlog.volume.files == 8


@pytest.mark.parametrize("change", ["remove", "rewrite_rows", "delete_rows"])
def test_changes_of_earlier_rows_are_ready_for_a_capture_of_changes(history, change):
    """A deletion adds no file and no row, and has to reach the next stage all the same."""
    history.append(files=2)
    committed = history.append()
    getattr(history, change)()

    backlog = backlog_of(history, committed=committed, settings=CHANGES)

    assert assess(backlog, NO_THRESHOLDS, now_ms=0).ready
    assert "changed or removed" in assess(backlog, NO_THRESHOLDS, now_ms=0).reason


def test_compaction_is_not_ready_for_a_capture_of_changes(history):
    """It removes files, but no row."""
    history.append()
    committed = history.append()
    history.compact()

    assert not ready(history, committed, settings=CHANGES)


@pytest.mark.parametrize(
    ("snapshots", "files", "records", "expected"),
    [(1, 1, 1, True), (1, None, None, True), (0, None, None, False), (1, 0, None, False), (1, 1, 0, False)],
)
def test_no_rows_are_not_ready_but_unknown_numbers_are(history, snapshots, files, records, expected):
    """Unknown is not zero."""
    history.append()
    seen = backlog_of(history, committed=None, settings=SETTINGS)

    counted = replace(seen, snapshots=snapshots, volume=Volume(files=files, records=records, size_bytes=None))

    assert counted.has_rows is expected


# --- a watcher's own watermark -----------------------------------------------------------------------------------


def test_a_watcher_continues_from_the_common_ancestor(history):
    """After a rollback only what was appended since is new."""
    kept = history.append()
    reported = history.append(files=7)
    history.rollback(kept)
    history.append(files=2)

    assert backlog_across_rollback(history, reported=reported, settings=SETTINGS).volume.files == 2


def test_a_compaction_after_a_rollback_wakes_no_watcher(history):
    """Neither of the two adds a row."""
    kept = history.append()
    reported = history.append()
    history.rollback(kept)
    history.compact()

    assert backlog_across_rollback(history, reported=reported, settings=SETTINGS).has_rows is False


def test_a_watermark_of_another_table_is_a_gap(history):
    """A table created again under the same name has no history in common."""
    reported = replace(history.append(), table_uuid="another")

    with pytest.raises(GapError, match="another table"):
        backlog_across_rollback(history, reported=reported, settings=SETTINGS)


@given(
    st.lists(st.sampled_from(["append", "empty", "compact", "rollback"]), max_size=12),
    st.integers(min_value=0, max_value=12),
)
def test_a_watcher_is_woken_by_appends_only(steps, first_look):
    """Over any history: of everything between two polls only an append that is still there counts."""
    history = InMemoryHistory("db.playback")
    start = history.append()
    reported, appended = head_position(history), list[object]()
    for number, step in enumerate(steps):
        if number == first_look:
            reported, appended = head_position(history), list[object]()
        if step == "append":
            appended.append(history.append())
        elif step == "empty":
            history.append(files=0)
        elif step == "compact":
            history.compact()
        else:
            history.rollback(start)
            appended = []

    if history.head is not None and reported.snapshot_id is not None:
        seen = backlog_across_rollback(history, reported=reported, settings=SETTINGS)
        assert seen.has_rows is bool(appended)
        assert seen.volume.files == len(appended)


# --- thresholds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [
        ({"min_files": 3}, True),
        ({"min_files": 4}, False),
        ({"min_records": 30}, True),
        ({"min_records": 31}, False),
        ({"min_bytes": 3 * FILE_BYTES}, True),
        ({"min_bytes": 3 * FILE_BYTES + 1}, False),
        ({"min_files": 1, "min_records": 31}, False),
    ],
)
def test_thresholds_wait_until_all_are_met(history, thresholds, expected):
    """Each counts all snapshots since the checkpoint together."""
    committed = history.append()
    history.append(files=1)
    history.append(files=2)

    assert ready(history, committed, Thresholds.parse(**thresholds)) is expected


def test_age_makes_little_data_ready(history):
    """The oldest unprocessed snapshot decides, not the newest."""
    committed = history.append()
    oldest = history.append()
    history.append()
    patient = Thresholds.parse(min_files=100, or_after=timedelta(hours=1))

    assert not ready(history, committed, patient, now_ms=oldest.committed_at_ms + 3_599_999)
    assert ready(history, committed, patient, now_ms=oldest.committed_at_ms + 3_600_000)


def test_each_threshold_may_have_its_own_age(history):
    """A common or_after is for those without one."""
    committed = history.append()
    oldest = history.append()
    thresholds = Thresholds.parse(min_files=100, min_records=AtLeast(100, or_after=10), or_after=20)

    assert not ready(history, committed, thresholds, now_ms=oldest.committed_at_ms + 15_000)
    assert ready(history, committed, thresholds, now_ms=oldest.committed_at_ms + 20_000)


def test_age_alone_is_not_ready(history):
    """Rows are needed at any age."""
    committed = history.append()

    assert not ready(history, committed, Thresholds.parse(min_files=1, or_after=1))


def test_the_reason_names_what_is_missing(history):
    """The log has what the sensor waits for, and until when."""
    committed = history.append()
    history.append()
    thresholds = Thresholds.parse(min_files=2, min_records=AtLeast(11, or_after=60))

    reason = assess(backlog_of(history, committed=committed, settings=SETTINGS), thresholds, now_ms=0).reason

    assert "waiting for min_files=2, min_records=11 or 1970-01-01T00:01:02Z" in reason


def test_thresholds_survive_being_stored():
    """A deferred sensor's trigger is rebuilt from what it serialised."""
    thresholds = Thresholds.parse(min_files=5, min_bytes=AtLeast(7, or_after=timedelta(minutes=1)), or_after=3)

    assert Thresholds.parse(**thresholds.to_json()) == thresholds


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "10"])
def test_a_wrong_threshold_is_refused(value):
    """The parameter and the value are named."""
    with pytest.raises(InputError, match=f"min_files: threshold {value!r}"):
        Thresholds.parse(min_files=value)


@pytest.mark.parametrize("value", [0, -1, timedelta(0), True, float("inf"), float("nan"), "1h"])
def test_a_wrong_age_is_refused(value):
    """Zero would make every threshold void."""
    with pytest.raises(InputError, match="or_after"):
        Thresholds.parse(min_files=1, or_after=value)


def test_an_age_without_a_threshold_is_refused():
    """There is nothing that it could overrule."""
    with pytest.raises(InputError, match="without min_files"):
        Thresholds.parse(or_after=60)


def test_several_tables_are_ready_any_or_all(history):
    """`require` determines how many must be."""
    committed = history.append()
    nothing = assess(backlog_of(history, committed=committed, settings=SETTINGS), NO_THRESHOLDS, now_ms=0)
    history.append()
    something = assess(backlog_of(history, committed=committed, settings=SETTINGS), NO_THRESHOLDS, now_ms=0)

    assert Require.parse("any").is_met([nothing.ready, something.ready])
    assert not Require.parse("all").is_met([nothing.ready, something.ready])
    assert Require.parse("all").is_met([something.ready, something.ready])
    with pytest.raises(InputError, match="most"):
        Require.parse("most")


def test_it_waits_until_nothing_came_for_so_long(history):
    """Counted from the newest append: compaction and empty commits do not disturb, another append does."""
    committed = history.append()
    appended_ms = history.append().committed_at_ms
    quiet = Thresholds.parse(quiet_for=timedelta(minutes=10))
    later_ms = appended_ms + 600_000

    assert not ready(history, committed, quiet, now_ms=later_ms - 1)
    assert ready(history, committed, quiet, now_ms=later_ms)
    history.compact()
    assert ready(history, committed, quiet, now_ms=later_ms)
    disturbed_ms = history.append().committed_at_ms
    assert not ready(history, committed, quiet, now_ms=disturbed_ms + 599_999)


def test_it_does_not_wait_for_quiet_for_ever(history):
    """A source that is written without a pause is taken when its oldest rows are old enough."""
    committed = history.append()
    oldest_ms = history.append().committed_at_ms
    thresholds = Thresholds.parse(quiet_for=600, or_after=3600)

    assert thresholds == Thresholds.parse(**thresholds.to_json())
    due_ms = oldest_ms + 3_600_000
    while history.append().committed_at_ms < due_ms - 1:
        pass
    assert ready(history, committed, thresholds, now_ms=due_ms)
    assert not ready(history, committed, Thresholds.parse(quiet_for=600), now_ms=due_ms)


def test_a_pause_that_could_never_count_is_refused():
    """Rows would always be old enough first."""
    with pytest.raises(InputError, match="not longer than quiet_for"):
        Thresholds.parse(quiet_for=3600, or_after=600)
    for length in (0, -1, True, "10m", float("nan")):
        with pytest.raises(InputError, match="quiet_for"):
            Thresholds.parse(quiet_for=length)
