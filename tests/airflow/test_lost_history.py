"""A cleared run whose range has left the source's history, and captures that say so before it comes to that."""

from datetime import UTC, datetime

import pyarrow.parquet as pq
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCommitOperator
from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.settings import ALL_OPERATIONS
from airflow_provider_ips.runs.lost_files import name_lost_files
from tests.kit.moves import expire, roll_back
from tests.kit.pipelines import capturing, checkpoint_of, committed_at, incremental
from tests.kit.tables import append, icdc_tables, rows

DONE = {"capture": "success", "work": "success", "commit": "success"}


def fail_once(dag, job, run_dag):
    """A run whose capture succeeds and whose job does not; give its time, by which it is cleared."""
    at = datetime.now(tz=UTC)
    job.fails = True
    run_dag(dag, at=at)
    job.fails = False
    return at


def forget_what_was_captured(events):
    """One more row, and only the newest snapshot is kept; the range's files stay, for they are live."""
    append(events, [9])
    append(events, [10])
    expire(events)


def remove_files_of(events, *ids):
    """Take away the files of these rows, as compaction and expiry do to a file that is live no more."""
    for task in events.refresh().scan().plan_files():
        path = task.file.file_path
        if set(pq.read_table(path.removeprefix("file://"))["id"].to_pylist()) & set(ids):
            events.io.delete(path)


def test_what_was_captured_is_handed_over_again_if_every_file_is_there(lake, events, job, run_dag):
    """The history has forgotten the range; the ICDC table of the first attempt holds it, whole."""
    dag = incremental("kept", "db.events", job, capture={"range_columns": ["id"]})
    run_dag(dag)
    append(events, [4, 5])
    at = fail_once(dag, job, run_dag)
    forget_what_was_captured(events)

    ran = run_dag(dag, at=at)

    assert ran.states == DONE
    assert job.seen == [[1, 2, 3], [4, 5]]
    record = ran.xcom("capture")["sources"][0]
    assert (record["files"], record["records"], record["ranges"][0]["lower"], record["ranges"][0]["upper"]) == (
        1,
        2,
        4,
        5,
    )
    assert "checked file by file" in record["warnings"][0]
    assert len(icdc_tables(lake)) == 1


def changes_of(job, dag_id):
    """Capture all three operations, and hand both tables to the job."""
    with DAG(dag_id, schedule=None) as dag:
        captured = capturing("db.events", data_operations=ALL_OPERATIONS, on_superset="allow")
        names = [captured.output["db.events"], captured.output["db.events.before"]]
        work = PythonOperator(task_id="work", python_callable=job, op_args=names)
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)
    return dag


def test_captured_changes_are_handed_over_with_what_they_came_from(events, job, run_dag):
    """Both tables; what can no longer be told of them is taken for the worse."""
    dag = changes_of(job, "kept_changes")
    run_dag(dag)
    append(events, [4, 5])
    events.delete("id = 2")
    at = fail_once(dag, job, run_dag)
    append(events, [9])
    expire(events)

    ran = run_dag(dag, at=at)

    assert job.seen[-1] == [[1, 3, 4, 5], [1, 2, 3]]
    record = ran.xcom("capture")["sources"][0]
    assert (record["records"], record["before"]["records"], record["superset"]) == (4, 3, True)
    assert (record["predicate"], record["no_predicate"]) == (
        None,
        "the history of db.events no longer has this range",
    )


def test_changes_whose_origin_is_lost_are_not_handed_over(events, job, run_dag):
    """Half of a change is no change; the error names what is gone of which table."""
    dag = changes_of(job, "lost_changes")
    run_dag(dag)
    origin = [task.file.file_path for task in events.refresh().scan().plan_files()]
    events.delete("id = 2")
    at = fail_once(dag, job, run_dag)
    append(events, [9])
    expire(events)
    for path in origin:
        events.io.delete(path)

    ran = run_dag(dag, at=at)

    told = str(ran.errors["capture"])
    assert "no longer exist, with 3 rows" in told
    assert origin[0] in told
    assert len(job.seen) == 1


def test_what_is_lost_is_named_where_nothing_can_be_captured(events, job, run_dag):
    """The checkpoint is gone with the range. The error has the files, their rows, and the ways on with their sizes."""
    dag = incremental("lost", "db.events", job)
    run_dag(dag)
    append(events, [4, 5])
    captured = events.refresh().current_snapshot().snapshot_id
    at = fail_once(dag, job, run_dag)
    forget_what_was_captured(events)
    remove_files_of(events, 4)

    ran = run_dag(dag, at=at)

    error = ran.errors["capture"]
    assert isinstance(error, GapError)
    assert f"no longer exist, with 2 rows (1 of snapshot {captured}): file://" in str(error)
    assert "on_gap='full' captures the whole table (4 files" in str(error)
    assert "on_gap='resync' captures the live files newer" in str(error)
    assert job.seen == [[1, 2, 3]]


def test_a_table_that_was_changed_is_not_handed_over_for_the_lost_range(lake, events, job, run_dag):
    """Every file is there, and one more: the run captures again from the checkpoint, or says what was changed."""
    dag = incremental("changed_and_lost", "db.events", job)
    run_dag(dag)
    committed = icdc_tables(lake)
    append(events, [4, 5])
    at = fail_once(dag, job, run_dag)
    forget_what_was_captured(events)
    [name] = set(icdc_tables(lake)) - set(committed)
    append(lake.load_table(name), [99])

    ran = run_dag(dag, at=at)

    assert isinstance(ran.errors["capture"], GapError)
    assert f"{name} was changed since: it has 1 more snapshots (append)" in str(ran.errors["capture"])
    assert job.seen == [[1, 2, 3]]


def test_other_settings_are_not_handed_the_tables_of_the_earlier_ones(events, job, run_dag):
    """The range is lost, so it cannot be captured by the corrected settings."""
    dag = changes_of(job, "corrected_and_lost")
    run_dag(dag)
    append(events, [4, 5])
    at = fail_once(dag, job, run_dag)
    forget_what_was_captured(events)

    ran = run_dag(incremental("corrected_and_lost", "db.events", job), at=at)

    assert isinstance(ran.errors["capture"], GapError)
    assert len(job.seen) == 1


def test_on_gap_decides_for_a_cleared_run_too(lake, events, job, run_dag):
    """Set for one run, it captures anew: what the run had captured before is superseded by its own second capture."""
    dag = incremental("resynced", "db.events", job)
    run_dag(dag)
    append(events, [4, 5])
    at = fail_once(dag, job, run_dag)
    forget_what_was_captured(events)
    for table in icdc_tables(lake):
        lake.drop_table(table)

    ran = run_dag(incremental("resynced", "db.events", job, capture={"on_gap": "resync"}), at=at)

    assert ran.states == DONE
    assert job.seen == [[1, 2, 3], [4, 5, 9, 10]]
    assert "does not exist any more" in str(ran.xcom("capture")["sources"][0]["warnings"])
    assert committed_at("resynced.capture", "db.events") == events.refresh().current_snapshot().snapshot_id
    assert checkpoint_of("resynced.capture").pending is None


def test_a_rolled_back_range_that_expired_is_captured_anew_from_the_checkpoint(lake, events, job, run_dag):
    """What was captured is no part of the table any more; what came in its place is."""
    dag = incremental("rolled_back", "db.events", job)
    run_dag(dag)
    append(events, [4])
    at = fail_once(dag, job, run_dag)
    lost = events.refresh().current_snapshot().snapshot_id
    remove_files_of(events, 4)
    roll_back(events)
    append(events, [6])
    events.refresh().maintenance.expire_snapshots().by_id(lost).commit()

    ran = run_dag(dag, at=at)

    assert ran.states == DONE
    assert job.seen == [[1, 2, 3], [6]]
    assert "captured again from the checkpoint" in str(ran.xcom("capture")["sources"][0]["warnings"])
    assert rows(lake, "db.events") == [1, 2, 3, 6]


def test_a_committed_run_is_never_captured_anew(events, job, run_dag):
    """Its replay would move nothing, so other rows than its own are no replay."""
    dag = incremental("committed", "db.events", job)
    run_dag(dag)
    append(events, [4, 5])
    at = datetime.now(tz=UTC)
    run_dag(dag, at=at)
    forget_what_was_captured(events)
    remove_files_of(events, 4)

    ran = run_dag(incremental("committed", "db.events", job, capture={"on_gap": "full"}), at=at)

    assert "no longer exist, with 2 rows" in str(ran.errors["capture"])
    assert job.seen == [[1, 2, 3], [4, 5]]


def test_a_source_that_forgets_sooner_than_the_consumer_comes_is_warned_of(events, job, run_dag):
    """Two commits a while apart, and a rule that keeps snapshots for a millisecond."""
    with events.transaction() as change:
        change.set_properties({"history.expire.max-snapshot-age-ms": "1"})
    dag = incremental("forgetful", "db.events", job)
    first = run_dag(dag)
    append(events, [4])
    run_dag(dag)
    append(events, [5])

    ran = run_dag(dag)

    assert first.xcom("capture")["sources"][0]["warnings"] == []
    (warning,) = ran.xcom("capture")["sources"][0]["warnings"]
    assert "snapshots may be expired after 1 milliseconds (history.expire.max-snapshot-age-ms)" in warning


class TestNameLostFiles:
    """The callback of a job whose tables may have been taken apart under it."""

    @staticmethod
    def run(events, run_dag, dag_id, *, remove=(), drop=None):
        """A capture, and a job that fails after these rows' files were removed."""

        def fail(name):
            remove_files_of(events, *remove)
            if drop is not None:
                drop(name)
            raise RuntimeError("the job failed, as the test wants it")

        with DAG(dag_id, schedule=None) as dag:
            captured = capturing("db.events")
            work = PythonOperator(
                task_id="work",
                python_callable=fail,
                op_args=[captured.output["db.events"]],
            )
            captured >> work >> IpCommitOperator(task_id="commit", capture=captured)
        run_dag(dag)

    def test_names_what_is_gone(self, events, run_dag, caplog):
        """With the rows, and what to do."""
        self.run(events, run_dag, "callback_lost", remove=(2,))
        assert "removed files that this task was to read: 1 of the 1 files of icdc." in caplog.text
        assert "no longer exist, with 3 rows" in caplog.text
        assert "Clear the capture with its downstream tasks" in caplog.text

    def test_joins_what_the_author_set(self, events, run_dag, caplog):
        """Tasks that pull from a capture are given it; a callback of their own is called as well."""
        called = []

        def fail(_name):
            raise RuntimeError("the job failed, as the test wants it")

        with DAG("callback_of_its_own", schedule=None) as dag:
            captured = capturing("db.events")
            work = PythonOperator(
                task_id="work",
                python_callable=fail,
                op_args=[captured.output["db.events"]],
                on_failure_callback=lambda context: called.append(context["ti"].task_id),
            )
            beside = PythonOperator(task_id="beside", python_callable=list)
            captured >> [work, beside] >> IpCommitOperator(task_id="commit", capture=captured)
        caplog.set_level("INFO")
        run_dag(dag)
        assert called == ["work"]
        assert "not due to a missing file" in caplog.text
        assert name_lost_files in work.on_failure_callback
        assert name_lost_files not in beside.on_failure_callback

    def test_leaves_tables_of_very_many_files_alone(self, events, run_dag, caplog, monkeypatch):
        """One request for each would keep the failed task busy for long."""
        monkeypatch.setattr("airflow_provider_ips.runs.lost_files.MAX_FILES", 0)
        caplog.set_level("INFO")
        self.run(events, run_dag, "callback_many", remove=(2,))
        assert "db.events: 1 captured files are too many to check" in caplog.text
        assert "no longer exist" not in caplog.text

    def test_says_so_if_nothing_is(self, events, run_dag, caplog):
        """Then the failure has another cause."""
        caplog.set_level("INFO")
        self.run(events, run_dag, "callback_intact")
        assert "not due to a missing file: all 1 files of icdc." in caplog.text
        assert "set engine_catalog on the capture" in caplog.text

    def test_never_fails_itself(self, lake, events, run_dag, caplog, monkeypatch):
        """The task's own failure is what matters."""

        def drop(name):
            monkeypatch.setenv("AIRFLOW_CONN_LAKE", '{"conn_type": "http"}')

        self.run(events, run_dag, "callback_fails", drop=drop)
        assert "are missing: connection 'lake' is of type 'http'" in caplog.text
