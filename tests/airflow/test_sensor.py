"""Waiting for appended rows, through a real Airflow and a real catalog."""

import json
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, BaseSensorOperator

from airflow_provider_ips import IcebergAppendSensor, IpCaptureOperator, IpCommitOperator, SourceTable
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.watching.thresholds import AtLeast
from airflow_provider_ips.testing import InMemoryStore
from tests.airflow.counting import IMPLEMENTATION, CountingCatalog
from tests.kit.moves import QUIET
from tests.kit.tables import append, create

MODES = [{"mode": "poke"}, {"mode": "reschedule"}, {"deferrable": True}]
QUICK: dict[str, Any] = {"poke_interval": 0.05, "timeout": 0.2}


def sensing(dag_id, **parameters):
    """A DAG of one sensor on db.events."""
    with DAG(dag_id, schedule=None) as dag:
        IcebergAppendSensor(
            **{"task_id": "wait", "table": "db.events", "iceberg_conn_id": "lake", **QUICK, **parameters}
        )
    return dag


def head_of(table):
    table.refresh()
    return str(table.current_snapshot().snapshot_id)


@pytest.fixture
def table(lake):
    table = create(lake, "db.events")
    append(table, [1, 2, 3])
    return table


@pytest.fixture
def loads(lake, monkeypatch):
    """The names of the tables that are loaded through the connection."""
    extra = {**{k: v for k, v in lake.properties.items() if k != "type"}, "py-catalog-impl": IMPLEMENTATION}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": extra}))
    CountingCatalog.loads.clear()
    return CountingCatalog.loads


@pytest.mark.parametrize("mode", MODES, ids=str)
class TestEveryMode:
    """Poke, reschedule and deferrable mean the same."""

    def test_rows_beyond_the_position_let_go(self, table, run_dag, mode):
        """The XCom says what was seen, snapshot ids as strings."""
        since = head_of(table)
        append(table, [4, 5])

        ran = run_dag(sensing("rows", since=since, **mode))

        assert ran.states == {"wait": "success"}
        (seen,) = ran.xcom("return_value", task="wait")["tables"]
        assert (seen["source"], seen["ready"], seen["snapshots"], seen["records"]) == ("db.events", True, 1, 2)
        assert seen["newest_snapshot_id"] == seen["head"]["snapshot_id"] == head_of(table)
        assert seen["from"]["snapshot_id"] == since

    def test_nothing_new_times_out_as_any_sensor(self, table, run_dag, mode):
        ran = run_dag(sensing("nothing", since=head_of(table), retries=3, **mode))

        assert ran.states == {"wait": "failed"}

    def test_soft_fail_skips_after_the_timeout(self, table, run_dag, mode):
        ran = run_dag(sensing("soft", since=head_of(table), soft_fail=True, **mode))

        assert ran.states == {"wait": "skipped"}

    def test_soft_fail_skips_without_any_time(self, table, run_dag, mode):
        """One look is always made, and what follows is a timeout as any other, before a deferral too."""
        ran = run_dag(sensing("no_time", since=head_of(table), soft_fail=True, timeout=0, **mode))

        assert ran.states == {"wait": "skipped"}

    def test_a_position_outside_the_lineage_fails(self, table, run_dag, mode):
        """A wait for something undecidable would never end."""
        assert run_dag(sensing("outside", since="1234567890123", **mode)).states == {"wait": "failed"}


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_an_outage_fails_a_try_and_the_next_one_goes_on(table, run_dag, loads, mode):
    """Retries are Airflow's own."""
    since = head_of(table)
    append(table, [4])
    CountingCatalog.faults["db.events"] = OSError("no route")
    retries = {"retries": 1, "retry_delay": timedelta(0), "on_retry_callback": lambda _: CountingCatalog.faults.clear()}

    ran = run_dag(sensing("retried", since=since, **retries, **mode))

    assert ran.states == {"wait": "success"}
    assert len(loads) == 2


def test_rows_that_come_while_waiting_let_go(table, run_dag):
    """Through deferral: the trigger sees the append, the sensor looks again and succeeds."""
    dag = sensing("later", since=head_of(table), deferrable=True, timeout=60)
    writer = threading.Timer(1.0, append, (table, [4]))
    writer.start()

    ran = run_dag(dag)
    writer.join()

    assert ran.states == {"wait": "success"}
    assert ran.xcom("return_value", task="wait")["tables"][0]["records"] == 1


def test_deferral_is_the_default_where_airflow_says_so(table, run_dag):
    """`[operators] default_deferrable` is read as by every other operator."""
    code = (
        "from airflow_provider_ips import IcebergAppendSensor;"
        "print(IcebergAppendSensor(task_id='w', table='db.t', consumer='c').deferrable)"
    )
    for value in ("True", "False"):
        shown = subprocess.run(
            [sys.executable, "-c", code],
            env={"AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": value, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout.split()[-1] == value


# --- a consumer's checkpoint ------------------------------------------------------------------------------------


def test_a_consumer_is_waited_for_until_it_has_something_to_do(table, run_dag):
    """Ready on the first run, not after the commit, ready again after an append."""
    with DAG("consuming", schedule=None) as pipeline:
        capture = IpCaptureOperator(
            task_id="capture", source_tables="db.events", iceberg_conn_id="lake", consumer="readers"
        )
        work = PythonOperator(task_id="work", python_callable=lambda: None)
        capture >> work >> IpCommitOperator(task_id="commit", capture=capture)
    sensor = sensing("waiting", consumer="readers", initial="full")

    assert run_dag(sensor).states == {"wait": "success"}
    assert run_dag(pipeline).states["commit"] == "success"
    assert run_dag(sensor).states == {"wait": "failed"}
    append(table, [4])
    assert run_dag(sensor).states == {"wait": "success"}


def test_the_first_run_of_a_capture_in_the_same_dag_is_waited_for(table, run_dag):
    """No checkpoint yet is what a first run looks like, and it starts where the capture says."""
    for number, (initial, state) in enumerate([("full", "success"), ("latest", "failed")]):
        with DAG(f"first_{number}", schedule=None) as dag:
            IcebergAppendSensor(
                task_id="wait", table="db.events", iceberg_conn_id="lake", consumer=f"first_{number}.capture", **QUICK
            ) >> IpCaptureOperator(
                task_id="capture", source_tables="db.events", iceberg_conn_id="lake", initial=initial
            )

        assert run_dag(dag).states["wait"] == state


def test_an_unknown_consumer_is_refused(table, run_dag, capsys):
    """A misspelt name would take the whole table for new, each time."""
    ran = run_dag(sensing("misspelt", consumer="raeders"))

    assert ran.states == {"wait": "failed"}
    assert "consumer 'raeders' has no checkpoint" in capsys.readouterr().out


# --- a capture ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_capture_says_what_to_wait_for(table, run_dag, deferrable):
    """Ready on the first run, not after the commit, ready again after an append, and nothing is written twice."""
    with DAG("named_once", schedule=None) as dag:
        capture = IpCaptureOperator(task_id="capture", source_tables="db.events", iceberg_conn_id="lake")
        arrived = IcebergAppendSensor(task_id="wait", capture=capture, deferrable=deferrable, soft_fail=True, **QUICK)
        arrived >> capture >> IpCommitOperator(task_id="commit", capture=capture)

    assert run_dag(dag).states["commit"] == "success"
    assert run_dag(dag).states["wait"] == "skipped"
    append(table, [4])
    assert run_dag(dag).states["commit"] == "success"


def test_templates_of_a_capture_are_rendered_for_its_sensor(table, run_dag):
    """As they are for the capture."""
    with DAG("rendered", schedule=None, params={"table": "db.events", "rule": "skip"}) as dag:
        capture = IpCaptureOperator(
            task_id="capture",
            source_tables="{{ params.table }}",
            iceberg_conn_id="lake",
            consumer="of_{{ dag.dag_id }}",
            on_other_operation="{{ params.rule }}",
        )
        IcebergAppendSensor(task_id="wait", capture=capture, **QUICK) >> capture

    assert run_dag(dag).states["wait"] == "success"


def capture_of_tests(**parameters):
    return IpCaptureOperator(**{"task_id": "capture", "source_tables": "db.t", "consumer": "c", **parameters})


def test_what_the_capture_says_may_be_said_again():
    """``default_args`` give it to both."""
    capture = capture_of_tests(iceberg_conn_id="lake", source_tables=["db.t", SourceTable("db.u", branch="audit")])

    sensor = IcebergAppendSensor(
        task_id="wait",
        capture=capture,
        table=[SourceTable("db.u", branch="audit"), "db.t"],
        consumer="c",
        iceberg_conn_id="lake",
        data_operations=["append"],
    )

    assert (sensor.iceberg_conn_id, sensor.consumer, sensor.on_gap) == ("lake", "c", "fail")


@pytest.mark.parametrize(
    "parameters",
    [
        {"table": "db.u"},
        {"table": ["db.t", "db.u"]},
        {"table": SourceTable("db.t", branch="audit")},
        {"iceberg_conn_id": "iceberg_default"},
        {"consumer": "d"},
        {"since": "2026-10-01T00:00:00Z"},
        {"branch": "main"},
        {"initial": "latest"},
        {"on_gap": "resync"},
        {"checkpoint_store": "iceberg"},
        {"data_operations": ("append", "overwrite", "delete")},
    ],
    ids=lambda given: next(iter(given)),
)
def test_a_second_spelling_that_differs_is_refused(parameters):
    """It would wait for other rows than the run then captures."""
    (name,) = parameters
    with pytest.raises(InputError, match=f"^{name}=.* contradicts capture 'capture'"):
        IcebergAppendSensor(task_id="wait", capture=capture_of_tests(iceberg_conn_id="lake"), **parameters)


def test_a_capture_that_does_not_settle_it_is_refused():
    """Neither its instances, nor its default consumer without a DAG, nor a store that is an object."""
    with pytest.raises(InputError, match="not an IpCaptureOperator"):
        IcebergAppendSensor(task_id="wait", capture="capture")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="neither a consumer nor a DAG"):
        IcebergAppendSensor(task_id="wait", capture=capture_of_tests(consumer=None))
    with pytest.raises(InputError, match="store object"):
        IcebergAppendSensor(task_id="wait", capture=capture_of_tests(checkpoint_store=InMemoryStore()))
    with pytest.raises(InputError, match="neither capture= nor table="):
        IcebergAppendSensor(task_id="wait", consumer="c")


# --- what ends the wait and what does not -----------------------------------------------------------------------------


def test_a_poke_without_news_loads_each_table_once_and_opens_no_manifest(table, run_dag, loads, tmp_path):
    """The figure that bounds what a thousand sensors cost."""
    since = head_of(table)
    lists = list((tmp_path / "warehouse").rglob("snap-*.avro"))
    for manifest_list in lists:
        manifest_list.unlink()

    ran = run_dag(sensing("cheap", since=since, timeout=0, soft_fail=True))

    assert lists
    assert ran.states == {"wait": "skipped"}
    assert loads == ["db.events"]


@pytest.mark.parametrize("move", QUIET)
@pytest.mark.parametrize("deferrable", [False, True])
def test_what_adds_no_row_lets_nothing_go(table, run_dag, move, deferrable):
    """Compaction, an empty commit, a rollback and expiry."""
    append(table, [4])
    since = head_of(table)
    move(table)

    ran = run_dag(sensing("quiet", since=since, soft_fail=True, deferrable=deferrable))

    assert ran.states == {"wait": "skipped"}


@pytest.mark.parametrize(
    ("thresholds", "state"),
    [
        ({"min_files": 2}, "success"),
        ({"min_files": 3}, "failed"),
        ({"min_records": 4}, "failed"),
        ({"min_records": 4, "or_after": timedelta(milliseconds=1)}, "success"),
        ({"min_records": AtLeast(4, or_after=3600)}, "failed"),
        ({"min_bytes": 10**9}, "failed"),
        ({"quiet_for": 3600}, "failed"),
        ({"quiet_for": timedelta(milliseconds=1)}, "success"),
    ],
)
def test_thresholds_hold_back(table, run_dag, thresholds, state):
    """Counted over all snapshots beyond the position."""
    since = head_of(table)
    append(table, [4])
    append(table, [5, 6])

    assert run_dag(sensing("thresholds", since=since, **thresholds)).states == {"wait": state}


@pytest.mark.parametrize("deferrable", [False, True])
def test_thresholds_hold_back_in_the_triggerer_too(table, run_dag, deferrable):
    """The trigger is rebuilt from what it serialised, thresholds included."""
    since = head_of(table)
    append(table, [4])

    ran = run_dag(sensing("held", since=since, min_records=2, deferrable=deferrable))

    assert ran.states == {"wait": "failed"}


def test_several_tables_any_or_all(table, lake, run_dag):
    """`any` is content with one table; `all` waits for both."""
    other = create(lake, "db.others")
    append(other, [1])
    since = datetime.now(tz=UTC).isoformat()
    append(table, [4])
    both = {"table": ["db.events", "db.others"], "since": since}

    ran = run_dag(sensing("any", require="any", **both))
    assert ran.states == {"wait": "success"}
    assert [seen["ready"] for seen in ran.xcom("return_value", task="wait")["tables"]] == [True, False]
    assert run_dag(sensing("all", require="all", **both)).states == {"wait": "failed"}
    append(other, [2])
    assert run_dag(sensing("all", require="all", **both)).states == {"wait": "success"}


@pytest.mark.parametrize("deferrable", [False, True])
@pytest.mark.parametrize("absent", [{"table": "db.nowhere"}, {"table": "nowhere.events"}, {"branch": "nowhere"}])
def test_a_source_that_does_not_exist_yet_is_waited_for(table, run_dag, absent, deferrable):
    """It times out as if there were no new rows, without an error."""
    ran = run_dag(sensing("absent", since="2026-10-01T00:00:00Z", soft_fail=True, deferrable=deferrable, **absent))

    assert ran.states == {"wait": "skipped"}


def test_a_table_created_while_waiting_lets_go(lake, run_dag):
    """Table, rows and all."""

    def write():
        append(create(lake, "db.events"), [1])

    writer = threading.Timer(1.0, write)
    writer.start()

    ran = run_dag(sensing("born", since="2026-10-01T00:00:00Z", deferrable=True, timeout=60))
    writer.join()

    assert ran.states == {"wait": "success"}


def test_a_source_that_does_not_exist_is_refused_where_asked_for(lake, run_dag, capsys):
    """missing="fail" says which."""
    ran = run_dag(sensing("refused", since="2026-10-01T00:00:00Z", missing="fail", soft_fail=True))

    assert ran.states == {"wait": "failed"}
    assert "db.events does not exist" in capsys.readouterr().out


def test_a_snapshot_that_changes_rows_fails_as_the_capture_would(table, run_dag):
    """Unless it is skipped, and then it does not end the wait by itself."""
    since = head_of(table)
    table.delete("id == 1")

    assert run_dag(sensing("changed", since=since)).states == {"wait": "failed"}
    passed_over = sensing("passed", since=since, on_other_operation="skip", soft_fail=True)
    assert run_dag(passed_over).states == {"wait": "skipped"}


def test_a_templated_position_is_known_at_run_time(table, run_dag):
    """Parsing must not refuse it, and rendering must fill it in."""
    since = "{{ (logical_date - macros.timedelta(days=1)).isoformat() }}"

    assert run_dag(sensing("templated", since=since)).states == {"wait": "success"}


def test_parsing_leaves_the_heavy_libraries_alone():
    """Airflow parses every DAG file again and again, watchers included."""
    code = (
        "from airflow_provider_ips import IcebergAppendSensor, IcebergAppendTrigger, IpCommitOperator, iceberg_asset;"
        "IcebergAppendSensor(task_id='w', table='db.t', consumer='c');IcebergAppendTrigger(table='db.t');"
        "IpCommitOperator(task_id='c', capture='x', target_assets=iceberg_asset('db.t'));"
        "import sys;print(sorted({name.partition('.')[0] for name in sys.modules} & {'pyiceberg','pyarrow','pyspark'}))"
    )

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.split()[-1] == "[]"


# --- refused at parse --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({}, "exactly one"),
        ({"consumer": "c", "since": "2026-10-01T00:00:00Z"}, "exactly one"),
        ({"consumer": " "}, "consumer=' '"),
        ({"since": "yesterday"}, "since='yesterday'"),
        ({"since": "2026-10-01"}, "since='2026-10-01'"),
        ({"since": "latest"}, "since='latest'"),
        ({"since": "1234567890123", "table": ["db.t", "db.u"]}, "one snapshot, and there are 2 tables"),
        ({"consumer": "c", "poke_interval": 0}, "poke_interval=0"),
        ({"consumer": "c", "poke_interval": timedelta(0)}, "poke_interval=0"),
        ({"consumer": "c", "min_files": 0}, "min_files"),
        ({"consumer": "c", "or_after": 60}, "or_after=60"),
        ({"consumer": "c", "quiet_for": 0}, "quiet_for=0"),
        ({"consumer": "c", "min_files": AtLeast(5, or_after=9), "or_after": 60}, "its own or_after"),
        ({"consumer": "c", "require": "some"}, "require='some'"),
        ({"consumer": "c", "missing": "ignore"}, "missing='ignore'"),
        ({"consumer": "c", "table": []}, "names no table"),
        ({"consumer": "c", "table": ["db.t", "db.t"]}, "'db.t' is there twice"),
        ({"consumer": "c", "table": "events"}, "malformed table identifier 'events'"),
        ({"consumer": "c", "table": SourceTable("db.t", on_gap="guess")}, "on_gap='guess'"),
        ({"consumer": "c", "data_operations": ("append", "delete")}, "data_operations"),
        ({"consumer": "c", "on_gap": "guess"}, "on_gap='guess'"),
    ],
    ids=str,
)
def test_what_cannot_be_right_is_refused_at_parse(parameters, named):
    """With the parameter and the value, before any run."""
    with pytest.raises(InputError, match=named):
        IcebergAppendSensor(**{"task_id": "wait", "table": "db.t", **parameters})


def test_it_is_an_airflow_sensor():
    """Timeouts, modes, retries and the UI's colour of sensors come from there."""
    assert issubclass(IcebergAppendSensor, BaseSensorOperator)
