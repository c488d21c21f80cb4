"""`airflow ips doctor` says which modes of captures a table and its catalog allow, and what each needs."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from airflow_provider_ips.core.advice.checks import Status, check_expiry, check_mode, check_readers, why_no_range
from airflow_provider_ips.core.identifiers import TableIdentifier
from airflow_provider_ips.iceberg import drop_icdc
from airflow_provider_ips.iceberg.source.catalog_table import wider_readers
from airflow_provider_ips.testing import InMemoryHistory
from tests.checkpoints.test_cli import ips
from tests.checkpoints.test_doctor import committed, events, examine
from tests.kit.tables import icdc_tables

__all__ = ["events", "ips"]
pytestmark = pytest.mark.usefixtures("airflow_database")


def test_all_modes_are_possible_for_a_log_of_appends(ips, lake, events, run_dag):
    """With the right that each needs, which nobody can look up."""
    found = examine(ips, committed(lake, run_dag, "log_of_appends"))["mode"]
    assert found["finding"].startswith("captures are in mode ICDC; possible: ICDC (with the right to create tables")
    assert "BRANCH (with the right to commit to the source), RANGE (with" in found["finding"]
    assert found["status"] == "ok"


def test_a_mode_that_is_not_possible_any_more_is_a_problem(ips, lake, events, run_dag):
    """Before the next capture is refused."""
    consumer = committed(lake, run_dag, "in_branches_once", capture={"capture_mode": "BRANCH"})
    with events.refresh().transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})

    found = examine(ips, consumer)["mode"]

    assert found["status"] == "problem"
    assert "captures are in mode BRANCH" in found["finding"]
    assert "BRANCH is not possible: it has gc.enabled=false" in found["finding"]
    assert found["remedy"] == "set capture_mode to 'ICDC' or 'RANGE'"


@pytest.mark.parametrize(("mode", "says"), [(0o700, "every user of this machine, the group"), (0o755, None)])
def test_captures_that_more_people_may_read_than_their_source_are_found(ips, lake, events, run_dag, mode, says):
    """Where folders show it, by their mode. Who may not pass a folder above both can read neither."""
    consumer = committed(lake, run_dag, f"readers_{mode}")
    source = Path(urlsplit(events.location()).path)
    source.chmod(mode)
    found = examine(ips, consumer)["readers"]
    assert found["status"] == ("warning" if says else "ok")
    assert found["finding"].startswith(says or "people who may read icdc may read db.events")
    for table in icdc_tables(lake):
        drop_icdc(lake, table)
    assert examine(ips, consumer)["readers"]["status"] == "unknown"  # it is not known where its tables were


def test_what_no_catalog_says_is_unknown(lake, events):
    """Object stores have no mode, and Iceberg's REST protocol no grants."""
    places = ("icdc", "s3://lake/icdc", TableIdentifier.parse("db.events"), "s3://lake/db/events")
    wider, is_all = wider_readers(lake, *places)
    found = check_readers("c: db.events", "icdc", "db.events", wider, is_all=is_all)
    assert (found.status, "does not say" in found.finding) == (Status.UNKNOWN, True)


@pytest.mark.parametrize(
    ("mode", "impossible", "is_expiring", "status", "remedy"),
    [
        (None, {}, False, Status.OK, ""),
        ("RANGE", {}, True, Status.OK, "capture_mode='BRANCH' holds the source's files until the commit"),
        ("ICDC", {"BRANCH": "Nessie"}, True, Status.OK, ""),
        ("BRANCH", {}, True, Status.OK, ""),
        ("RANGE", {"RANGE": "an overwrite"}, False, Status.PROBLEM, "set capture_mode to 'ICDC' or 'BRANCH'"),
        ("ICDC", dict.fromkeys(("ICDC", "BRANCH", "RANGE"), "no"), False, Status.PROBLEM, "process the table in full"),
    ],
)
def test_advice_names_what_is_possible(mode, impossible, is_expiring, status, remedy):
    """And a branch where files may be expired too soon."""
    found = check_mode("c: db.t", mode, impossible, is_expiring=is_expiring)
    assert (found.status, found.remedy) == (status, remedy)


def test_a_source_whose_snapshots_engines_read_otherwise_has_no_ranges():
    """By its newest snapshots; those that every capture refuses are another finding."""
    history = InMemoryHistory("db.t")
    for _ in range(2):
        history.append()
    history.compact()
    usual: dict[str, Any] = {"captures_changes": False, "on_other_operation": "fail"}
    assert why_no_range(history, **usual) == ""
    history.delete_rows()
    assert why_no_range(history, **usual) == ""
    history.append(operation="overwrite")
    assert "an incremental read takes snapshots with the operation append only" in why_no_range(history, **usual)
    assert why_no_range(history, captures_changes=True, on_other_operation="fail") == "the capture takes changes"


def test_without_a_snapshot_of_main_it_is_unknown_what_an_old_engine_deletes():
    """A table may have snapshots on another branch only."""
    history = InMemoryHistory("db.t")
    history.append()
    history.head_id = None
    assert check_expiry(history, "c: db.t").status is Status.UNKNOWN
