"""A real triggerer, killed and started again under a writer: the watcher's events, checkpoint read and watermark."""

import os

from airflow.models import Variable
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_ips import IcebergAppendTrigger, IpCaptureOperator, IpCommitOperator
from airflow_provider_ips.checkpoints.variable import ServerVariables
from airflow_provider_ips.core.sightings.consumer_sighting import consumer_sighting_key
from scripts.local_airflow import start_part
from tests.kit.airflow import HOME, sync
from tests.kit.moves import commit_nothing, compact
from tests.kit.rest import until
from tests.kit.tables import append, create

INTERVAL_S = 0.5
QUICK = {
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "4",
}
"""A killed triggerer is noticed when its heart has not beaten for so long."""


class Triggerer:
    """The process ``airflow triggerer``."""

    def __enter__(self):
        self._process = start_part(
            "triggerer", environment={**os.environ, **QUICK}, folder=HOME, log=HOME / "triggerer.log"
        )
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()


def payloads(asset):
    """What the events of an asset say, oldest first."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        rows = session.scalars(
            select(AssetEvent)
            .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
            .where(AssetModel.name == asset)
            .order_by(AssetEvent.id)
        )
        return [row.extra["payload"] for row in rows]


def moments(asset):
    """When the events of an asset were stored, oldest first."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        of_asset = select(AssetEvent.timestamp).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        return list(session.scalars(of_asset.where(AssetModel.name == asset).order_by(AssetEvent.id)))


def wait_for(asset, count):
    """Until an asset has so many events."""
    return until(lambda: found if len(found := payloads(asset)) >= count else None)


def remembered(table, *assets):
    """Until the watermark of each asset is kept at the table's head."""
    table.refresh()
    head = str(table.current_snapshot().snapshot_id)
    until(lambda: len([text for text in watermarks(assets) if f'"snapshot_id": "{head}"' in text]) == len(assets))


def watermarks(assets):
    from airflow.models.asset import AssetModel
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        named = select(AssetStateStoreModel.value).join(AssetModel, AssetModel.id == AssetStateStoreModel.asset_id)
        return list(session.scalars(named.where(AssetModel.name.in_(assets))))


def known(dag_id, asset, **parameters):
    """Make a DAG that an asset with a watcher schedules known to Airflow, as its DAG processor does, twice over."""
    trigger = IcebergAppendTrigger(table="db.events", iceberg_conn_id="lake", poll_interval=INTERVAL_S, **parameters)
    watched = Asset(asset, watchers=[AssetWatcher(name=asset, trigger=trigger)])
    with DAG(dag_id, schedule=[watched], is_paused_upon_creation=False) as dag:
        PythonOperator(task_id="work", python_callable=lambda: None)
    for _ in range(2):
        sync(dag)


def trigger_ids(*assets):
    """The triggers that watch for these assets."""
    from airflow.models.asset import AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        named = session.scalars(select(AssetModel).where(AssetModel.name.in_(assets)))
        return sorted(trigger.id for asset in named for trigger in asset.triggers)


def records(events):
    return [[table["records"] for table in event["tables"]] for event in events]


def test_a_killed_triggerer_loses_and_repeats_nothing(lake, run_dag):
    """Watermark and checkpoint are read and written in the triggerer itself; rows of the time between are told once."""
    table = create(lake, "db.events")
    append(table, [1, 2, 3])
    with DAG("consuming_watched", schedule=None) as pipeline:
        capture = IpCaptureOperator(
            task_id="capture", source_tables="db.events", iceberg_conn_id="lake", consumer="watched"
        )
        work = PythonOperator(task_id="work", python_callable=lambda: None)
        capture >> work >> IpCommitOperator(task_id="commit", capture=capture)
    assert run_dag(pipeline).states["commit"] == "success"
    known("by_watermark", "watermark")
    known("by_checkpoint", "checkpoint", consumer="watched")
    triggers = trigger_ids("watermark", "checkpoint")
    Variable.delete(consumer_sighting_key("watched"))  # noqa: AIR311 - a trigger would leave what the run saw for a while

    with Triggerer():
        assert records(wait_for("watermark", 1)) == [[3]]
        append(table, [4])
        assert records(wait_for("watermark", 2)) == [[3], [1]]
        assert records(wait_for("checkpoint", 1)) == [[1]]
        remembered(table, "watermark", "checkpoint")
        # Written in the triggerer, whose encryption key the test does not have.
        until(lambda: consumer_sighting_key("watched") in ServerVariables().keys(prefix="ips_seen_"))
    compact(table)
    commit_nothing(table)
    append(table, [5, 6])
    with Triggerer():
        assert records(wait_for("watermark", 3)) == [[3], [1], [2]]
        assert records(wait_for("checkpoint", 2)) == [[1], [2]]
        compact(table)
        append(table, [7])
        wait_for("watermark", 4)
        wait_for("checkpoint", 3)

    assert records(payloads("watermark")) == [[3], [1], [2], [1]]
    assert records(payloads("checkpoint")) == [[1], [2], [1]]
    known("by_watermark", "watermark")
    assert len(triggers) == 2
    assert trigger_ids("watermark", "checkpoint") == triggers


def test_a_killed_triggerer_keeps_the_distance_between_events(lake, run_dag):
    """For a watcher of a capture: what came too early, and while nothing ran, is in one event when it is due."""
    table = create(lake, "db.paced")
    append(table, [1])
    with DAG("consuming_paced", schedule=None) as pipeline:
        capture = IpCaptureOperator(
            task_id="capture", source_tables="db.paced", iceberg_conn_id="lake", consumer="paced", initial="latest"
        )
        work = PythonOperator(task_id="work", python_callable=lambda: None)
        capture >> work >> IpCommitOperator(task_id="commit", capture=capture)
    assert run_dag(pipeline).states["capture"] == "success"
    trigger = IcebergAppendTrigger.for_capture(capture, min_interval=20, poll_interval=INTERVAL_S)
    paced = Asset("paced", watchers=[AssetWatcher(name="paced", trigger=trigger)])
    with DAG("by_pace", schedule=[paced], is_paused_upon_creation=False) as dag:
        PythonOperator(task_id="work", python_callable=lambda: None)
    sync(dag)
    append(table, [2])

    with Triggerer():
        wait_for("paced", 1)
        append(table, [3])
        until(lambda: [text for text in watermarks(["paced"]) if '"event_at_ms"' in text])
    append(table, [4])
    with Triggerer():
        wait_for("paced", 2)

    assert records(payloads("paced")) == [[1], [2]]
    first, second = moments("paced")
    assert (second - first).total_seconds() >= 19  # the database notes an event a moment after it was sent
