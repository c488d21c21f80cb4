"""A managed backfill: planned in chunks, each a mapped instance that is processed, committed and cleared by itself."""

from contextlib import ExitStack
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from airflow_provider_ips import IpBackfillOperator
from airflow_provider_ips.core.errors import CheckpointConflictError, GapError, InputError
from airflow_provider_ips.core.settings import ALL_OPERATIONS, SourceTable
from tests.airflow.backfills import Daily, backfilling, daily_table, days_of, october, per_day, recomputed, spoil
from tests.kit import people
from tests.kit.pipelines import Job, checkpoint_of, default_store, incremental, left_running, waiting
from tests.kit.tables import append, create, icdc_tables

CHUNK_DONE = {"chunk.capture": "success", "chunk.work": "success", "chunk.commit": "success"}


@pytest.fixture
def days(lake):
    """Rows of four days, partitioned by day, each day in a snapshot of its own; then one late row of the second."""
    table = create(lake, "db.days")
    with table.update_spec() as spec:
        spec.add_identity("day")
    for number in range(1, 5):
        append(table, [number, 10 * number], day=october(number))
    append(table, [200], day=october(2))
    daily_table(lake)
    return table


@pytest.fixture
def job(lake):
    return Daily(lake)


def instances(states, place):
    """The states of one chunk's tasks."""
    return {name.removesuffix(f"[{place}]"): state for name, state in states.items() if name.endswith(f"[{place}]")}


def chunks(ran):
    """What the plan has handed over."""
    return ran.xcom("return_value", task="plan")


def snapshots(table):
    """Their ids, oldest first."""
    return [str(each.snapshot_id) for each in table.refresh().snapshots()]


def documents():
    """Every checkpoint, as text."""
    return {place: parse().to_text() for place, _, parse in default_store().documents()}


def test_partitions_are_backfilled_chunk_by_chunk_and_the_live_checkpoint_stays(lake, days, job, run_dag):
    """Each chunk is a mapped instance; each day is computed once. Not a byte of a checkpoint changes."""
    run_dag(incremental("live", "db.days", Daily(lake, source="db.days")))
    spoil(lake, 1, 2, 3, 4)
    before = documents()

    ran = run_dag(backfilling("chunked", job, partitions="day >= '2026-10-02'", max_partitions=2))

    assert [instances(ran.states, place) for place in range(2)] == [CHUNK_DONE] * 2
    assert sorted(job.days) == [[2, 3], [4]]
    assert {day: found for day, found in per_day(lake).items() if day != 1} == {
        day: found for day, found in recomputed(lake).items() if day != 1
    }
    labels = ["day=2026-10-02 … day=2026-10-03", "day=2026-10-04"]
    assert [chunk["label"] for chunk in chunks(ran)] == labels
    captures = [ti for ti in ran.dag_run.get_task_instances() if ti.task_id == "chunk.capture"]
    assert sorted(ti.rendered_map_index for ti in captures) == labels
    assert ran.xcom("commit", task="chunk.commit", map_index=0)["outcome"] == "detached"
    assert list(before)
    assert documents() == before
    assert checkpoint_of("live.capture").pending is None


def test_a_chunk_that_failed_is_cleared_alone_while_two_live_stages_go_on(lake, days, run_dag):
    """The others are not done again; late rows that live runs took meanwhile stay; stage 2 sees what really changed."""
    seen: list[list[int]] = []
    live = incremental("stage_1", "db.days", Daily(lake, source="db.days", only_if_wrong=True))
    second = incremental(
        "stage_2",
        "db.daily",
        days_of(lake, seen),
        capture={"data_operations": ALL_OPERATIONS, "on_superset": "allow"},
    )
    run_dag(live)
    run_dag(second)
    spoil(lake, 2, 3)
    run_dag(second)
    job = Daily(lake, only_if_wrong=True)
    job.fails_on = {3}
    dag = backfilling("repaired", job, partitions="day <= '2026-10-03'", max_partitions=1)
    checkpoint = checkpoint_of("stage_1.capture")

    failed = run_dag(dag)
    assert instances(failed.states, 1) == instances(failed.states, 0) == CHUNK_DONE
    assert instances(failed.states, 2)["chunk.work"] == "failed"
    assert checkpoint_of("stage_1.capture") == checkpoint
    append(days, [300], day=october(3))
    run_dag(live)
    assert per_day(lake) == recomputed(lake)  # the live run has made the third day anew, with the late row
    spoil(lake, 3)
    job.fails_on, tried = set(), list(job.days)
    people.clear(failed, "chunk.capture[2]", "chunk.work[2]", "chunk.commit[2]")
    again = people.go_on(dag, failed)

    assert [instances(again.states, place) for place in range(3)] == [CHUNK_DONE] * 3
    assert job.days == [*tried, [3]]
    assert per_day(lake) == recomputed(lake)
    seen.clear()
    run_dag(second)
    assert seen == [[2, 3]]


def test_clearing_the_plan_gives_the_same_chunks(lake, days, job, run_dag):
    """Of the table as it stood then; what came since is the live runs' business. Another run plans it anew."""
    dag = backfilling("again", job, everything=True, max_files=2)
    first = run_dag(dag)
    append(days, [5], day=october(5))
    append(days, [100], day=october(1))

    people.clear(first, "plan")
    again = people.go_on(dag, first)

    assert chunks(again) == chunks(first)
    assert [chunk["files"] for chunk in chunks(first)] == [1, 2, 2]
    anew = run_dag(backfilling("anew", job, everything=True, max_files=2, dry_run=True))
    assert [chunk["files"] for chunk in anew.xcom("backfill", task="plan")["chunks"]] == [2, 2, 2, 1]


def test_rows_of_partitions_are_those_of_the_chunks_capture_or_of_the_plan(lake, days, job, run_dag):
    """A job that replaces days must not take back what a live run wrote since the plan; unless one moment is wanted."""

    class LateRows(IpBackfillOperator):
        def execute(self, context):
            planned = super().execute(context)
            append(days, [77], day=october(4))
            return planned

    asked = {"partitions": "day = '2026-10-04'", "operator": LateRows}
    run_dag(backfilling("of_now", job, **asked))
    assert per_day(lake)[4] == (3, 4 + 40 + 77)

    run_dag(backfilling("of_then", job, as_of="plan", **asked))
    assert per_day(lake)[4] == (3, 4 + 40 + 77)  # of two such rows by now


def test_consecutive_ranges_adjoin_whatever_is_appended_meanwhile(lake, days, run_dag):
    """From the snapshot asked for to where the table stood at the plan, each row once."""
    job = Job(lake)
    ids = snapshots(days)
    dag = backfilling("ranged", job, since_snapshot=ids[0], max_snapshots=2)

    ran = run_dag(dag)

    asked = [chunk["asked"] for chunk in chunks(ran)]
    assert [(each["since_snapshot"], each["until_snapshot"]) for each in asked] == [(ids[0], ids[2]), (ids[2], ids[4])]
    assert sorted(job.seen) == [[2, 3, 20, 30], [4, 40, 200]]
    append(days, [5], day=october(5))
    people.clear(ran, "plan", "chunk.capture[0]", "chunk.capture[1]", "chunk.work[0]", "chunk.work[1]")
    assert chunks(people.go_on(dag, ran)) == chunks(ran)
    assert sorted(job.seen) == sorted([[2, 3, 20, 30], [4, 40, 200]] * 2)


def test_a_range_may_begin_before_the_first_snapshot_and_be_filtered(lake, days, run_dag):
    """The filter holds in each chunk; one without any of it is skipped, for the plan has asked already."""
    job = Job(lake)
    asked = {"since_time": "2020-01-01T00:00:00+00:00", "partitions": "day = '2026-10-02'", "max_snapshots": 1}

    ran = run_dag(backfilling("filtered", job, **asked))

    assert sorted(job.seen) == [[2, 20], [200]]
    assert [instances(ran.states, place)["chunk.work"] for place in range(5)].count("skipped") == 3


def test_the_form_goes_first_and_its_limits_bound_the_chunks(lake, days, job, run_dag):
    """With any wish: of partitions too, where the limit on snapshots is one on the values that are kept together."""
    asked = {"partitions": "day = '2026-10-01'", "max_partitions": 1, "dry_run": True}
    wish = {"ips_run": "partitions", "ips_partitions": "day >= '2026-10-02'"}

    told = [
        run_dag(backfilling(f"formed_{name}", job, **asked), conf=conf).xcom("backfill", task="plan")
        for name, conf in {
            "full": {"ips_run": "full"},
            "values": {**wish, "ips_max_snapshots": 2},
            "files": {**wish, "ips_max_files": 3},
            "range": {"ips_run": "snapshot", "ips_since_snapshot": snapshots(days)[1], "ips_max_snapshots": 2},
        }.items()
    ]

    assert told[0]["asked"] == {"run": "full", "dry_run": True}
    assert [[chunk["files"] for chunk in each["chunks"]] for each in told] == [[1, 2, 1, 1], [3, 1], [3, 1], [2, 1]]


def test_a_backfill_moves_no_checkpoint(lake, days, job, run_dag):
    ran = run_dag(backfilling("moving", job), conf={"ips_run": "full", "ips_move_checkpoint": True})

    assert "ips_move_checkpoint with a backfill" in str(ran.errors["plan"])


def test_a_dry_run_lists_each_stage_and_does_nothing(lake, days, job, run_dag):
    """Stage 1 to the file; further down what the filter selects there, or why that is not known."""
    run_dag(incremental("filling", "db.days", job))
    create(lake, "db.flat")
    before = documents(), icdc_tables(lake), per_day(lake)
    stages = ["db.daily", "db.flat", "db.nowhere"]
    dag = backfilling("dry", job, partitions="day < '2026-10-04'", max_partitions=2, stages=stages, dry_run=True)

    ran = run_dag(dag)

    assert ran.states == {"plan": "success", **dict.fromkeys(CHUNK_DONE, "skipped")}
    told = ran.xcom("backfill", task="plan")
    assert (told["dry_run"], told["partitions"], told["files"], told["records"]) == (True, 3, 4, 7)
    assert told["bytes"] == sum(chunk["bytes"] for chunk in told["chunks"]) > 0
    assert [chunk["label"] for chunk in told["chunks"]] == ["day=2026-10-01 … day=2026-10-02", "day=2026-10-03"]
    daily, flat, nowhere = told["stages"]
    assert (daily["partitions"], daily["files"], daily["records"], daily["unknown"]) == (3, 3, 3, "")
    assert (flat["partitions"], "not partitioned by it" in flat["unknown"]) == (None, True)
    assert "does not exist" in nowhere["unknown"]
    assert (documents(), icdc_tables(lake), per_day(lake)) == before


def test_a_dry_run_of_a_range_counts_what_its_filter_leaves(lake, days, job, run_dag):
    """To the file; further down a range without a filter reaches the days that its own rows are of."""
    ids = snapshots(days)
    options = {"since_snapshot": ids[0], "stages": "db.daily", "dry_run": True}

    ran = [
        run_dag(backfilling(f"dry_{place}", job, partitions=filtered, **options)).xcom("backfill", task="plan")
        for place, filtered in enumerate(["day = '2026-10-02'", None])
    ]

    assert [(told["partitions"], told["files"], told["records"]) for told in ran] == [(1, 2, 3), (3, 4, 7)]
    assert [told["stages"][0]["unknown"] for told in ran] == ["", ""]


def test_a_dry_run_of_a_range_tells_which_partitions_it_reaches_further_down(lake, days, job, run_dag):
    """By the days of its rows, where a stage is partitioned by them too; what a range deletes nobody has looked at."""
    run_dag(incremental("filling", "db.days", job))
    append(create(lake, "db.flat"), [1])
    texts = lake.create_table("db.texts", schema=pa.schema([("day", pa.string())]))
    with texts.update_spec() as spec:
        spec.add_identity("day")
    texts.append(pa.table({"day": ["2026-10-02"]}))
    asked = {"since_snapshot": snapshots(days)[2], "stages": ["db.daily", "db.flat", "db.texts", "db.nowhere"]}

    ran = run_dag(backfilling("reaching", job, dry_run=True, **asked))
    changes = {"source_table": SourceTable("db.days", data_operations=ALL_OPERATIONS)}
    capture = {"data_operations": ALL_OPERATIONS}
    of_changes = run_dag(backfilling("changing", job, dry_run=True, **asked, **changes, capture=capture))

    daily, flat, texts, nowhere = ran.xcom("backfill", task="plan")["stages"]
    # The range gained a row of the fourth day, and a late one of the second.
    assert (daily["partitions"], daily["files"], daily["records"], daily["unknown"]) == (2, 2, 2, "")
    assert flat["unknown"] == texts["unknown"].replace("texts", "flat")
    assert flat["unknown"] == "db.flat is not partitioned by day, whose values are what is known of the range's rows"
    assert "does not exist" in nowhere["unknown"]
    assert of_changes.xcom("backfill", task="plan")["stages"][0]["unknown"].startswith("a range without a filter")


ASKED_BACK = [
    ({}, InputError, "nothing says what to backfill"),
    ({"partitions": "day > '2027-01-01'"}, InputError, "selects none of the partitions"),
    ({"partitions": "day > '2020-01-01'"}, InputError, "selects everything that db.days has: 5 files, day from"),
    ({"partitions": "id = 1"}, InputError, "not partitioned by it"),
    ({"partitions": "day >>"}, InputError, "cannot be read"),
    ({"partitions": "day = '2026-10-01'", "chunk_by": "id"}, InputError, "is not a partition column"),
    ({"since_snapshot": "123"}, GapError, "is not in the lineage"),
    ({"until_snapshot": "123"}, InputError, "without since_snapshot or since_time"),
]


@pytest.mark.parametrize(("asked", "kind", "told"), ASKED_BACK, ids=[told for *_, told in ASKED_BACK])
def test_what_cannot_be_meant_is_asked_back_before_anything_is_written(asked, kind, told, lake, days, job, run_dag):
    ran = run_dag(backfilling("asked_back", job, **asked))

    assert kind in type(ran.errors["plan"]).__bases__  # Airflow does not try it again
    assert told in str(ran.errors["plan"])
    assert ran.errors["plan"].remedy
    assert icdc_tables(lake) == []
    assert not [key for key in _variables() if key.startswith("ips_")]


def test_a_filter_that_selects_everything_can_be_meant(lake, days, job, run_dag):
    ran = run_dag(backfilling("meant", job, partitions="day > '2020-01-01'", everything=True, dry_run=True))

    assert len(ran.xcom("backfill", task="plan")["chunks"]) == 4


def test_a_range_older_than_retention_is_refused_with_what_is_left(lake, days, job, run_dag):
    """With the oldest snapshot there is; the partitions' rows are live, so those can be backfilled."""
    ids = snapshots(days)
    days.maintenance.expire_snapshots().by_id(int(ids[0])).commit()

    for asked in ({"since_snapshot": ids[0]}, {"since_time": "2020-01-01T00:00:00+00:00"}):
        ran = run_dag(backfilling("expired", job, **asked))
        assert isinstance(ran.errors["plan"], GapError)
        assert ids[1] in str(ran.errors["plan"])


def test_more_chunks_than_airflow_maps_are_refused(lake, days, job, run_dag, monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "2")

    ran = run_dag(backfilling("many", job, everything=True))

    assert "4 chunks, and Airflow maps 2 at most" in str(ran.errors["plan"])


def _variables():
    from airflow.models.variable import Variable as StoredVariable
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        return list(session.scalars(select(StoredVariable.key)))


TARGET = {"target_tables": "db.daily"}


def test_a_second_backfill_of_the_same_part_of_a_target_is_refused_while_the_first_is_active(lake, days, job, run_dag):
    """With the first one's run; other days of it may be backfilled meanwhile, and the same once it has ended."""
    first = run_dag(backfilling("first", job, partitions="day <= '2026-10-02'", **TARGET))
    second = {"partitions": "day between '2026-10-02' and '2026-10-03'", **TARGET}

    with left_running(first):
        refused = run_dag(backfilling("second", job, **second))
        beside = run_dag(backfilling("beside", job, partitions="day >= '2026-10-03'", max_partitions=2, **TARGET))
        elsewhere = run_dag(backfilling("elsewhere", job, **{**second, "target_tables": "db.other", "dry_run": False}))
    behind = run_dag(backfilling("behind", job, **second))

    assert isinstance(refused.errors["plan"], CheckpointConflictError)
    assert f"first/{first.dag_run.run_id}" in str(refused.errors["plan"])
    assert "some partitions in full, partitions day <= '2026-10-02'" in str(refused.errors["plan"])
    assert instances(beside.states, 0) == instances(elsewhere.states, 0) == instances(behind.states, 0) == CHUNK_DONE


def test_a_second_backfill_can_wait(lake, days, job, run_dag):
    """It gives up its slot and comes back, as a rescheduled sensor does; by then the other has ended."""
    waits: list[datetime] = []
    first = run_dag(backfilling("ahead", job, partitions="day = '2026-10-02'", **TARGET))
    other = ExitStack()
    other.enter_context(left_running(first))
    started = datetime.now(tz=UTC)

    ran = run_dag(
        backfilling(
            "patient",
            job,
            operator=waiting(IpBackfillOperator, other, waits),
            partitions="day = '2026-10-02'",
            on_active_backfill="wait",
            **TARGET,
        )
    )

    assert instances(ran.states, 0) == CHUNK_DONE
    assert [wait > started for wait in waits] == [True]


def test_a_deleted_backfill_is_in_nobodys_way(lake, days, job, run_dag):
    first = run_dag(backfilling("deleted", job, partitions="day = '2026-10-02'", **TARGET))
    with left_running(first):
        people.remove(first)

    ran = run_dag(backfilling("free", job, partitions="day = '2026-10-02'", **TARGET))

    assert instances(ran.states, 0) == CHUNK_DONE


def test_a_chunk_that_is_cleared_later_asks_again(lake, days, job, run_dag):
    """Another backfill may be at work there by now; when that has ended, the chunk goes first again."""
    dag = backfilling("earlier", job, partitions="day = '2026-10-02'", **TARGET)
    first = run_dag(dag)
    other = backfilling("later", job, partitions="day <= '2026-10-02'", **TARGET)
    later = run_dag(other)
    people.clear(first, "chunk.capture[0]", "chunk.work[0]", "chunk.commit[0]")

    with left_running(later):
        refused = people.go_on(dag, first)
    assert "run later/" in str(refused.errors["chunk.capture"])

    people.clear(first, "chunk.capture[0]", "chunk.work[0]", "chunk.commit[0]")
    assert instances(people.go_on(dag, first).states, 0) == CHUNK_DONE
    people.clear(later, "chunk.capture[0]")
    with left_running(first):
        assert "run earlier/" in str(people.go_on(other, later).errors["chunk.capture"])


def test_a_chunk_of_another_table_is_refused(lake, days, job, run_dag):
    """What was planned must be what is processed."""
    create(lake, "db.users")

    ran = run_dag(backfilling("mixed", job, partitions="day = '2026-10-02'", capture={"source_tables": "db.users"}))

    assert "is of 'db.days', and db.users is to be captured" in str(ran.errors["chunk.capture"])
