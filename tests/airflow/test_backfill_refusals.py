"""Backfills beside tables, runs and people that do not stand still: what is refused, waited for, or told."""

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk import DAG, task_group
from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_provider_ips import IpBackfillOperator, IpCommitOperator, iceberg_asset, ips_params
from airflow_provider_ips.core.errors import CheckpointConflictError, GapError, InputError, RefusedOperationError
from airflow_provider_ips.core.requests.request import RunKind, RunRequest
from airflow_provider_ips.runs.backfill.plan import preview_stage, stage_line
from tests.airflow.backfills import (
    Daily,
    backfilling,
    daily_table,
    left_queued,
    october,
    per_day,
    recomputed,
    write_day,
)
from tests.kit import people
from tests.kit.pipelines import Job, capturing, checkpoint_of, incremental, left_running
from tests.kit.tables import append, create, icdc_tables

TWO_DAYS: dict[str, Any] = {"partitions": "day <= '2026-10-02'"}
CHUNK_DONE = {"chunk.capture": "success", "chunk.work": "success", "chunk.commit": "success"}


def days_table(lake, *more, **options):
    """Two rows of each of four days, partitioned by day, each day in a snapshot of its own."""
    table = create(lake, "db.days", **options)
    with table.update_spec() as spec:
        for column in ("day", *more):
            spec.add_identity(column)
    for number in range(1, 5):
        append(table, [number, 10 * number], day=october(number))
    daily_table(lake)
    return table


@pytest.fixture
def days(lake):
    return days_table(lake)


@pytest.fixture
def job(lake):
    return Daily(lake)


def snapshots(table):
    return [str(each.snapshot_id) for each in table.refresh().snapshots()]


def told(ran):
    """What the plan has pushed."""
    return ran.xcom("backfill", task="plan")


def meanwhile(act):
    """A plan behind which something happens before its chunks are captured."""

    class Overtaken(IpBackfillOperator):
        def execute(self, context):
            planned = super().execute(context)
            act()
            return planned

    return Overtaken


def test_late_rows_in_a_new_partition_of_a_planned_day_stay_in_the_target(lake, run_dag):
    """A live run has put them there, and the chunk's job replaces the day."""
    days = days_table(lake, "id")

    def live_run():
        append(days, [777], day=october(1))
        write_day(lake, october(1), *recomputed(lake)[1])

    ran = run_dag(backfilling("late", Daily(lake), operator=meanwhile(live_run), **TWO_DAYS))

    assert ran.dag_run.state == "success"
    assert per_day(lake) == {day: found for day, found in recomputed(lake).items() if day <= 2}


def test_chunks_of_a_table_that_was_rewritten_into_another_spec_are_not_empty(lake, days, job, run_dag):
    def rewrite():
        with days.update_spec() as spec:
            spec.add_identity("id")
        days.refresh()
        days.overwrite(days.scan("day <= '2026-10-02'").to_arrow(), "day <= '2026-10-02'")

    ran = run_dag(backfilling("rewritten", job, operator=meanwhile(rewrite), **TWO_DAYS))

    assert ran.dag_run.state == "success"
    assert per_day(lake) == {day: found for day, found in recomputed(lake).items() if day <= 2}


def test_a_job_is_not_handed_what_it_does_not_stand(lake, days, job, run_dag):
    """One that replaces days would delete what a range does not hand over of them."""
    stands = {"runs": ("partitions", "full")}

    refused = run_dag(
        backfilling("of_a_range", job, **stands), conf={"ips_run": "snapshot", "ips_since_snapshot": snapshots(days)[0]}
    )

    assert isinstance(refused.errors["plan"], InputError)
    assert "its job can process 'partitions' and 'full' only" in str(refused.errors["plan"])
    assert icdc_tables(lake) == []
    whole = run_dag(backfilling("of_all", job, **stands), conf={"ips_run": "full", "ips_dry_run": True})
    assert whole.states["plan"] == "success"


@pytest.mark.parametrize("runs", [(), "range", ("partitions", "usual")])
def test_kinds_of_backfills_that_there_are_not_are_refused(runs):
    with pytest.raises(InputError, match="runs="):
        IpBackfillOperator(task_id="plan", source_table="db.days", runs=runs)


def test_the_whole_table_and_a_range_of_it_contradict_each_other():
    with pytest.raises(InputError, match="everything=True with since_snapshot or since_time"):
        IpBackfillOperator(task_id="plan", source_table="db.days", everything=True, since_snapshot="7")


def test_a_limit_on_the_other_kind_of_chunk_is_told(lake, days, job, run_dag):
    since = {"ips_run": "snapshot", "ips_since_snapshot": snapshots(days)[0], "ips_dry_run": True}

    ran = run_dag(backfilling("idle", job, max_partitions=7), conf=since)
    both = run_dag(backfilling("both", job, max_partitions=7, max_snapshots=3), conf=since)

    assert any(note.startswith("max_partitions=7 limits no chunk of a range") for note in told(ran)["warnings"])
    assert not any("limits no chunk" in note for note in told(both)["warnings"])
    assert [len(told(each)["chunks"]) for each in (ran, both)] == [3, 1]


def test_a_chunk_that_exceeds_a_bound_by_itself_is_told(lake, days, job, run_dag):
    append(days, [200], day=october(2))

    ran = run_dag(backfilling("large", job, max_files=1, dry_run=True, **TWO_DAYS))

    (note,) = [each for each in told(ran)["warnings"] if "more than a limit" in each]
    assert note.startswith("chunk 2 (day=2026-10-02) has more than a limit allows: 2 files, 3 rows")


def test_without_a_target_nobody_notices_other_backfills_and_the_plan_says_so(lake, days, job, run_dag):
    """Two runs of this DAG do notice each other."""
    ran = run_dag(backfilling("unknown", job, dry_run=True, **TWO_DAYS))
    known = run_dag(backfilling("known", job, dry_run=True, target_tables="db.daily", **TWO_DAYS))

    assert told(ran)["targets"] == ["whatever DAG unknown writes"]
    assert "no target is known" in told(ran)["warnings"][0]
    assert told(known)["warnings"] == []


def test_a_refusal_names_the_target_that_both_write(lake, days, job, run_dag):
    first = run_dag(backfilling("first", job, target_tables="db.daily", **TWO_DAYS))

    with left_running(first):
        ran = run_dag(backfilling("second", job, target_tables=["db.another", "db.daily"], **TWO_DAYS))

    assert "writes db.daily@main as well" in str(ran.errors["plan"])


@pytest.mark.parametrize("format_version", ["1", "2"])
def test_two_ranges_of_one_target_always_overlap(lake, run_dag, format_version):
    """Both may hold rows of the same day, whenever these came. In format version 1 no range has sequence numbers."""
    days = days_table(lake, properties={"format-version": format_version})
    ids, target = snapshots(days), {"target_tables": "db.daily"}
    first = run_dag(backfilling("first", Job(lake), since_snapshot=ids[0], until_snapshot=ids[1], **target))

    with left_running(first):
        ran = run_dag(backfilling("second", Job(lake), since_snapshot=ids[2], **target))

    assert isinstance(ran.errors["plan"], CheckpointConflictError)


def test_backfills_of_two_countries_overlap_in_their_days(lake, run_dag):
    """The job replaces days, whatever the filter names first. With chunk_by it is said to be otherwise."""
    days_table(lake, "id")
    target = {"target_tables": "db.daily"}
    first = run_dag(backfilling("first", Job(lake), partitions="id in (1, 2)", **target))

    with left_running(first):
        ran = run_dag(backfilling("second", Job(lake), partitions="id = 10 and day = '2026-10-01'", **target))
        beside = run_dag(backfilling("beside", Job(lake), partitions="id = 40", **target))

    assert told(first)["chunk_by"] == "day"
    assert isinstance(ran.errors["plan"], CheckpointConflictError)
    assert beside.states["plan"] == "success"


def test_waiting_for_a_run_that_is_queued_behind_this_one_would_never_end(lake, days, job, run_dag):
    """One run of the DAG goes at a time. If the other one is running, it ends by itself."""
    requested = {"target_tables": "db.daily", "on_active_backfill": "wait", **TWO_DAYS}
    waits = []

    class Waiting(IpBackfillOperator):
        def execute(self, context):
            try:
                return super().execute(context)
            except AirflowRescheduleException:
                waits.append(context["run_id"])
                raise RuntimeError("it waits") from None

    dag = backfilling("one_at_a_time", job, operator=Waiting, dag={"max_active_runs": 1}, **requested)
    first = run_dag(dag)
    with left_queued(first):
        refused = run_dag(dag)
    with left_running(first):
        run_dag(dag)

    assert isinstance(refused.errors["plan"], CheckpointConflictError)
    assert "is queued after this run" in str(refused.errors["plan"])
    assert len(waits) == 1


def test_partitions_are_planned_anew_once_the_snapshot_of_the_plan_is_gone(lake, days, job, run_dag):
    """Their rows are live, so that loses nothing. Of one moment it would not be, and a range is of its snapshots."""
    partitions = backfilling("of_partitions", job, **TWO_DAYS)
    moment = backfilling("of_one_moment", job, as_of="plan", **TWO_DAYS)
    ranged = backfilling("of_a_range", Job(lake), since_snapshot=snapshots(days)[2])
    ran = [run_dag(dag) for dag in (partitions, moment, ranged)]
    planned_at = days.refresh().current_snapshot().snapshot_id
    append(days, [5], day=october(1))
    days.maintenance.expire_snapshots().by_id(planned_at).commit()

    for each in ran:
        people.clear(each, "plan")
    again = [people.go_on(dag, each) for dag, each in zip((partitions, moment, ranged), ran, strict=True)]

    assert any(
        f"snapshot {planned_at}, which has expired: planned again" in note for note in told(again[0])["warnings"]
    )
    assert [chunk["files"] for chunk in told(again[0])["chunks"]] == [2, 1]
    for each in again[1:]:
        assert isinstance(each.errors["plan"], GapError)
        assert "trigger a new run" in str(each.errors["plan"])


def test_an_error_of_a_plan_has_nobody_move_a_checkpoint(lake, days, job, run_dag):
    """The usual capture's remedy is to reset the live consumer, which has nothing to do with a backfill."""
    since = snapshots(days)[0]
    days.delete("day = '2026-10-02'")

    ran = run_dag(backfilling("changed", job, since_snapshot=since))

    assert isinstance(ran.errors["plan"], RefusedOperationError)
    assert "is not an append" in str(ran.errors["plan"])
    assert "request partitions" in ran.errors["plan"].remedy
    assert not any(word in str(ran.errors["plan"]) for word in ("ips reset", "ips seed", "pause", "checkpoint"))


def test_a_range_may_end_at_a_snapshot_or_a_moment(lake, days, run_dag):
    ids = snapshots(days)
    second = days.refresh().snapshots()[1]
    ends = {
        "snapshot": {"until_snapshot": ids[1]},
        "moment": {"until_time": datetime.fromtimestamp(second.timestamp_ms / 1000, tz=UTC).isoformat()},
    }

    for name, end in ends.items():
        job = Job(lake)
        ran = run_dag(backfilling(f"until_{name}", job, since_snapshot=ids[0], **end))
        assert (ran.dag_run.state, job.seen) == ("success", [[2, 20]])


def test_a_stage_that_lacks_the_days_is_said_to_gain_all_of_them(lake, days):
    """What it holds now is no bound on what will come."""
    requested = RunRequest(kind=RunKind.PARTITIONS, **TWO_DAYS)

    assert (
        stage_line(preview_stage(lake, "db.daily", requested))
        == "holds none of these partitions now: all rows will be new"
    )
    write_day(lake, october(1), 2, 11)
    assert stage_line(preview_stage(lake, "db.daily", requested)).startswith("holds now 1 partition, 1 file, 1 row, ")
    assert "does not exist" in stage_line(preview_stage(lake, "db.nowhere", requested))


def test_a_chunk_that_is_nothing_moves_no_live_checkpoint(lake, days, run_dag):
    """What the capture was given is a chunk; that it came out as None must not have it take its usual range."""
    job = Job(lake)
    run_dag(incremental("live", "db.days", job, capture={"consumer": "live"}))
    append(days, [50], day=october(3))
    before = checkpoint_of("live")

    ran = run_dag(incremental("nothing", "db.days", job, capture={"consumer": "live", "chunk": Nothing()}))

    assert "chunk= of capture 'capture' is None in this run" in str(ran.errors["capture"])
    assert checkpoint_of("live") == before


class Nothing:
    """An argument that is known at run time only, and is None then."""

    def resolve(self, _context, **_):
        return None


def test_commits_of_chunks_wake_stages_that_wait_for_the_target(lake, days, job, run_dag):
    """Each chunk by itself; and what they write need not be said to the plan again."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    target = iceberg_asset("db.daily", iceberg_conn_id="lake")

    ran = run_dag(backfilling("waking", job, commit={"target_assets": target}, **TWO_DAYS))

    assert told(ran)["targets"] == ["db.daily@main"]
    with create_session() as session:
        wanted = select(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        events = list(session.scalars(wanted.where(AssetModel.uri == target.uri)))
        assert {event.source_map_index for event in events} == {0, 1}
        assert len(events) == 2


def test_a_stage_behind_the_group_captures_its_usual_range(lake, days, job, run_dag):
    """It follows chunks that are committed: that is no capture of the backfill."""
    seen = Job(lake)
    with DAG("onward", schedule=None, params=ips_params()) as dag:
        plan = IpBackfillOperator(task_id="plan", source_table="db.days", iceberg_conn_id="lake", **TWO_DAYS)

        @task_group
        def chunk(chunk):
            captured = capturing("db.days", chunk=chunk)
            captured >> IpCommitOperator(task_id="commit", capture=captured)

        second = capturing("db.days", task_id="second", follow_params=False, trigger_rule="none_failed")
        chunk.expand(chunk=plan.output) >> second >> IpCommitOperator(task_id="commit", capture=second)

    ran = run_dag(dag)

    assert (ran.states["second"], ran.dag_run.state, seen.seen) == ("success", "success", [])
