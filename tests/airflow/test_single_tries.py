"""What waiting does not change is tried once; an outage as often as the task's retries say."""

import inspect
import pickle
from datetime import timedelta

import pytest
from airflow.sdk import DAG

from airflow_provider_ips import IcebergAppendSensor, IpCaptureOperator, IpCommitOperator
from airflow_provider_ips.core import errors
from airflow_provider_ips.core.errors import CatalogError, GapError, InputError, UnsupportedTableError
from airflow_provider_ips.retries import at_once
from tests.kit.pages import ROOT, tables
from tests.kit.tables import append

RETRIES = {"retries": 3, "retry_delay": timedelta(0)}
PASSING = {"ActiveRunError", "CatalogError", "StoreUnavailableError"}


@pytest.fixture
def tries(run_dag):
    """Run a task, and give its number of tries, its state and its last error."""

    def run(dag):
        ran = run_dag(dag)
        (ti,) = [ti for ti in ran.dag_run.get_task_instances() if ti.task_id == "waits"]
        return ti.try_number, ti.state, ran.errors.get("waits")

    return run


def capturing(dag_id, **parameters):
    with DAG(dag_id, schedule=None) as dag:
        found = {"source_tables": "db.events", "iceberg_conn_id": "lake", **RETRIES, **parameters}
        IpCommitOperator(task_id="commit", capture=IpCaptureOperator(task_id="waits", **found))
    return dag


def sensing(dag_id, **parameters):
    with DAG(dag_id, schedule=None) as dag:
        found = {"table": "db.events", "since": "2026-10-01T00:00:00Z", "iceberg_conn_id": "lake"}
        IcebergAppendSensor(task_id="waits", **{"poke_interval": 1, "timeout": 5, **found, **RETRIES, **parameters})
    return dag


def test_a_refusal_is_tried_once(events, tries):
    number, state, error = tries(capturing("refusal", source_tables="db.event"))

    assert (number, state) == (1, "failed")
    assert isinstance(error, InputError)
    assert type(error).__name__ == "InputError"
    assert "does not exist" in error.problem
    assert error.remedy in str(error)


def test_an_outage_is_tried_again(events, tries, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", '{"conn_type": "iceberg", "host": "http://127.0.0.1:1"}')

    number, state, error = tries(capturing("outage"))

    assert (number, state) == (4, "failed")
    assert isinstance(error, CatalogError)


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_table_that_cannot_be_parsed_ends_a_sensor_at_once(lake, events, tries, deferrable):
    path = lake.load_table("db.events").metadata_location.removeprefix("file://")
    with open(path, "w") as file:  # noqa: PTH123 - a path of the lake
        file.write('{"format-version": 9}')

    number, state, error = tries(sensing(f"unparsable_{deferrable}", deferrable=deferrable))

    assert (number, state) == (1, "failed")
    assert isinstance(error, UnsupportedTableError)


def test_a_refusal_of_a_sensor_is_tried_once(events, tries):
    number, state, error = tries(sensing("missing", missing="fail", branch="audit"))

    assert (number, state) == (1, "failed")
    assert isinstance(error, InputError)


def test_what_airflow_gets_is_the_error_itself():
    """With its three parts, its cause and its traceback; and it survives pickling."""
    cause = ValueError("why")
    with pytest.raises(GapError) as raised, at_once():
        raise GapError("gone", consequence="nothing", remedy="full") from cause

    error = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 - our own
    for each in (error, raised.value):
        assert (each.problem, each.consequence, each.remedy) == ("gone", "nothing", "full")
        assert (type(each).__name__, type(each).__module__) == ("GapError", "airflow_provider_ips.core.errors")
        assert type(each) is type(error)
    assert raised.value.__cause__ is cause
    assert raised.value.__suppress_context__


def test_the_page_of_errors_says_which_pass():
    """As the classes do."""
    classes = {n: c for n, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.IpsError)}
    assert {name for name, each in classes.items() if not each.is_permanent} == PASSING
    (table,) = [t for t in tables(ROOT / "docs/reference/errors.md") if "retried" in t.header]
    column = table.header.index("retried")
    assert {row[0].strip("`"): row[column] for row in table.rows} == {
        name: "no" if each.is_permanent else "yes" for name, each in classes.items()
    }


def test_two_writers_at_once_may_try_again(events):
    append(events, [4])
    assert not errors.ActiveRunError.is_permanent
    assert issubclass(errors.ActiveRunError, errors.CheckpointConflictError)
