"""What a commit tells of its target assets: one event when something was processed, and none otherwise."""

import json
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Asset, PartitionedAssetTimetable
from pyiceberg.transforms import IdentityTransform

from airflow_provider_ips import IpCommitOperator, iceberg_asset
from airflow_provider_ips.core.errors import EvidenceError, InputError
from tests.kit.airflow import sync
from tests.kit.pipelines import capturing, committed_at, for_each, incremental
from tests.kit.tables import append, create

TARGET = iceberg_asset("db.target", iceberg_conn_id="lake")
FIRST, SECOND = date(2026, 10, 1), date(2026, 10, 2)


@pytest.fixture
def events(lake):
    """A source of three rows in one snapshot, partitioned by day."""
    table = create(lake, "db.events")
    with table.update_spec() as spec:
        spec.add_field("day", IdentityTransform(), "day_of")
    append(table, [1, 2, 3], day=FIRST)
    return table


def told(ran):
    """The asset events of a run, in their order."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        rows = session.execute(
            select(AssetModel.name, AssetEvent.extra, AssetEvent.partition_key)
            .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
            .where(AssetEvent.source_dag_id == ran.dag_run.dag_id, AssetEvent.source_run_id == ran.dag_run.run_id)
            .order_by(AssetEvent.id)
        )
        return [tuple(row) for row in rows]


def queued(dag_id):
    """Whether the scheduler would start a run: what an event leaves for it."""
    from airflow.models.asset import AssetDagRunQueue, AssetPartitionDagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        plain = session.scalars(
            select(AssetDagRunQueue.target_dag_id).where(AssetDagRunQueue.target_dag_id == dag_id)
        ).all()
        keyed = session.scalars(
            select(AssetPartitionDagRun.partition_key).where(AssetPartitionDagRun.target_dag_id == dag_id)
        ).all()
    return sorted(plain) + sorted(keyed)


def scheduled(dag_id, schedule):
    """A DAG that waits for events, known to Airflow and not paused."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with DAG(dag_id, schedule=schedule, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        EmptyOperator(task_id="work")
    sync(dag)
    with create_session() as session:
        session.get_one(DagModel, dag_id).is_paused = False
    return dag


def telling(dag_id, job, **commit):
    return incremental(dag_id, "db.events", job, commit={"target_assets": TARGET, **commit})


def test_an_event_says_what_was_captured(events, job, run_dag):
    """With ids as strings, counts, and the range of the captured partitions; small, and free of secrets."""
    ran = run_dag(telling("told", job))

    [(name, extra, key)] = told(ran)
    assert (name, key) == (TARGET.name, None)
    [capture] = extra["captures"]
    assert (capture["capture_id"], capture["consumer"]) == (ran.xcom("capture_id"), "told.capture")
    assert capture["replay"] is False
    [source] = capture["sources"]
    assert (source["source"], source["kind"], source["files"], source["records"]) == ("db.events", "full", 1, 3)
    assert source["to"]["snapshot_id"] == str(events.current_snapshot().snapshot_id)
    [partition] = source["partitions"]
    assert (partition["column"], partition["lower"], partition["upper"]) == ("day_of", "2026-10-01", "2026-10-01")
    assert len(json.dumps(extra)) < 1_000


def test_the_event_starts_the_dag_that_waits_for_the_asset(events, job, run_dag):
    """The asset of another file is the same one."""
    scheduled("waiting", [iceberg_asset("db.target", iceberg_conn_id="lake")])

    run_dag(telling("starting", job))

    assert queued("waiting") == ["waiting"]


def test_no_event_where_nothing_was_processed(events, job, run_dag):
    """Also if the commit runs: a plain outlet would emit one."""
    plain = Asset("plain outlet")
    dag = telling("quiet", job, outlets=[plain])
    dag.task_dict["capture"].skip_if_empty = False
    dag.task_dict["work"].python_callable = lambda *_: None
    first = run_dag(dag)

    second = run_dag(dag)

    assert sorted(name for name, *_ in told(first)) == [TARGET.name, plain.name]
    assert second.states["commit"] == "success"
    assert [name for name, *_ in told(second)] == [plain.name]


def test_no_event_of_a_commit_that_failed(events, job, run_dag):
    job.fails = True

    ran = run_dag(telling("failing", job, trigger_rule="all_done"))

    assert ran.states["commit"] == "failed"
    assert told(ran) == []


def test_a_replay_says_so(events, job, run_dag):
    """The target was written again, with rows that it knew."""
    dag, at = telling("replaying", job), datetime.now(tz=UTC)
    run_dag(dag, at=at)

    cleared = run_dag(dag, at=at)

    *_, (_, extra, _) = told(cleared)
    assert extra["captures"][0]["replay"] is True


def test_a_commit_that_is_cleared_alone_tells_again(events, job, run_dag, monkeypatch):
    """It may have died between moving the checkpoint and its success: then its first event was never sent."""
    commits = iter([RuntimeError("the worker died, as the test wants it"), None])
    execute = IpCommitOperator.execute

    def die_once(self, context):
        execute(self, context)
        if (error := next(commits)) is not None:
            raise error

    monkeypatch.setattr(IpCommitOperator, "execute", die_once)

    ran = run_dag(telling("dying", job, retries=1, retry_delay=timedelta(0)))

    assert ran.xcom("commit", "commit")["outcome"] == "already_done"
    assert len(told(ran)) == 1


def test_each_target_has_its_event(events, job, run_dag):
    """Any asset will do; only its partitions need a table."""
    other = Asset("a report")

    ran = run_dag(telling("two_targets", job, target_assets=[TARGET, other]))

    assert sorted(name for name, *_ in told(ran)) == sorted([TARGET.name, other.name])


def test_each_instance_of_a_mapped_commit_has_its_event(lake, events, job, run_dag):
    """One event for each capture that found something."""
    append(create(lake, "db.others"), [7])
    create(lake, "db.empty")

    tables = ("db.events", "db.others", "db.empty")
    ran = run_dag(for_each("mapped", tables, job, commit={"target_assets": TARGET}))

    captures = [capture for _, extra, _ in told(ran) for capture in extra["captures"]]
    assert [len(capture["sources"]) for capture in captures] == [1, 1]
    assert sorted(capture["sources"][0]["source"] for capture in captures) == ["db.events", "db.others"]


# --- one event per partition ----------------------------------------------------------------------------------


KEYED = pytest.mark.needs_airflow_3_3("a task chooses the partition keys of its events")


@pytest.fixture
def target(lake):
    """A target with two partition fields."""
    table = create(lake, "db.target")
    with table.update_spec() as spec:
        spec.add_field("day", IdentityTransform(), "day_of")
        spec.add_field("id", IdentityTransform(), "id_of")
    return table


def writing(dag_id, target, *batches, stamped=True, **commit):
    """A job that writes rows of days, and leaves the capture's stamp."""

    def write(capture_id):
        for ids, day in batches:
            append(target, ids, day=day, properties={"ips-capture-id": capture_id} if stamped else {})

    with DAG(dag_id, schedule=None) as dag:
        captured = capturing("db.events")
        work = PythonOperator(task_id="work", python_callable=write, op_args=[captured.output["capture_id"]])
        options = {"target_assets": TARGET, "partition_events": True, **commit}
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured, **options)
    return dag


@KEYED
def test_each_partition_that_the_job_wrote_has_an_event_with_its_key(events, target, run_dag):
    """Those of the target, exactly; not what other jobs wrote there."""
    append(target, [9], day=date(2026, 9, 9))

    ran = run_dag(writing("keyed", target, ([1, None], FIRST), ([2], SECOND)))

    keys = ["2026-10-01|1", "2026-10-01|__HIVE_DEFAULT_PARTITION__", "2026-10-02|2"]
    assert sorted(key for *_, key in told(ran)) == keys
    assert {name for name, *_ in told(ran)} == {TARGET.name}
    extra = told(ran)[0][1]
    assert (extra["partitions"], extra["partition_count"]) == (keys, 3)
    assert extra["captures"][0]["capture_id"] == ran.xcom("capture_id")


@KEYED
def test_the_keys_start_the_dag_that_waits_for_partitions(events, target, run_dag):
    scheduled("waiting_for_partitions", PartitionedAssetTimetable(assets=TARGET))

    run_dag(writing("keyed_starting", target, ([1], FIRST), ([2], SECOND)))

    assert queued("waiting_for_partitions") == ["2026-10-01|1", "2026-10-02|2"]


@KEYED
def test_rows_deleted_from_a_partition_touch_it(events, target, run_dag):
    append(target, [5], day=SECOND)

    def replace(capture_id):
        target.refresh()
        target.delete("id = 5", snapshot_properties={"ips-capture-id": capture_id})

    dag = writing("keyed_delete", target)
    dag.task_dict["work"].python_callable = replace

    assert [key for *_, key in told(run_dag(dag))] == ["2026-10-02|5"]


@KEYED
def test_no_keyed_event_where_nothing_was_processed(events, target, run_dag):
    """The commit runs and succeeds, and what it would have emitted as an outlet is taken back."""
    dag = writing("keyed_quiet", target, ([1], FIRST))
    dag.task_dict["capture"].skip_if_empty = False
    first = run_dag(dag)

    second = run_dag(dag)

    assert len(told(first)) == 1
    assert (second.states["commit"], told(second)) == ("success", [])


@KEYED
def test_no_keyed_event_of_a_target_that_the_job_left_as_it_was(events, target, run_dag):
    """It has committed, and stamped, a snapshot without files: none of the captured rows concerned it."""
    ran = run_dag(writing("keyed_idle", target, ([], FIRST)))

    assert (ran.states["commit"], told(ran)) == ("success", [])


@KEYED
def test_a_key_longer_than_airflow_takes_is_refused_before_the_checkpoint_moves(lake, events, run_dag):
    schema = pa.schema([pa.field(name, pa.string()) for name in ("city", "street")])
    table = lake.create_table("db.target", schema=schema)
    with table.update_spec() as spec:
        for name in schema.names:
            spec.add_field(name, IdentityTransform(), f"{name}_of")
    dag = writing("keyed_long", table)

    def write(capture_id):
        rows = pa.table({"city": ["x" * 125], "street": ["y" * 125]})
        table.append(rows, snapshot_properties={"ips-capture-id": capture_id})

    dag.task_dict["work"].python_callable = write

    ran = run_dag(dag)

    assert "251 characters" in str(ran.errors["commit"])
    assert committed_at("keyed_long.capture", "db.events") is None


@KEYED
def test_a_target_without_the_stamp_is_refused_before_the_checkpoint_moves(events, target, run_dag):
    """Nothing would tell which partitions are new, and their events would be missing."""
    ran = run_dag(writing("keyed_unstamped", target, ([1], FIRST), stamped=False))

    assert isinstance(ran.errors["commit"], EvidenceError)
    assert "db.target has the stamp" in str(ran.errors["commit"])
    assert committed_at("keyed_unstamped.capture", "db.events") is None


@KEYED
def test_a_target_without_partitions_is_refused(lake, events, run_dag):
    table = create(lake, "db.target")

    ran = run_dag(writing("keyed_flat", table, ([1], FIRST)))

    assert "db.target was written without partitions" in str(ran.errors["commit"])


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"target_assets": "db.target"}, "is not an Asset"),
        ({"target_assets": [Asset.ref(name="x")]}, "is not an Asset"),
        ({"target_assets": TARGET, "outlets": [TARGET]}, "an outlet as well"),
        ({"target_assets": [TARGET, TARGET]}, "twice"),
        pytest.param(
            {"target_assets": Asset("report"), "partition_events": True}, "is not an Iceberg table", marks=KEYED
        ),
    ],
)
def test_targets_that_cannot_be_told_are_refused_at_parse(parameters, named):
    with pytest.raises(InputError, match=named), DAG("refused", schedule=None):
        IpCommitOperator(task_id="commit", capture="capture", **parameters)
