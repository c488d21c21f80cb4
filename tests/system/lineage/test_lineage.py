"""What a real OpenLineage listener sends of captures and commits, and Spark's agent of jobs, as a receiver gets it."""

import json

import jsonschema
import pytest

from tests.kit.catalog_servers import rest_adapter
from tests.kit.lakes import on_nessie, opened
from tests.kit.packages import jars
from tests.kit.pages import ROOT
from tests.kit.servers import s3_server
from tests.kit.spark_process import spark
from tests.kit.tables import append, create, icdc_tables
from tests.system.lineage.conftest import PORT, end_processes

SCHEMA = ROOT / "docs" / "reference" / "ips-capture-run-facet.json"


AGENT = "io.openlineage:openlineage-spark_2.13:1.53.0"


def append_by_pyiceberg(source):
    from airflow.providers.apache.iceberg.hooks.iceberg import IcebergHook

    catalog = IcebergHook("lake").get_conn()
    catalog.load_table("db.target").append(catalog.load_table(source).scan().to_arrow())


def pipeline(write=append_by_pyiceberg):
    """Capture, a job that writes db.target, commit."""
    from airflow.sdk import DAG, task

    from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, iceberg_asset

    @task
    def job(source):
        write(source)

    with DAG(dag_id="lineage", schedule=None) as dag:
        capture = IpCaptureOperator(task_id="capture", source_tables="db.events", iceberg_conn_id="lake")
        commit = IpCommitOperator(
            task_id="commit", capture=capture, target_assets=iceberg_asset("db.target", iceberg_conn_id="lake")
        )
        capture >> job(capture.output["db.events"]) >> commit
    return dag


def completed(events, task):
    """The events of a task that ended well, the oldest first."""
    return [e for e in events if e["eventType"] == "COMPLETE" and e["job"]["name"] == f"lineage.{task}"]


def names(datasets):
    return [(each["namespace"], each["name"]) for each in datasets]


def test_capture_and_commit_show_one_edge_whatever_the_tables_are_called(lake, events, run_dag, received):
    """Three runs make three captured tables; each is another name of the source, and the edge leads from the source."""
    create(lake, "db.target")
    dag = pipeline()
    for number in range(3):
        append(events, [10 + number])
        run_dag(dag)
    captures, commits = completed(received(), "capture"), completed(received(), "commit")
    assert len(captures) == len(commits) == 3
    source, target = ("iceberg://lake", "db.events"), ("iceberg://lake", "db.target")
    for event in captures:
        assert names(event["inputs"]) == [source]
        (made,) = event["outputs"]
        assert made["name"].startswith("icdc.db_events_")
        links = made["facets"]["symlinks"]["identifiers"]
        assert [(link["namespace"], link["name"]) for link in links] == [source]
    assert len({event["outputs"][0]["name"] for event in captures}) == 3
    assert {(*names(event["inputs"]), *names(event["outputs"])) for event in commits} == {(source, target)}


def test_versions_and_statistics_are_those_of_the_capture(lake, events, run_dag, received):
    """What a data catalog shows beside the edge."""
    create(lake, "db.target")
    dag = pipeline()
    run_dag(dag)
    append(events, [4, 5])
    run_dag(dag)
    (_, capture), (_, commit) = completed(received(), "capture"), completed(received(), "commit")
    head = str(lake.load_table("db.events").current_snapshot().snapshot_id)
    for event in (capture, commit):
        (read,) = event["inputs"]
        assert read["facets"]["version"]["datasetVersion"] == head
        assert read["inputFacets"]["inputStatistics"]["rowCount"] == 2
        assert read["inputFacets"]["inputStatistics"]["fileCount"] == 1
        facet = event["run"]["facets"]["ips_capture"]
        jsonschema.validate(facet, json.loads(SCHEMA.read_text()) | {"$ref": "#/$defs/IpsCaptureRunFacet"})
        assert facet["consumer"] == "lineage.capture"
        (listed,) = facet["sources"]
        assert listed["to"] == head
        assert listed["capturedTable"] in icdc_tables(lake)


def test_a_run_without_news_leads_nowhere(lake, events, run_dag, received):
    """The source was looked at, and no target was written."""
    create(lake, "db.target")
    dag = pipeline()
    run_dag(dag)
    run_dag(dag)
    last = completed(received(), "capture")[-1]
    assert names(last["inputs"]) == [("iceberg://lake", "db.events")]
    assert last["outputs"] == []


@pytest.fixture
def rest_lake(tmp_path, monkeypatch):
    """The connection ``lake``, to a REST catalog, which Spark's agent has a rule for; and Spark's own properties."""
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")  # S3Proxy takes no checksum after a body
    (tmp_path / "s3").mkdir()
    with s3_server(tmp_path / "s3") as storage, rest_adapter(tmp_path, storage) as address:
        properties, for_spark = on_nessie(address, storage)
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": properties}))
        catalog = opened("lake", properties)
        catalog.create_namespace("db")
        yield catalog, for_spark


@pytest.fixture
def spark_with_agent(rest_lake, tmp_path):
    """Spark, whose agent reports every statement to the receiver that Airflow reports to."""
    (agent,) = jars("openlineage-spark", AGENT).glob("openlineage-spark*.jar")
    settings = {
        "spark.jars": str(agent),
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.url": f"http://127.0.0.1:{PORT}",
        "spark.openlineage.namespace": "spark",
    }
    python = ROOT / ".venv" / "bin" / "python"
    with spark(tmp_path, {"lake": rest_lake[1]}, python=python, more=settings) as running:
        yield running
        end_processes()


def edges_of(events):
    """The edges between tables that remain once every name of a table, by its symlinks, is taken for that table."""
    names_of: dict[tuple[str, str], frozenset[tuple[str, str]]] = {}
    for event in events:
        for each in [*event["inputs"], *event["outputs"]]:
            links = each.get("facets", {}).get("symlinks", {}).get("identifiers", [])
            of_one = {(each["namespace"], each["name"]), *((link["namespace"], link["name"]) for link in links)}
            merged = frozenset(of_one.union(*(names_of[name] for name in of_one if name in names_of)))
            names_of |= dict.fromkeys(merged, merged)
    edges = set()
    for event in events:
        read, written = ({names_of[name] for name in names(event[side])} for side in ("inputs", "outputs"))
        edges |= {(a, b) for a in read for b in written if a != b}
    return edges


def test_with_sparks_agent_in_the_job_ten_runs_make_one_edge(rest_lake, spark_with_agent, run_dag, received):
    """Airflow's events and the agent's: no table but the source and the target, and one edge between them."""
    catalog, _ = rest_lake
    address = catalog.properties["uri"]
    source = create(catalog, "db.events")
    create(catalog, "db.target")

    dag = pipeline(lambda table: spark_with_agent.sql(f"INSERT INTO lake.db.target SELECT * FROM lake.{table}"))
    for number in range(10):
        append(source, [number])
        assert set(run_dag(dag).states.values()) == {"success"}
    spark_with_agent.sql("SELECT 1")
    events = received()
    of_spark = [e for e in events if e["job"]["namespace"] == "spark" and e["inputs"]]
    read = {name for event in of_spark for name in names(event["inputs"])}
    assert len(read) == 10, read
    ((source_names, target_names),) = edges_of(events)
    assert (address, "db.events") in source_names
    assert (address, "db.target") in target_names
    assert read < source_names
