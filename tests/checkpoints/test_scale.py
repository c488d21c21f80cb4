"""What one run or command costs where many consumers share a store, counted in calls."""

import pytest
from airflow.sdk import DAG

from airflow_provider_ips import IpCommitOperator
from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.checkpoints.variable import ServerVariables, VariableStore
from airflow_provider_ips.core.checkpoint.manual_changes import seed
from airflow_provider_ips.maintenance import overview
from tests.airflow.counting import CountingCatalog
from tests.checkpoints.conftest import standing
from tests.kit.pipelines import capturing

OTHERS = 20


class CountingVariables(ServerVariables):
    """Notes which Variables are read."""

    def __init__(self):
        self.reads = []

    def get(self, key):
        self.reads.append(key)
        return super().get(key)


@pytest.fixture(params=["variable", "iceberg"])
def store(request, lake, airflow_database):
    """A store, and the list of documents that are read in it."""
    if request.param == "variable":
        access = CountingVariables()
        return VariableStore(access), access.reads
    CountingCatalog.loads.clear()
    counting = CountingCatalog("lake", **{k: v for k, v in lake.properties.items() if k != "type"})
    return IcebergStore(counting), CountingCatalog.loads


def add(store, names):
    for name in names:
        document = seed(None, consumer=name, positions=(standing(1, f"db.{name.partition('.')[0]}"),), now_ms=1)
        store.write(document, expected_revision=None)


def first_run(run_dag, dag_id, store):
    with DAG(dag_id, schedule=None) as dag:
        captured = capturing("db.events", checkpoint_store=store)
        captured >> IpCommitOperator(task_id="commit", capture=captured)
    assert run_dag(dag).states["commit"] == "success"


def test_a_first_run_costs_the_same_however_many_consumers_there_are(store, events, run_dag):
    """Only a task of its own DAG that is missing can be its former self."""
    kept, reads = store
    first_run(run_dag, "alone", kept)
    alone = len(reads)
    add(kept, [f"team_{number}.capture" for number in range(OTHERS)])
    reads.clear()

    first_run(run_dag, "among", kept)

    assert len(reads) <= alone


def test_a_first_run_reads_no_document_of_dags_whose_ids_begin_like_its_own(store, events, run_dag):
    """The names of their Variables and logs begin alike, too."""
    kept, reads = store
    first_run(run_dag, "alone_again", kept)
    alone = len(reads)
    add(kept, [f"team{joint}{number}.capture_{number}" for number in range(OTHERS) for joint in "_-"])
    reads.clear()

    first_run(run_dag, "team", kept)

    assert len(reads) <= alone


def test_a_list_reads_each_document_once(store):
    """It shows what that reading found."""
    kept, reads = store
    add(kept, [f"team_{number}.capture" for number in range(OTHERS)])
    reads.clear()

    rows = overview.read_rows(kept)

    assert len(reads) == len(rows) == OTHERS
