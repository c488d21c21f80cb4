"""One process that fills a store and measures what runs and documents cost."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from scripts import local_airflow
from tests.core.test_long_history import SOURCES, long_checkpoint

RUNS = 3
CONSUMER = "warehouse_daily.capture"
DAGS = """
from airflow.sdk import DAG
from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

for name in {names}:
    with DAG(name, schedule=None) as globals()[name]:
        captured = IpCaptureOperator(task_id="capture", source_tables="db.events")
        IpCommitOperator(task_id="commit", capture=captured)
"""


def measure(folder, store_name, consumers):
    """All figures, by name; ``consumer`` and ``capture_id`` are for the commands."""
    local_airflow.enter(dict(os.environ))
    lake = make_lake(folder)
    store = opened(store_name, lake)
    alone = first_runs("alone", folder)
    for number in range(consumers):
        add(store, f"team_{number}.capture")
    beside = first_runs("beside", folder)
    document = long_document(lake)
    synthetic = long_checkpoint()
    text = synthetic.to_text()
    return {
        "first run alone": alone,
        "first run beside them": beside,
        "bytes of 50 captures of 100 sources": len(text.encode()),
        "writing it as text": min(cpu(synthetic.to_text) for _ in range(RUNS)),
        "reading it from text": min(cpu(partial(Checkpoint.parse, text, consumer=CONSUMER)) for _ in range(RUNS)),
        "writing it to the store": cpu(partial(store.write, document, expected_revision=None)),
        "reading it from the store": cpu(partial(store.read, CONSUMER)),
        "consumer": CONSUMER,
        "capture_id": document.history[-1].capture_id,
    }


def cpu(call):
    """The CPU seconds of a call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def make_lake(folder):
    """With a table for first runs, and one for each source of the long document, of two snapshots."""
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    (folder / "warehouse").mkdir()
    lake = load_catalog("lake", **json.loads(os.environ["AIRFLOW_CONN_ICEBERG_DEFAULT"])["extra"])
    rows = pa.table({"id": [1, 2, 3]})
    for namespace in ("db", "warehouse", "warehouse.playback", "icdc"):
        lake.create_namespace(namespace)
    for name in ("db.events", *(source.table for source in SOURCES)):
        table = lake.create_table(name, schema=rows.schema)
        table.append(rows)
        table.append(rows)
    return lake


def opened(name, lake):
    from airflow_provider_ips.checkpoints.iceberg import IcebergStore
    from airflow_provider_ips.checkpoints.variable import ServerVariables, VariableStore

    return VariableStore(ServerVariables()) if name == "variable" else IcebergStore(lake)


def add(store, consumer):
    from airflow_provider_ips.core.checkpoint.manual_changes import seed

    document = seed(None, consumer=consumer, positions=long_checkpoint().positions[:1], now_ms=1)
    store.write(document, expected_revision=None)


def first_runs(prefix, folder):
    """The CPU seconds of the quickest of some first runs, of DAGs of their own."""
    (folder / "dags" / f"{prefix}.py").write_text(DAGS.format(names=[f"{prefix}_{number}" for number in range(RUNS)]))
    return min(cpu(partial(_run, f"{prefix}_{number}", folder)) for number in range(RUNS))


def _run(dag_id, folder):
    ran = local_airflow.run(dag_id, datetime.now(tz=UTC), dags=folder / "dags")
    assert set(ran.task_states.values()) == {"success"}, ran


def long_document(lake):
    """A long document whose last capture and positions are those of real tables."""
    from airflow_provider_ips.iceberg.source.iceberg_source import open_source, position_at

    document = long_checkpoint()
    sources = [open_source(lake, source) for source in SOURCES]
    heads = [position_at(source) for source in sources]
    firsts = [
        position_at(source, snapshot_id=min(source.retained_snapshots(), key=lambda s: s.sequence_number).snapshot_id)
        for source in sources
    ]
    last = document.history[-1]
    ranges = tuple(
        replace(each, from_exclusive=first, to_inclusive=head, before_table=None)
        for each, first, head in zip(last.ranges, firsts, heads, strict=True)
    )
    committed = replace(
        last, ranges=ranges, committed_at_ms=int((datetime.now(tz=UTC) - timedelta(days=1)).timestamp() * 1000)
    )
    positions = tuple(replace(p, position=head) for p, head in zip(document.positions, heads, strict=True))
    return replace(
        document,
        consumer=CONSUMER,
        pending=None,
        positions=positions,
        history=(*document.history[:-1], committed),
        retained=(),
    )
