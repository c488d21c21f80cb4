"""Runs that are cleared with corrected settings, or after a job has changed an ICDC table: the job never reads rows
that its record does not describe.
"""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCommitOperator, ips_params
from airflow_provider_ips.core.errors import IcdcConflictError, RefusedOperationError
from airflow_provider_ips.core.settings import ALL_OPERATIONS
from tests.kit.moves import compact
from tests.kit.pipelines import capturing, checkpoint_of, committed_at, incremental, moves
from tests.kit.tables import append, icdc_tables, rows

SKIP = {"on_other_operation": "skip"}
CHANGES = {"data_operations": ALL_OPERATIONS, "on_superset": "allow"}
COMPLETE = {"data_operations": ALL_OPERATIONS, "on_superset": "complete"}
FAILED = {"capture": "success", "work": "failed", "commit": "upstream_failed"}


@pytest.fixture
def pipeline(job):
    """A DAG whose job reads the captured rows, and those that they replace."""

    def make(dag_id, **options):
        with DAG(dag_id, schedule=None, params=ips_params()) as dag:
            captured = capturing("db.events", **options)
            names = [captured.output["db.events"]]
            names += [captured.output["db.events.before"]] if "data_operations" in options else []
            work = PythonOperator(task_id="work", python_callable=job, op_args=names)
            captured >> work >> IpCommitOperator(task_id="commit", capture=captured)
        return dag

    return make


def head(table):
    return table.refresh().current_snapshot().snapshot_id


def attempt(dag, job, run_dag, *, fails, conf=None):
    """One run; give it and its time, by which it is cleared."""
    at = datetime.now(tz=UTC)
    job.fails = fails
    ran = run_dag(dag, at=at, conf=conf)
    job.fails = False
    assert ran.states["work"] == ("failed" if fails else "success")
    return ran, at


def described(lake, ran):
    """The records that the capture counted, and those that a reader finds, in both tables."""
    source = ran.xcom("capture")["sources"][0]
    counted = [source["records"], *([] if source["before"] is None else [source["before"]["records"]])]
    names = [source["icdc_table"], *([] if source["before_table"] is None else [source["before_table"]])]
    return counted, [len(rows(lake, name)) for name in names]


CORRECTIONS = [
    ("to_changes", SKIP, CHANGES, [[1, 3, 4], [1, 2, 3]]),
    ("to_appends", CHANGES, SKIP, [4]),
]


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_cleared_run_with_corrected_settings_captures_by_them(lake, events, job, pipeline, run_dag, correction):
    """It supersedes its own first attempt, whose tables are dropped once a later run commits."""
    name, first, second, expected = correction
    run_dag(pipeline(name, **first))
    append(events, [4])
    events.delete("id = 2")
    failed, at = attempt(pipeline(name, **first), job, run_dag, fails=True)

    ran = run_dag(pipeline(name, **second), at=at)

    assert set(ran.states.values()) == {"success"}
    assert job.seen[-1] == expected
    counted, found = described(lake, ran)
    assert counted == found
    assert ran.xcom("capture")["capture_id"] != failed.xcom("capture")["capture_id"]
    assert not set(icdc_tables(lake)) & {failed.xcom("capture")["sources"][0]["icdc_table"]}
    assert committed_at(f"{name}.capture", "db.events") == head(events)
    assert "other settings" in str(ran.xcom("capture")["sources"][0]["warnings"])


def test_a_superset_that_is_to_be_complete_is_captured_as_new(lake, events, job, pipeline, run_dag):
    """allow, then complete: the tables have the names of the second capture."""
    run_dag(pipeline("corrected_superset", **CHANGES))
    append(events, [4])
    events.delete("id = 2")
    failed, at = attempt(pipeline("corrected_superset", **CHANGES), job, run_dag, fails=True)

    ran = run_dag(pipeline("corrected_superset", **COMPLETE), at=at)

    assert set(ran.states.values()) == {"success"}
    assert ran.xcom("db.events") != failed.xcom("db.events")
    counted, found = described(lake, ran)
    assert counted == found


def test_a_retry_after_the_source_got_another_schema_has_new_tables(lake, events, job, pipeline, run_dag):
    """Those of the first attempt have columns that the source does not have any more."""
    first, at = attempt(pipeline("renamed_column"), job, run_dag, fails=True)
    with events.refresh().update_schema() as update:
        update.rename_column("day", "date")

    ran = run_dag(pipeline("renamed_column"), at=at)
    name = ran.xcom("db.events")

    assert set(ran.states.values()) == {"success"}, ran.errors
    assert name != first.xcom("db.events")
    assert lake.load_table(name).schema() == events.refresh().schema()
    assert "another schema" in str(ran.xcom("capture")["sources"][0]["warnings"])
    assert job.seen == [[1, 2, 3]]


def test_a_cleared_run_that_is_to_refuse_other_operations_refuses_them(events, job, pipeline, run_dag):
    """The first attempt skipped a delete; with the correction nothing is handed over, and nothing moves."""
    run_dag(pipeline("corrected_fail", **SKIP))
    append(events, [4])
    events.delete("id = 2")
    _, at = attempt(pipeline("corrected_fail", **SKIP), job, run_dag, fails=True)
    before = checkpoint_of("corrected_fail.capture")

    ran = run_dag(pipeline("corrected_fail"), at=at)

    assert isinstance(ran.errors["capture"], RefusedOperationError)
    assert checkpoint_of("corrected_fail.capture") == before


def test_a_corrected_initial_starts_a_first_run_elsewhere(events, job, pipeline, run_dag):
    """The first attempt was to take the whole table; no row is committed that was not captured."""
    start = head(events)
    append(events, [4])
    _, at = attempt(pipeline("corrected_initial"), job, run_dag, fails=True)

    run_dag(pipeline("corrected_initial", initial=str(start)), at=at)

    assert job.seen == [[4]]


def test_a_retry_with_the_same_settings_has_the_same_tables(lake, events, job, pipeline, run_dag):
    """Also where only the limits, or what is described of the rows, was changed."""
    run_dag(pipeline("same", **CHANGES))
    append(events, [4])
    events.delete("id = 2")
    first, at = attempt(pipeline("same", **CHANGES), job, run_dag, fails=True)
    append(events, [5])

    again = run_dag(pipeline("same", **CHANGES, max_snapshots=5, range_columns=["id"]), at=at)

    assert set(again.states.values()) == {"success"}
    assert again.xcom("capture")["capture_id"] == first.xcom("capture")["capture_id"]
    assert job.seen[-1] == [[1, 3, 4], [1, 2, 3]]


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_replay_with_corrected_settings_has_tables_of_its_own(lake, events, job, pipeline, run_dag, correction):
    """The committed run is cleared: its range again, by the new settings; the checkpoint stays."""
    corrected, first, second, expected = correction
    name = f"replayed_{corrected}"
    run_dag(pipeline(name, **first))
    append(events, [4])
    events.delete("id = 2")
    done, at = attempt(pipeline(name, **first), job, run_dag, fails=False)
    before = moves(f"{name}.capture")
    append(events, [5])

    ran = run_dag(pipeline(name, **second), at=at)

    assert ran.xcom("commit", task="commit")["outcome"] == "replayed"
    assert job.seen[-1] == expected
    counted, found = described(lake, ran)
    assert counted == found
    assert ran.xcom("db.events") != done.xcom("db.events")
    after = moves(f"{name}.capture")
    assert ran.xcom("db.events") in after.retained
    assert replace(after, retained=before.retained) == before


def test_a_detached_run_with_corrected_settings_captures_by_them(lake, events, job, pipeline, run_dag):
    """A range of one's own, first as appends and then as changes."""
    since = head(events)
    append(events, [4])
    events.delete("id = 2")
    conf = {"ips_run": "snapshot", "ips_since_snapshot": str(since), "ips_until_snapshot": str(head(events))}
    _, at = attempt(pipeline("corrected_detached", **SKIP), job, run_dag, fails=True, conf=conf)

    ran = run_dag(pipeline("corrected_detached", **CHANGES), at=at, conf=conf)

    assert set(ran.states.values()) == {"success"}
    assert job.seen == [[[1, 3, 4], [1, 2, 3]]]
    counted, found = described(lake, ran)
    assert counted == found


def test_a_detached_run_with_a_corrected_range_or_filter_captures_by_it(lake, job, pipeline, run_dag):
    """The same run with other params: each request has tables of its own."""
    from tests.kit.tables import create

    events = create(lake, "db.events")
    with events.update_spec() as update:
        update.add_identity("day")
    for day in (1, 2, 3):
        append(events, [day], day=date(2026, 10, day))
    ids = [str(s.snapshot_id) for s in events.refresh().snapshots()]
    at = datetime.now(tz=UTC)
    seen = []
    for conf in (
        {"ips_run": "snapshot", "ips_since_snapshot": ids[0], "ips_until_snapshot": ids[2]},
        {"ips_run": "snapshot", "ips_since_snapshot": ids[0], "ips_until_snapshot": ids[1]},
        {"ips_run": "partitions", "ips_partitions": "day = '2026-10-01'"},
        {"ips_run": "partitions", "ips_partitions": "day = '2026-10-03'"},
    ):
        ran = run_dag(pipeline("corrected_range"), at=at, conf=conf)
        assert set(ran.states.values()) == {"success"}, ran.errors
        seen.append(ran.xcom("db.events"))

    assert job.seen == [[2, 3], [2], [1], [3]]
    assert len(set(seen)) == len(seen)


def write(lake, name):
    append(lake.load_table(name), [99])


def overwrite(lake, name):
    table = lake.load_table(name)
    table.overwrite(table.scan().to_arrow().slice(0, 1))


def alter(lake, name):
    with lake.load_table(name).update_schema() as update:
        update.rename_column("day", "date")


def rewrite(lake, name):
    compact(lake.load_table(name))


def branch(lake, name):
    table = lake.load_table(name)
    table.manage_snapshots().create_branch(head(table), "mine").commit()


def describe(lake, name):
    with lake.load_table(name).transaction() as change:
        change.set_properties({"comment": "mine"})


@pytest.mark.parametrize("is_committed", [False, True], ids=["retry", "replay"])
@pytest.mark.parametrize("change", [write, overwrite, alter, rewrite, branch, describe])
def test_a_table_that_a_job_has_changed_is_not_handed_over_again(
    lake, events, job, run_dag, request, change, is_committed
):
    """The error says what was changed. Once the table is dropped, the same run has its rows again."""
    dag = incremental(f"changed_{change.__name__}_{is_committed}", "db.events", job)
    ran, at = attempt(dag, job, run_dag, fails=not is_committed)
    change(lake, ran.xcom("db.events"))

    again = run_dag(dag, at=at)

    assert isinstance(again.errors["capture"], IcdcConflictError)
    assert "was changed after this capture wrote it" in str(again.errors["capture"])
    assert len(job.seen) == is_committed
    lake.drop_table(ran.xcom("db.events"))
    assert set(run_dag(dag, at=at).states.values()) == {"success"}
    assert job.seen[-1] == [1, 2, 3]
