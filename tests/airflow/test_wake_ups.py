"""An event is a wake-up, not a cursor: lost, merged or repeated, it changes when a DAG runs, not what it processes."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IcebergAppendTrigger, IpCommitOperator, iceberg_asset
from tests.kit.airflow import sync
from tests.kit.pipelines import Job, capturing, incremental
from tests.kit.tables import append, create

PATIENCE_S = 20
INTERVAL_S = 0.05


class StateStore:
    """An asset's state, kept from one triggerer to the next."""

    def __init__(self):
        self.text = ""

    async def aget(self, key, default=None):
        return json.loads(self.text) if self.text else default

    async def aset(self, key, value):
        self.text = json.dumps(value)


async def next_event(table, state):
    """Watch, as a triggerer does, until there is an event and it is remembered."""
    trigger = IcebergAppendTrigger(table="db.events", iceberg_conn_id="lake", poll_interval=INTERVAL_S)
    trigger.asset_state_store = state
    events = trigger.run()
    told = asyncio.ensure_future(anext(events))
    event = await asyncio.wait_for(told, PATIENCE_S)
    going_on = asyncio.ensure_future(anext(events))
    async with asyncio.timeout(PATIENCE_S):
        while event.payload["tables"][0]["head"]["snapshot_id"] not in state.text:  # noqa: ASYNC110 - told by nobody
            await asyncio.sleep(INTERVAL_S)
    going_on.cancel()
    await asyncio.gather(going_on, return_exceptions=True)
    return event.payload


@pytest.mark.parametrize(
    ("runs_by_event", "idle_runs"),
    [
        pytest.param((1, 1, 1), 0, id="each starts a run"),
        pytest.param((1, 0, 1), 0, id="one is lost"),
        pytest.param((0, 0, 1), 0, id="three are merged into one run"),
        pytest.param((2, 1, 3), 3, id="two are repeated"),
        pytest.param((0, 3, 0), 2, id="lost and repeated"),
    ],
)
def test_events_decide_when_a_dag_runs_and_not_what_it_processes(lake, run_dag, runs_by_event, idle_runs):
    """Every row reaches the job once, in the order of the appends; a run too many skips the job."""
    table, state, job = create(lake, "db.events"), StateStore(), Job(lake)
    dag = incremental("woken", "db.events", job)
    states = []
    for number, runs in enumerate(runs_by_event):
        append(table, [10 * number, 10 * number + 1])
        event = asyncio.run(next_event(table, state))
        assert [seen["records"] for seen in event["tables"]] == [2]
        states += [run_dag(dag).states["work"] for _ in range(runs)]
    if runs_by_event[-1] == 0:  # the next event makes up for the lost one
        append(table, [99])
        asyncio.run(next_event(table, state))
        states.append(run_dag(dag).states["work"])

    processed = sorted(row for rows in job.seen for row in rows)

    assert processed == sorted(table.refresh().scan().to_arrow()["id"].to_pylist())
    assert states.count("skipped") == idle_runs
    assert len(job.seen) == states.count("success")


TARGET = iceberg_asset("db.log", iceberg_conn_id="lake")


def first_stage(lake):
    """Copies what it captures into db.log, whose event its commit sends."""
    target = create(lake, "db.log")

    def copy(name):
        append(target, lake.load_table(name).scan().to_arrow()["id"].to_pylist())

    with DAG("stage_1", schedule=None) as dag:
        captured = capturing("db.events")
        work = PythonOperator(task_id="work", python_callable=copy, op_args=[captured.output["db.events"]])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured, target_assets=TARGET)
    return dag


def second_stage(job):
    """Waits for the event, and reads what its own checkpoint says."""
    with DAG("stage_2", schedule=[TARGET], start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        captured = capturing("db.log")
        work = PythonOperator(task_id="work", python_callable=job, op_args=[captured.output["db.log"]])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)
    return dag


def waiting_runs(dag_id):
    """How many runs the scheduler would start: it keeps one entry for each DAG and asset."""
    from airflow.models.asset import AssetDagRunQueue
    from airflow.utils.session import create_session
    from sqlalchemy import delete, select

    with create_session() as session:
        mine = AssetDagRunQueue.target_dag_id == dag_id
        count = len(session.scalars(select(AssetDagRunQueue).where(mine)).all())
        session.execute(delete(AssetDagRunQueue).where(mine))  # as the scheduler does when it starts the run
    return count


def test_airflow_merges_the_events_of_two_commits_and_no_row_is_lost(lake, run_dag):
    """Two commits of stage 1 before stage 2 comes to run leave one run to start, which reads what both wrote."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    events, job = create(lake, "db.events"), Job(lake)
    one, two = first_stage(lake), second_stage(job)
    sync(two)
    with create_session() as session:
        session.get_one(DagModel, "stage_2").is_paused = False
    for ids in ([1, 2], [3]):
        append(events, ids)
        run_dag(one)

    assert waiting_runs("stage_2") == 1
    run_dag(two)
    assert job.seen == [[1, 2, 3]]

    run_dag(one)
    assert waiting_runs("stage_2") == 0
