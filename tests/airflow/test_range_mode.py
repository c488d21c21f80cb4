"""Captures in mode RANGE, run by run: what the job is handed, and that nothing is made for it."""

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG
from pyiceberg.io.pyarrow import _dataframe_to_data_files

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from airflow_provider_ips.core.errors import GapError, InputError, RefusedOperationError
from airflow_provider_ips.core.settings import ALL_OPERATIONS
from airflow_provider_ips.iceberg import captured_partitions, drop_icdc, find_losses
from airflow_provider_ips.ui.consumers import list_tables
from tests.kit.pipelines import capturing, checkpoint_of, committed_at
from tests.kit.tables import SCHEMA, append, branches, create, icdc_tables

DONE = {"capture": "success", "work": "success", "commit": "success"}
RANGE = {"capture_mode": "RANGE"}


class RangeJob:
    """A job that reads what Spark's options say, by snapshots, as the tables of these tests are only appended to."""

    def __init__(self, lake):
        self.seen, self.fails, self._lake = [], False, lake

    def __call__(self, table, options, options_json):
        """Splat a dict, or parse the text that a command line can have."""
        if self.fails:
            raise RuntimeError("the job failed, as the test wants it")
        assert json.loads(options_json) == options
        self.seen.append(self.read(table, options))

    def read(self, table, options):
        """Read the ids; nothing where there is nothing to read."""
        if options is False:
            return []
        start, end = options.get("start-snapshot-id"), options.get("end-snapshot-id", options.get("versionAsOf"))
        loaded = self._lake.load_table(table)
        before, after = (
            set() if at is None else set(loaded.scan(snapshot_id=int(at)).to_arrow()["id"].to_pylist())
            for at in (start, end)
        )
        return sorted(after - before)


@pytest.fixture
def ranged(lake):
    """A job for ranges."""
    return RangeJob(lake)


def head(table):
    """The newest snapshot."""
    return table.refresh().current_snapshot().snapshot_id


def overwrite_nothing(table, ids):
    """Append as Spark's INSERT OVERWRITE does into a new partition: nothing is removed, and it is no `append`."""
    rows = pa.table({"id": ids, "day": [None] * len(ids)}, schema=SCHEMA)
    with table.refresh().transaction() as transaction, transaction.update_snapshot().overwrite() as update:
        for file in _dataframe_to_data_files(transaction.table_metadata, rows, table.io):
            update.append_data_file(file)


def in_ranges(dag_id, job, *, table="db.events", capture=None, commit=None):
    """One source, one job, one commit."""
    with DAG(dag_id, schedule=None) as dag:
        captured = capturing(table, **{**RANGE, **(capture or {})})
        given = [captured.output[f"{table}.options"], captured.output[f"{table}.options_json"]]
        work = PythonOperator(task_id="work", python_callable=job, op_args=[table, *given])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured, **(commit or {}))
    return dag


def test_the_job_is_handed_words_and_nothing_is_made(lake, events, ranged, run_dag):
    """First all rows as of a snapshot, then what was appended since, and the commit moves the checkpoint as ever."""
    dag = in_ranges("in_ranges", ranged, capture={"engine_catalog": "lake"})
    since = head(events)
    first = run_dag(dag)
    append(events, [4])
    append(events, [5])
    files = len(list(events.refresh().metadata.snapshots))

    second = run_dag(dag)

    assert (first.states, second.states) == (DONE, DONE)
    assert ranged.seen == [[1, 2, 3], [4, 5]]
    assert first.xcom("db.events") == f"(SELECT * FROM lake.db.events VERSION AS OF {since})"
    options = {"start-snapshot-id": str(since), "end-snapshot-id": str(head(events))}
    assert second.xcom("db.events.options") == options
    assert second.xcom("db.events") == (
        f"(SELECT * FROM lake.db.events WITH (`start-snapshot-id` = '{since}', `end-snapshot-id` = '{head(events)}'))"
    )
    record = second.xcom("capture")
    assert (record["mode"], record["sources"][0]["records"]) == ("RANGE", 2)
    assert committed_at("in_ranges.capture", "db.events") == head(events)
    assert (icdc_tables(lake), branches(events), len(events.refresh().metadata.snapshots)) == ([], [], files)


def test_an_empty_range_skips_the_job(events, ranged, run_dag):
    """As in the other modes; compaction alone is nothing to process."""
    dag = in_ranges("empty_range", ranged)
    run_dag(dag)
    ran = run_dag(dag)
    assert ran.states == {"capture": "success", "work": "skipped", "commit": "skipped"}
    assert ran.xcom("db.events") is None


def test_a_source_that_gained_nothing_is_read_as_no_rows(lake, events, ranged, run_dag):
    """Beside one that did. Options that said nothing would make the engine read all of it."""
    append(create(lake, "db.more"), [7])
    seen = []
    with DAG("two_ranges", schedule=None) as dag:
        captured = capturing(["db.events", "db.more"], **RANGE)
        given = [captured.output[f"{name}.options"] for name in ("db.events", "db.more")]
        sql = captured.output["db.more"]
        work = PythonOperator(task_id="work", python_callable=lambda *g: seen.append(g), op_args=[*given, sql])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)
    run_dag(dag)
    append(events, [4])

    ran = run_dag(dag)

    assert ran.states == DONE
    of_events, of_more, sql = seen[1]
    assert ranged.read("db.events", of_events) == [4]
    assert (of_more, sql) == (False, "(SELECT * FROM db.more LIMIT 0)")


def test_a_retry_is_handed_the_same_range(events, run_dag, ranged):
    """Though rows came in between, and the configuration chooses another mode by then."""
    names = []

    class Dying(IpCaptureOperator):
        def execute(self, context):
            super().execute(context)
            names.append(context["ti"].xcom_pull(task_ids="capture", key="db.events"))
            if len(names) == 1:
                append(events, [4])
                context["task"].capture_mode = "ICDC"
                raise RuntimeError("the worker dies, as the test wants it")

    with DAG("crash_in_range", schedule=None) as dag:
        captured = Dying(
            task_id="capture",
            source_tables="db.events",
            iceberg_conn_id="lake",
            capture_mode="RANGE",
            retries=1,
            retry_delay=timedelta(0),
        )
        given = [captured.output["db.events.options"], captured.output["db.events.options_json"]]
        work = PythonOperator(task_id="work", python_callable=ranged, op_args=["db.events", *given])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)

    ran = run_dag(dag)

    assert ran.states == DONE
    assert names[0] == names[1]
    assert ran.xcom("capture")["mode"] == "RANGE"
    assert ranged.seen == [[1, 2, 3]]


def test_a_failed_run_is_covered_by_the_next_and_a_committed_one_is_replayed(events, ranged, run_dag):
    """A cleared run is handed its own range once more; what came since is left to later runs."""
    dag = in_ranges("superseded_range", ranged)
    run_dag(dag)
    append(events, [4])
    ranged.fails = True
    run_dag(dag)
    append(events, [5])
    ranged.fails = False
    at = datetime.now(tz=UTC)
    run_dag(dag, at=at)
    append(events, [6])

    again = run_dag(dag, at=at)

    assert again.states == DONE
    assert ranged.seen == [[1, 2, 3], [4, 5], [4, 5]]
    assert again.xcom("commit", "commit")["outcome"] == "replayed"


def test_a_cleared_run_whose_history_has_expired_is_refused(events, ranged, run_dag):
    """Nothing holds its files, so it says what is lost, as for a table that does not exist any more."""
    dag = in_ranges("expired_range", ranged)
    run_dag(dag)
    append(events, [4])
    at = datetime.now(tz=UTC)
    run_dag(dag, at=at)
    for each in (5, 6):
        append(events, [each])
    old = [s.snapshot_id for s in events.refresh().metadata.snapshots if s.snapshot_id != head(events)]
    events.maintenance.expire_snapshots().by_ids(old).commit()

    ran = run_dag(dag, at=at)

    assert isinstance(ran.errors["capture"], GapError)
    assert ranged.seen == [[1, 2, 3], [4]]


def test_a_range_that_engines_read_otherwise_is_refused_before_anything_is_written(events, ranged, run_dag):
    """By a dry run, too. The snapshot is named, and the checkpoint is where it was."""
    dag = in_ranges("refused_range", ranged)
    run_dag(dag)
    before = checkpoint_of("refused_range.capture")
    overwrite_nothing(events, [4])

    for conf in ({}, {"ips_dry_run": True}):
        ran = run_dag(dag, conf=conf)
        assert isinstance(ran.errors["capture"], RefusedOperationError)
        assert f"snapshot {head(events)} (overwrite) is captured, because it adds 1 data" in str(ran.errors["capture"])
    assert checkpoint_of("refused_range.capture") == before


def test_detached_runs_get_ranges_too(events, ranged, run_dag):
    """A full refresh is all rows as of the head; a filter is refused, because no engine could be told of it."""
    dag = in_ranges("detached_range", ranged)
    run_dag(dag)
    append(events, [4])

    run_dag(dag, conf={"ips_run": "full"})
    filtered = run_dag(dag, conf={"ips_run": "partitions", "ips_partitions": "id = 1"})

    assert ranged.seen == [[1, 2, 3], [1, 2, 3, 4]]
    assert "capture" in filtered.errors


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"icdc_namespace": "icdc"}, "icdc_namespace contradict"),
        ({"lease": timedelta(hours=1)}, "lease contradict"),
        ({"data_operations": ALL_OPERATIONS}, "data_operations="),
        ({"on_gap": "resync"}, "on_gap='resync'"),
        ({"backfill_partitions": "day = '2026-10-01'"}, "a filter of partitions"),
    ],
)
def test_what_does_not_go_with_ranges_is_refused_at_parse(options, named):
    """With its name."""
    with pytest.raises(InputError, match=named):
        capturing("db.events", **RANGE, **options)


def test_a_retention_of_tables_is_refused_at_parse(ranged):
    """There is no table that could be kept or dropped."""
    dag = in_ranges("kept_range", ranged, commit={"icdc_retention": "drop"})
    with pytest.raises(InputError, match="does not go with capture_mode='RANGE'"):
        dag.task_dict["capture"].resolve_template_files()


def test_the_configuration_chooses_ranges(events, ranged, run_dag, monkeypatch):
    """What contradicts it is found when the task runs."""
    monkeypatch.setenv("AIRFLOW__IPS__CAPTURE_MODE", "RANGE")
    ran = run_dag(in_ranges("configured_range", ranged, capture={"capture_mode": None}))
    assert ran.xcom("capture")["mode"] == "RANGE"
    for options in ({"icdc_namespace": "icdc"}, {"data_operations": ALL_OPERATIONS}):
        wrong = run_dag(in_ranges(f"wrong_{len(str(options))}", ranged, capture={"capture_mode": None, **options}))
        assert isinstance(wrong.errors["capture"], InputError)


def test_nothing_can_be_dropped_lost_or_opened_under_the_name_of_a_range(lake, events, ranged, run_dag):
    """It stands in records and checkpoints only."""
    ran = run_dag(in_ranges("named_range", ranged))
    name = ran.xcom("capture")["sources"][0]["icdc_table"]
    assert name == f"db.events.ips_range_to_{head(events)}"
    assert list_tables(checkpoint_of("named_range.capture")) == []
    assert drop_icdc(lake, name) is False
    assert find_losses(lake, name) is None
    with pytest.raises(InputError, match="which engines read directly"):
        captured_partitions(lake, name)


def test_a_job_that_fails_is_told_what_its_range_is(events, run_dag, caplog):
    """The engine says that it does not find a snapshot."""

    def fail(_):
        raise RuntimeError("there is no such snapshot, as the test wants it")

    with DAG("failing_range", schedule=None) as dag:
        captured = capturing("db.events", **RANGE)
        work = PythonOperator(task_id="work", python_callable=fail, op_args=[captured.output["db.events.options"]])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)
    run_dag(dag)
    assert "stands for snapshots of db.events, which the engine reads directly" in caplog.text
