"""`airflow ips doctor`: problems are found before a run meets them."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from airflow.sdk import DAG

from airflow_provider_ips import IpCommitOperator, iceberg_asset
from airflow_provider_ips.checkpoints.variable import ServerVariables
from airflow_provider_ips.core.identifiers import variable_key
from airflow_provider_ips.maintenance.leases import check_leases
from airflow_provider_ips.runs.environment import now_ms
from tests.checkpoints.test_cli import ips
from tests.kit.airflow import sync
from tests.kit.calls import JOURNAL, JournaledCatalog
from tests.kit.pipelines import Job, capturing, checkpoint_of, incremental
from tests.kit.tables import append, create, icdc_tables

__all__ = ["ips"]
pytestmark = pytest.mark.usefixtures("airflow_database")


@pytest.fixture
def events(lake):
    table = create(lake, "db.events")
    append(table, [1, 2])
    return table


def examine(ips, consumer, *words):
    """The rows by check; the command fails exactly if one of them is a problem."""
    said = ips("doctor", "--conn-id", "lake", "--consumer", consumer, *words)
    assert said.failure == ("1" if any(row["status"] == "problem" for row in said.rows) else "")
    return {row["check"]: row for row in said.rows}


def committed(lake, run_dag, dag_id, **options):
    run_dag(incremental(dag_id, "db.events", Job(lake), **options))
    return f"{dag_id}.capture"


def test_all_is_ok(ips, lake, events, run_dag):
    """No problem is reported, and what is unknown is not reported as ok."""
    consumer = committed(lake, run_dag, "healthy")
    found = {check: row["status"] for check, row in examine(ips, consumer).items()}
    assert found == {
        "checkpoint": "ok",
        "shadows": "ok",
        "rights": "unknown",
        "purge": "ok",
        "lineage": "ok",
        "retention": "unknown",
        "expiry": "ok",
        "operations": "ok",
        "stages": "ok",
        "mode": "ok",
        "readers": "ok",
    }


def test_a_shadowing_environment_variable_is_found(ips, lake, events, run_dag, monkeypatch):
    """By its name; it hides what commits write."""
    consumer = committed(lake, run_dag, "shadowed")
    name = f"AIRFLOW_VAR_{variable_key(consumer).upper()}"
    monkeypatch.setenv(name, ServerVariables().get(variable_key(consumer)))
    row = examine(ips, consumer)["shadows"]
    assert row["status"] == "problem"
    assert f"unset {name}" in row["remedy"]


def test_a_shadowing_secrets_backend_is_found(ips, lake, events, run_dag, monkeypatch, tmp_path):
    """Airflow reads it before its own database."""
    consumer = committed(lake, run_dag, "backend")
    secrets = tmp_path / "variables.json"
    secrets.write_text(json.dumps({variable_key(consumer): "old"}))
    backend = "airflow.secrets.local_filesystem.LocalFilesystemBackend"
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", backend)
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND_KWARGS", json.dumps({"variables_file_path": str(secrets)}))
    from airflow.configuration import initialize_secrets_backends

    monkeypatch.setattr("airflow.configuration.secrets_backend_list", initialize_secrets_backends())
    row = examine(ips, consumer)["shadows"]
    assert (row["status"], "LocalFilesystemBackend" in row["finding"]) == ("problem", True)


def test_an_unknown_consumer_is_a_problem(ips, lake, events, run_dag):
    """Its name may be misspelled: the one that is meant is not examined."""
    committed(lake, run_dag, "examined_name")
    found = examine(ips, "examined_name.captrue")["checkpoint"]
    assert (found["status"], found["remedy"]) == (
        "problem",
        "did you mean 'examined_name.capture'? If not, see the names of all consumers with `airflow ips list`",
    )


def test_a_damaged_checkpoint_is_found(ips, lake, consumer):
    ServerVariables().set(variable_key(consumer), "{", description="")
    row = examine(ips, consumer)["checkpoint"]
    assert row["status"] == "problem"
    assert "airflow ips seed" in row["remedy"]


def test_two_stores_with_a_checkpoint_are_found(ips, lake, first, consumer):
    """Which is right is unknown."""
    from airflow_provider_ips.checkpoints.iceberg import IcebergStore
    from airflow_provider_ips.checkpoints.variable import VariableStore

    for store in (VariableStore(ServerVariables()), IcebergStore(lake)):
        store.write(first, expected_revision=None)
    rows = ips("doctor", "--conn-id", "lake", "--consumer", consumer).rows
    assert any("both stores" in row["finding"] and row["status"] == "problem" for row in rows)


def test_an_expired_checkpoint_is_found(ips, lake, events, run_dag):
    """With the remedy that its next capture would give."""
    consumer = committed(lake, run_dag, "expired")
    old = events.refresh().current_snapshot().snapshot_id
    append(events, [3])
    append(events, [4])
    events.refresh().maintenance.expire_snapshots().by_ids(
        [s.snapshot_id for s in events.snapshots() if s.snapshot_id != events.current_snapshot().snapshot_id]
    ).commit()
    row = examine(ips, consumer)["lineage"]
    assert row["status"] == "problem"
    assert str(old) in row["finding"]


def test_retention_shorter_than_the_schedule_is_found(ips, lake, events, run_dag):
    """A weekly DAG over a table that keeps its snapshots for a day."""
    consumer = committed(lake, run_dag, "weekly_shape")
    with events.refresh().transaction() as change:
        change.set_properties({"history.expire.max-snapshot-age-ms": str(24 * 3600 * 1000)})
    assert examine(ips, consumer)["retention"]["status"] == "unknown"
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with DAG("weekly_shape", schedule="@weekly", start_date=start, catchup=False) as dag:
        capturing("db.events")
    sync(dag)
    row = examine(ips, consumer)["retention"]
    assert row["status"] == "warning"
    assert "7 days" in row["finding"]


@pytest.mark.parametrize(
    ("writer", "status"), [("Apache Iceberg 1.9.2 (commit 071d56)", "warning"), ("Apache Iceberg 1.10.1", "unknown")]
)
def test_a_table_that_may_lose_files_to_an_old_engine_is_found(ips, lake, events, run_dag, writer, status):
    """Main's history has a gap, and an older snapshot is retained; `make test-branches` has releases lose the files."""
    consumer = committed(lake, run_dag, f"gap_{status}")
    append(events, [3])
    first, second = (snapshot.snapshot_id for snapshot in events.refresh().snapshots()[:2])
    events.manage_snapshots().create_tag(first, "release").commit()
    assert examine(ips, consumer)["expiry"]["status"] == "ok"
    append(events, [4], properties={"iceberg-version": writer})
    events.refresh().maintenance.expire_snapshots().by_id(second).commit()
    row = examine(ips, consumer)["expiry"]
    assert row["status"] == status
    assert str(first) in row["finding"]
    assert ("Apache Iceberg 1.9 has written to it" in row["finding"]) is (status == "warning")
    assert "1.10 or later only" in row["remedy"]


def test_changes_that_the_capture_does_not_take_are_found(ips, lake, events, run_dag):
    """A problem if the next capture will refuse them, a warning if it leaves them out."""
    consumer = committed(lake, run_dag, "changed")
    events.refresh().delete("id = 1")
    row = examine(ips, consumer)["operations"]
    assert row["status"] == "problem"
    assert "data_operations" in row["remedy"]
    run_dag(incremental("changed", "db.events", Job(lake), capture={"on_other_operation": "skip"}))
    assert examine(ips, consumer)["operations"]["status"] == "warning"


def test_a_stage_that_captures_appends_downstream_of_one_that_merges_is_found(ips, lake, events, run_dag):
    """By the stamp that the stage before it leaves."""
    consumer = committed(lake, run_dag, "second_stage")
    events.refresh().delete("id = 1", snapshot_properties={"ips-capture-id": "c0ffee"})
    row = examine(ips, consumer)["operations"]
    assert "written by a stage before this one (capture c0ffee)" in row["finding"]


ALL_OPERATIONS = {"data_operations": ("append", "overwrite", "delete"), "on_superset": "allow"}
KEYED = pytest.mark.needs_airflow_3_3("a task chooses the partition keys of its events")
LOG = iceberg_asset("db.log", iceberg_conn_id="lake")


@pytest.fixture
def two_stages(ips, lake, events, run_dag):
    """Two stages in different files, the first of which merges: so far it has only met rows that were new to it."""

    def build(**naming):
        append(create(lake, "db.log"), [1])
        run_dag(incremental("first_stage", "db.events", Job(lake), capture=ALL_OPERATIONS))
        run_dag(incremental("next_stage", "db.log", Job(lake)))
        with DAG("first_stage", schedule=None) as dag:
            capture = capturing("db.events", **ALL_OPERATIONS)
            capture >> IpCommitOperator(task_id="commit", capture=capture, **naming)
        sync(dag)
        return examine(ips, "next_stage.capture")

    return build


@pytest.mark.parametrize(
    "naming",
    [
        {"target_assets": LOG},
        pytest.param({"target_assets": LOG, "partition_events": True}, marks=KEYED),
        {"verify_target": "db.log"},
    ],
)
def test_a_stage_that_merges_is_found_before_a_merge_changes_a_row(two_stages, naming):
    """By what its DAG declares, for its history looks like appends."""
    found = two_stages(**naming)
    assert found["operations"]["status"] == "ok"
    assert found["stages"]["status"] == "problem"
    assert "first_stage.capture before it changes rows there" in found["stages"]["finding"]


@pytest.mark.parametrize(("says", "status"), [({"target_changes": True}, "problem"), ({}, "ok")])
def test_a_stage_that_captures_appends_and_merges_says_so(ips, lake, events, run_dag, says, status):
    """It captures no changes, so that only its commit says so."""
    append(create(lake, "db.log"), [1])
    run_dag(incremental("merging_stage", "db.events", Job(lake), commit={"target_assets": LOG, **says}))
    run_dag(incremental("next_stage", "db.log", Job(lake)))

    assert examine(ips, "next_stage.capture")["stages"]["status"] == status


def test_a_stage_downstream_of_another_table_is_ok(two_stages):
    """The stage before it writes elsewhere."""
    found = two_stages(target_assets=iceberg_asset("db.other", iceberg_conn_id="lake"))
    assert found["stages"]["status"] == "ok"


def test_an_icdc_table_that_could_be_purged_is_found(ips, lake, events, run_dag):
    """Somebody took its protection away."""
    consumer = committed(lake, run_dag, "purgeable")
    (name,) = icdc_tables(lake)
    with lake.load_table(name).transaction() as change:
        change.set_properties({"gc.enabled": "true"})
    row = examine(ips, consumer)["purge"]
    assert (row["status"], name in row["finding"]) == ("problem", True)


def test_rights_are_tried_when_asked(ips, lake, events, run_dag):
    """A table is made and dropped, and nothing is left of it."""
    consumer = committed(lake, run_dag, "probed")
    before = icdc_tables(lake)
    assert examine(ips, consumer, "--write-probe")["rights"]["status"] == "ok"
    assert icdc_tables(lake) == before


def test_a_namespace_that_cannot_be_written_is_found(ips, lake, events, run_dag, tmp_path):
    """Before a capture fails there."""
    consumer = committed(lake, run_dag, "forbidden")
    row = examine(ips, consumer, "--namespace", "no good", "--write-probe")["rights"]
    assert row["status"] == "problem"


def test_a_connection_that_leads_nowhere_is_found(ips, consumer):
    rows = ips("doctor", "--conn-id", "nowhere", "--consumer", consumer).rows
    assert any(row["status"] == "problem" and "nowhere" in row["finding"] for row in rows)


def in_branches(lake, run_dag, dag_id, lease, *, fails=False):
    """The row of one lease of a consumer."""
    job = Job(lake)
    job.fails = fails
    run_dag(incremental(dag_id, "db.events", job, capture={"capture_mode": "BRANCH", "lease": lease}))
    return f"{dag_id}.capture"


@pytest.mark.parametrize(
    ("lease", "fails", "status", "says"),
    [
        (timedelta(hours=1), False, "ok", "holds 0 bytes that nothing else holds, for 0 h 0 min"),
        (timedelta(hours=1), True, "ok", "its lease ends at"),
        (timedelta(milliseconds=1), False, "warning", "its lease ended at"),
        (timedelta(milliseconds=1), True, "problem", "is not committed: whatever reads it may fail from now on"),
    ],
)
def test_a_lease_that_has_ended_is_found(ips, lake, events, run_dag, lease, fails, status, says):
    """It is a problem if its capture is not committed, for the job may still want to read it."""
    consumer = in_branches(lake, run_dag, f"lease_{status}_{fails}", lease, fails=fails)
    row = examine(ips, consumer)["lease"]
    assert (row["status"], says in row["finding"]) == (status, True), row


def test_a_lease_that_is_about_to_end_is_found(ips, lake, events, run_dag, monkeypatch):
    """In its last quarter, if its capture is not committed."""
    consumer = in_branches(lake, run_dag, "ending_lease", timedelta(hours=4), fails=True)
    later = now_ms() + 3 * 3600_000 + 60_000
    monkeypatch.setattr("airflow_provider_ips.maintenance.leases.now_ms", lambda: later)
    row = examine(ips, consumer)["lease"]
    assert (row["status"], "for 3 h 1 min" in row["finding"]) == ("warning", True), row
    assert "longer lease" in row["remedy"]


def test_a_branch_that_somebody_has_written_to_is_found(ips, lake, events, run_dag):
    """It has no lease any more, and gc leaves it alone."""
    consumer = in_branches(lake, run_dag, "written_to", timedelta(hours=1))
    (branch,) = (name for name in events.refresh().refs() if name != "main")
    events.append(events.scan().to_arrow(), branch=branch)
    row = examine(ips, consumer)["lease"]
    assert (row["status"], row["subject"]) == ("warning", f"db.events.branch_{branch}")
    assert f"DROP BRANCH {branch}" in row["remedy"]


def test_a_branch_of_a_source_that_cannot_be_loaded_is_unknown(ips, lake, events, run_dag):
    """Not left out, as if nothing were held."""
    consumer = in_branches(lake, run_dag, "held_unseen", timedelta(hours=1))
    (branch,) = (name for name in events.refresh().refs() if name != "main")
    Path(urlsplit(events.metadata_location).path).unlink()
    row = examine(ips, consumer)["lease"]
    assert (row["status"], row["subject"]) == ("unknown", f"db.events.branch_{branch}")
    assert "loading db.events" in row["finding"]


def test_leases_are_checked_by_one_load_of_the_source(lake, events, run_dag):
    """For the branches that are there, and for those that somebody has written to."""
    consumer = in_branches(lake, run_dag, "loaded_once", timedelta(hours=1))
    JOURNAL.start()
    (found,) = check_leases(JournaledCatalog("lake", **lake.properties), checkpoint_of(consumer))
    assert (found.status, JOURNAL.names.count("catalog.load_table")) == ("ok", 1)
    JOURNAL.stop()


def test_what_branches_hold_is_listed_and_shown(ips, lake, events, run_dag):
    """Since when, until when, and the bytes that nothing else holds; what cannot be looked at is unknown."""
    consumer = in_branches(lake, run_dag, "held", timedelta(hours=1))
    (shown,) = ips("show", "--conn-id", "lake", "--consumer", consumer).rows
    listed = {row["consumer"]: row for row in ips("list", "--conn-id", "lake").rows}[consumer]
    assert shown["held_bytes"] == listed["held_bytes"] == "0"
    assert shown["held_since"] < shown["held_until"] == listed["held_until"]
    collected = ips("gc", "--conn-id", "lake", "--dry-run").rows
    (branch,) = (row for row in collected if row["consumer"] == consumer)
    assert "a checkpoint names it; holds 0 bytes" in branch["reason"]
    events.refresh().manage_snapshots().remove_branch(branch["name"].rpartition(".branch_")[2]).commit()
    (shown,) = ips("show", "--conn-id", "lake", "--consumer", consumer).rows
    assert shown["held_bytes"] == "unknown"
