"""What a real OpenLineage listener sends of captures and commits, as a receiver gets it."""

import json

import jsonschema

from tests.kit.pages import ROOT
from tests.kit.tables import append, create, icdc_tables

SCHEMA = ROOT / "docs" / "reference" / "ips-capture-run-facet.json"


def pipeline():
    """Capture, a job that writes db.target, commit."""
    from airflow.sdk import DAG, task

    from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, iceberg_asset

    @task
    def job(source):
        from airflow.providers.apache.iceberg.hooks.iceberg import IcebergHook

        catalog = IcebergHook("lake").get_conn()
        catalog.load_table("db.target").append(catalog.load_table(source).scan().to_arrow())

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
