"""Backfills under a real scheduler: Airflow's own, by interval; and a managed one, chunk by chunk."""

from datetime import date

import pytest

from airflow_provider_ips.core.identifiers import variable_key
from tests.kit import tables

DONE = {"capture": "success", "work": "success", "commit": "success"}
SKIPPED = {"capture": "success", "work": "skipped", "commit": "skipped"}


def partitioned(told):
    """The story's tables: rows of three days, partitioned by day, and an empty target."""
    told.lake.create(f"db.{told.name}_target")
    source = told.lake.create(f"db.{told.name}")
    with source.update_spec() as spec:
        spec.add_identity("day")
    for day in (2, 3, 5):
        tables.append(source, [day, 10 * day], day=date(2026, 1, day))
    return source


@pytest.mark.parametrize("dag_id", ["by_interval", "by_partition"])
def test_airflows_own_backfill_processes_the_partitions_of_each_run(dag_id, story, airflow):
    """Detached and side by side; a day without rows is skipped; the next live run takes what came since the last."""
    told = story(dag_id)
    source = partitioned(told)
    assert told.run()[1] == DONE
    document = told.rest.variable(variable_key(f"{dag_id}.capture"))
    tables.append(source, [33], day=date(2026, 1, 3))

    days = ("--from-date", "2026-01-02", "--to-date", "2026-01-04")
    airflow.run("backfill", "create", "--dag-id", dag_id, *days, "--max-active-runs", "3")
    runs = told.rest.wait_for(lambda: backfilled(told), "the runs of the backfill")
    states = [told.finish(run) for run in runs]

    assert states == [DONE, DONE, SKIPPED]
    assert document
    assert told.rest.variable(variable_key(f"{dag_id}.capture")) == document
    assert told.target == sorted([2, 20, 3, 30, 5, 50, *[2, 20], *[3, 30, 33]])
    asked = {"run": "partitions", "partitions": "day = '2026-01-02'", "everything": True}
    assert told.rest.xcom(dag_id, runs[0], "capture", "capture")["requested"]["asked"] == asked

    assert told.run()[1] == DONE
    assert told.target.count(33) == 2
    assert told.committed() == told.head


def backfilled(told):
    """The ids of three runs of a backfill, in the order of their days, once they are there."""
    found = [run for run in told.rest.runs(told.name) if run["run_type"] == "backfill"]
    runs = sorted(run["dag_run_id"] for run in found)
    return runs if len(runs) == 3 else None


def test_one_chunk_of_a_managed_backfill_is_cleared(story):
    """The grid has an instance for each; a second backfill of the same days is refused while the first goes on."""
    told = story("managed")
    partitioned(told)
    told.fail("work1.begin")
    told.hold("work2.begin")
    wish = {"ips_run": "full"}
    run = told.rest.trigger("managed", conf=wish)
    told.until_held("work2.begin")

    second = told.rest.trigger("managed", conf={"ips_run": "partitions", "ips_partitions": "day = '2026-01-03'"})
    assert told.finish(second)["plan"] == "failed"
    assert f"the backfill of run managed/{run} (a full refresh)" in told.log(second, "plan")

    told.release("work2.begin")
    states = told.finish(run)
    assert [states[f"chunk.work[{place}]"] for place in range(3)] == ["success", "failed", "success"]
    assert told.target == [2, 5, 20, 50]

    told.release("work1.begin")
    told.rest.clear("managed", run, *(["chunk." + name, 1] for name in DONE))
    assert set(told.finish(run).values()) == {"success"}
    assert told.target == [2, 3, 5, 20, 30, 50]
    tries = told.rest.tasks("managed", run)
    assert [tries[f"chunk.work[{place}]"]["try_number"] for place in range(3)] == [1, 2, 1]
