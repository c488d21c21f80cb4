"""What becomes of captured files: nothing done to an ICDC table harms them, and what the source loses is named."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from pyiceberg.exceptions import NoSuchTableError

from airflow_provider_ips.core.errors import IcdcConflictError
from airflow_provider_ips.iceberg import capture, drop_icdc, find_losses
from airflow_provider_ips.iceberg.icdc.lost_files import MAX_NAMED, LossReport, LostFile
from tests.kit.local_tables import append, files_under, new_catalog, new_table, rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """A catalog of its own."""
    return new_catalog(tmp_path)


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    """Rows 1, and 2 with 3, in manifests that were merged."""
    made = new_table(catalog, properties=MERGING)
    append(made, 1)
    append(made, 2, 3)
    return made


def data_files(table: Table) -> list[str]:
    """The paths of live files, oldest first."""
    found = table.refresh().inspect.entries().to_pylist()
    return [e["data_file"]["file_path"] for e in sorted(found, key=lambda e: e["sequence_number"])]


def remove(table: Table, path: str) -> None:
    """Delete a file, as an expiry of the source does."""
    table.io.delete(path)


def test_whatever_pyiceberg_does_to_an_icdc_table_but_purge_leaves_the_source_alone(
    catalog: SqlCatalog, table: Table
) -> None:
    """Writes, deletes, expiry and drop."""
    before = files_under(table.location())
    capture(catalog, "db.t", into="icdc.x")
    icdc = catalog.load_table("icdc.x")
    captured = icdc.current_snapshot()
    assert captured is not None
    icdc.delete("id = 2")
    icdc.overwrite(icdc.scan().to_arrow())
    icdc.refresh().maintenance.expire_snapshots().by_id(captured.snapshot_id).commit()
    assert drop_icdc(catalog, "icdc.x")
    capture(catalog, "db.t", into="icdc.y")
    catalog.drop_table("icdc.y")
    assert files_under(table.location()) == before
    assert rows(catalog, "db.t") == [1, 2, 3]


def test_a_purge_by_pyiceberg_is_the_one_thing_that_nothing_prevents(
    catalog: SqlCatalog, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    """It ignores ``gc.enabled``, as documented, and ``find_losses`` names the files that are missing."""
    caplog.set_level(logging.ERROR)
    capture(catalog, "db.t", into="icdc.x")
    capture(catalog, "db.t", into="icdc.y")
    catalog.purge_table("icdc.x")
    losses = find_losses(catalog, "icdc.y")
    assert losses is not None
    assert len(losses.lost) == losses.files == 2


def test_an_intact_icdc_table_has_lost_nothing(catalog: SqlCatalog, table: Table) -> None:
    """And says how much there is."""
    capture(catalog, "db.t", into="icdc.x")
    losses = find_losses(catalog, "icdc.x")
    assert losses is not None
    assert losses.is_intact
    assert str(losses) == "all 2 files of icdc.x still exist"


def test_what_is_gone_is_named_with_its_snapshot_and_its_rows(catalog: SqlCatalog, table: Table) -> None:
    """Whether the manifest was copied, or spliced from a merged one."""
    since, last = (s.snapshot_id for s in table.refresh().snapshots())
    capture(catalog, "db.t", into="icdc.whole")
    capture(catalog, "db.t", into="icdc.spliced", since=since)
    lost = data_files(table)[-1]
    remove(table, lost)
    for name, files in (("icdc.whole", 2), ("icdc.spliced", 1)):
        losses = find_losses(catalog, name)
        assert losses == LossReport(
            icdc_table=name, source="db.t", files=files, lost=(LostFile(path=lost, snapshot_id=last, records=2),)
        )
        found = f"1 of the {files} files of {name} no longer exist, with 2 rows (1 of snapshot {last}): {lost}"
        assert str(losses) == found


def test_a_source_that_was_dropped_takes_nothing_with_it_until_it_is_purged(catalog: SqlCatalog, table: Table) -> None:
    """Its files are looked for all the same."""
    capture(catalog, "db.t", into="icdc.x")
    paths = data_files(table)
    catalog.drop_table("db.t")
    losses = find_losses(catalog, "icdc.x")
    assert losses is not None
    assert losses.is_intact
    assert rows(catalog, "icdc.x") == [1, 2, 3]
    remove(table, paths[0])
    losses = find_losses(catalog, "icdc.x")
    assert losses is not None
    assert [file.path for file in losses.lost] == paths[:1]


def test_only_icdc_tables_are_looked_into(catalog: SqlCatalog, table: Table) -> None:
    """A table that was dropped has no files to look for; one that no capture made has no source."""
    assert find_losses(catalog, "icdc.never") is None
    with pytest.raises(IcdcConflictError, match="not an ICDC table"):
        find_losses(catalog, "db.t")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("icdc.never")


def test_a_message_names_some_and_counts_the_rest() -> None:
    """A log line with ten thousand paths is of no use."""
    lost = tuple(LostFile(path=f"f{i}", snapshot_id=i, records=2) for i in range(50))
    shown = str(LossReport(icdc_table="icdc.x", source="db.t", files=60, lost=lost))
    assert shown.startswith("50 of the 60 files of icdc.x no longer exist, with 100 rows (1 of snapshot 0, ")
    assert "and of 30 other snapshots): f0, f1" in shown
    assert shown.endswith(f"f{MAX_NAMED - 1} and 30 more")


def test_lost_deletes_are_not_counted_as_rows() -> None:
    """They take rows away."""
    lost = (LostFile(path="d", snapshot_id=1, records=7, is_delete=True), LostFile(path="f", snapshot_id=1, records=2))
    assert "2 of the 2 files of icdc.x no longer exist, with 2 rows" in str(
        LossReport(icdc_table="icdc.x", source="db.t", files=2, lost=lost)
    )
