"""What a run asks of the catalog and the storage, through the operators."""

import json

import pytest

from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from tests.airflow.counting import IMPLEMENTATION, CountingCatalog
from tests.kit.pipelines import Job, default_store, incremental
from tests.kit.tables import append, create


@pytest.fixture
def loads(lake, monkeypatch):
    """The names of the tables that are loaded through the connection."""
    extra = {**{k: v for k, v in lake.properties.items() if k != "type"}, "py-catalog-impl": IMPLEMENTATION}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": extra}))
    CountingCatalog.loads.clear()
    return CountingCatalog.loads


@pytest.fixture
def tables(lake):
    """Two sources with a row each."""
    tables = [create(lake, "db.events"), create(lake, "db.users")]
    for table in tables:
        append(table, [1])
    return tables


def test_a_capture_loads_each_source_once(lake, tables, run_dag, loads):
    """Whether it is the first one or one of a range, and whatever else it asks of the catalog."""
    names = ["db.events", "db.users"]
    dag = incremental("once", names, Job(lake), capture={"retries": 0})
    for ids in ([2], [3]):
        loads.clear()
        ran = run_dag(dag)
        assert ran.states["commit"] == "success"
        assert [loads.count(name) for name in names] == [1, 1]
        for table in tables:
            append(table, ids)


def test_a_run_without_news_loads_each_source_once_and_reads_no_file(lake, tables, run_dag, loads, tmp_path):
    """The manifest lists are gone, and nobody misses them."""
    names = ["db.events", "db.users"]
    dag = incremental("quiet", names, Job(lake))
    assert run_dag(dag).states["commit"] == "success"
    lists = list((tmp_path / "warehouse" / "db").rglob("snap-*.avro"))
    for manifest_list in lists:
        manifest_list.unlink()
    loads.clear()

    ran = run_dag(dag)

    assert lists
    assert ran.states == {"capture": "success", "work": "skipped", "commit": "skipped"}
    store = default_store()
    checkpoint = [store.table_name("quiet.capture")] if isinstance(store, IcebergStore) else []
    assert sorted(loads) == [*names, *checkpoint]
