"""Several runs at once: of one DAG, of a backfill, of two DAGs with one consumer, in a row that depends on the past."""

from datetime import datetime
from itertools import pairwise

DONE = {"capture": "success", "work": "success", "commit": "success"}
SKIPPED = {"capture": "success", "work": "skipped", "commit": "skipped"}


def test_a_second_run_does_not_take_what_the_first_is_working_on(story):
    """It fails and says whose range that is; cleared later, it finds it done."""
    rivals = story("rivals")
    rivals.tables([1])
    rivals.hold("work.begin")
    first = rivals.rest.trigger("rivals")
    rivals.until_held("work.begin")

    second, states = rivals.run()
    assert states["capture"] == "failed"
    said = rivals.log(second, "capture")
    assert f"run rivals/{first} has captured" in said
    assert "on_active_run='wait'" in said

    rivals.release("work.begin")
    assert rivals.finish(first) == DONE
    rivals.rest.clear("rivals", second)
    assert rivals.finish(second) == SKIPPED
    assert rivals.target == [1]


def test_a_second_run_can_wait_for_the_first(story):
    """It gives up its slot meanwhile, and takes what came since."""
    patient = story("patient")
    patient.tables([1])
    patient.hold("work.begin")
    first = patient.rest.trigger("patient")
    patient.until_held("work.begin")
    second = patient.rest.trigger("patient")
    patient.rest.wait_for_task("patient", second, "capture", "up_for_reschedule")

    patient.append([2])
    patient.release("work.begin")
    assert patient.finish(first) == DONE
    assert patient.target == [1]
    assert patient.finish(second) == DONE
    assert patient.target == [1, 2]


def test_runs_of_a_backfill_take_turns(story, airflow):
    """They pass over max_active_runs=1, and still no two captures run at once and no row comes twice."""
    backfilled = story("backfilled")
    backfilled.tables([1, 2])
    backfilled.hold("work.begin")
    days = ("--from-date", "2026-01-02", "--to-date", "2026-01-04")
    airflow.run("backfill", "create", "--dag-id", "backfilled", *days, "--max-active-runs", "3")
    backfilled.until_held("work.begin")
    backfilled.rest.wait_for(lambda: len(_refused(backfilled)) == 2, "both other runs to be refused")
    runs = backfilled.rest.runs("backfilled")
    assert [run["run_type"] for run in runs] == ["backfill"] * 3
    assert [run["state"] for run in runs] == ["running"] * 3

    backfilled.append([3])
    backfilled.release("work.begin")
    states = [backfilled.finish(run["dag_run_id"]) for run in runs]
    assert sorted(states, key=lambda each: each["work"]) == [SKIPPED, DONE, DONE]
    assert backfilled.target == [1, 2, 3]
    assert backfilled.committed() == backfilled.head
    _assert_one_at_a_time(backfilled)


def _refused(backfilled):
    """The runs whose capture has been refused at least once."""
    runs = [run["dag_run_id"] for run in backfilled.rest.runs("backfilled")]
    return [run for run in runs if backfilled.rest.tasks("backfilled", run)["capture"]["try_number"] > 1]


def _assert_one_at_a_time(backfilled):
    """By the slots that max_active_tis_per_dag=1 leaves: the tries of all runs, laid beside each other."""
    spans = []
    for run in backfilled.rest.runs("backfilled"):
        tries = backfilled.rest.tries("backfilled", run["dag_run_id"], "capture")
        spans += [tuple(datetime.fromisoformat(one[at]) for at in ("start_date", "end_date")) for one in tries]
    spans.sort()
    assert len(spans) > len(backfilled.rest.runs("backfilled"))
    assert all(ended <= begun for (_, ended), (begun, _) in pairwise(spans))


def test_two_dags_share_a_consumer(story):
    """What one has taken the other does not; while one works the other is refused; each continues the other's range."""
    one, two = story("sharing_one", "sharing"), story("sharing_two", "sharing")
    one.lake.create("db.sharing", [1])
    for dag in (one, two):
        dag.lake.create(f"db.{dag.name}_target")
    one.hold("work.begin")
    first = one.rest.trigger("sharing_one")
    one.until_held("work.begin")
    refused, states = two.run()
    assert states["capture"] == "failed"
    assert f"run sharing_one/{first} has captured" in two.log(refused, "capture")
    one.release("work.begin")
    assert one.finish(first) == DONE

    one.lake.append("db.sharing", [2])
    assert two.run()[1] == DONE
    assert (one.target, two.target) == ([1], [2])
    assert one.committed("shared", "db.sharing") == one.lake.head("db.sharing")

    one.rest.clear("sharing_one", first)
    assert one.finish(first)["capture"] == "failed"
    assert "has committed after it" in one.log(first, "capture")


def test_a_run_that_is_deleted_is_not_waited_for_and_its_name_means_nothing(story):
    """Its range is covered by the next run, of whatever name; a committed one of the same name is not replayed."""
    reused = story("reused")
    reused.tables([1])
    reused.hold("work.begin")
    reused.rest.trigger("reused", "same")
    reused.until_held("work.begin")
    pending = reused.pending
    reused.rest.mark_run("reused", "same", "failed")  # a running one cannot be deleted
    reused.rest.delete("reused", "same")
    reused.release("work.begin")

    assert reused.run("same")[1] == DONE
    assert reused.committed() == reused.head
    assert reused.checkpoint().history[-1].supersedes == (pending.capture_id,)
    reused.rest.delete("reused", "same")
    reused.append([2])
    assert reused.run("same")[1] == DONE
    assert reused.committed() == reused.head
    assert [row for row in reused.target if row != 1] == [2]


def test_runs_that_depend_on_the_past_wait_for_it(story):
    """The second run's capture begins when the first's is repaired, and waits until the first has committed."""
    depending = story("depending")
    depending.lake.create("db.depending_target")
    first, states = depending.run(logical_date="2026-01-01T00:00:00Z")
    assert states["capture"] == "failed"
    second = depending.rest.trigger("depending", logical_date="2026-01-02T00:00:00Z")
    depending.lake.create("db.depending", [1])

    depending.rest.clear("depending", first)
    assert depending.finish(first) == DONE
    assert depending.finish(second) == SKIPPED
    begun = depending.rest.tasks("depending", second)["capture"]["start_date"]
    assert begun >= depending.rest.tasks("depending", first)["capture"]["end_date"]
    depending.append([2])
    assert depending.run(logical_date="2026-01-03T00:00:00Z")[1] == DONE
    assert depending.target == [1, 2]
