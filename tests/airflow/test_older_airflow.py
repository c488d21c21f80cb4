"""What is different on Airflow 3.2, where a task cannot list Variables: said where a DAG is parsed."""

import re

import pytest

from airflow_provider_ips import IcebergAppendSensor, IcebergAppendTrigger, IpCommitOperator, iceberg_asset
from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.core.errors import UnsupportedVersionError
from airflow_provider_ips.maintenance.task import run_command
from tests.airflow.backfills import backfilling, october
from tests.kit.pipelines import capturing, default_store, incremental
from tests.kit.tables import append, create

pytestmark = pytest.mark.needs_airflow_below_3_3("tasks cannot list Variables there, nor choose partition keys")


@pytest.mark.parametrize(
    "make",
    [
        lambda: capturing("db.t", checkpoint_store="variable"),
        lambda: IcebergAppendSensor(task_id="wait", table="db.t", consumer="c", checkpoint_store="variable"),
        lambda: IcebergAppendTrigger(table="db.t", consumer="c", checkpoint_store="variable"),
    ],
)
def test_variables_are_refused_with_the_reason(make):
    with pytest.raises(
        UnsupportedVersionError, match=r"(?s)'variable' needs Airflow 3\.3, and this is 3\.2.* first run"
    ):
        make()


def test_a_configured_variable_store_is_refused_by_the_run(events, job, run_dag, monkeypatch):
    monkeypatch.setenv("AIRFLOW__IPS__CHECKPOINT_STORE", "variable")

    ran = run_dag(incremental("configured", "db.events", job))

    assert isinstance(ran.errors["capture"], UnsupportedVersionError)
    assert job.seen == []


@pytest.mark.parametrize("to", ["iceberg", "variable"])
def test_there_is_no_other_store_to_move_to(lake, to):
    options = {"consumer": "c", "to": to, "conn_id": "lake"}
    with pytest.raises(UnsupportedVersionError, match=r"'variable' needs Airflow 3\.3"):
        run_command("move", options, user="reader")


def test_partition_events_are_refused():
    with pytest.raises(UnsupportedVersionError, match=r"partition_events=True needs Airflow 3\.3, and this is 3\.2"):
        IpCommitOperator(task_id="commit", capture="c", target_assets=iceberg_asset("db.t"), partition_events=True)


def test_checkpoints_and_claims_are_in_iceberg_and_variables_hold_only_what_was_seen(lake, job, run_dag):
    """A live run, and a backfill of the same table."""
    table = create(lake, "db.days")
    with table.update_spec() as spec:
        spec.add_identity("day")
    for number in (1, 2):
        append(table, [number], day=october(number))

    run_dag(incremental("live", "db.days", job))
    run_dag(backfilling("chunked", job, everything=True, target_tables="db.daily"))

    assert isinstance(default_store(), IcebergStore)
    names = sorted(name for _, name in lake.list_tables("ips_checkpoints"))
    assert [name.partition("_")[0] for name in names] == ["ips", "live"]
    assert {re.sub(r"_[0-9a-f]{16}$", "", key) for key in variables()} == {
        "ips_seen_live_capture",
        "ips_table_lake_db_days_main",
    }


def variables():
    from airflow.models.variable import Variable
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        return list(session.scalars(select(Variable.key)))
