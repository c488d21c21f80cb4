"""Leftovers are distinguished from files in use, however catalog, connection and option spell one folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.iceberg.icdc.leftovers import delete_leftovers, find_icdc_tables, find_leftovers
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from tests.kit.icdc import build_icdc
from tests.kit.local_tables import append, new_table, rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog

ICDC = "icdc.db_t_" + "a" * 20


def captured(folder: Path, warehouse: str, home: str | None) -> Catalog:
    """A source with rows, and an ICDC table of a consumer."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=warehouse)
    catalog.create_namespace("db")
    catalog.create_namespace("icdc")
    append(new_table(catalog), 1, 2)
    source, settings = open_source(catalog, Source("db.t")), CaptureSettings()
    build_icdc(
        catalog,
        source,
        plan_capture(source, committed=None, settings=settings),
        table=SourceTable("db.t"),
        settings=settings,
        icdc_table=ICDC,
        identity={"consumer": "dag.capture", "capture-id": "x"},
        location=home,
    )
    return catalog


@pytest.mark.parametrize(
    ("warehouse", "home", "looked_in"),
    [
        pytest.param("{}", None, "file://{}/icdc", id="--location is a URL"),
        pytest.param("file://{}", "{}/icdc", None, id="icdc_location is a path, the warehouse a URL"),
        pytest.param("file://{}", "file:{}/icdc", None, id="two kinds of URL"),
        pytest.param("{}", "{}/icdc", "{}/../{{name}}/icdc", id="a path with a detour"),
    ],
)
def test_files_of_a_registered_table_are_no_leftovers(
    tmp_path: Path, warehouse: str, home: str | None, looked_in: str | None
) -> None:
    """Taken for leftovers they would be deleted, and the table with them."""
    catalog = captured(tmp_path, warehouse.format(tmp_path), None if home is None else home.format(tmp_path))
    place = None if looked_in is None else looked_in.format(tmp_path).format(name=tmp_path.name)
    assert list(find_leftovers(catalog, "icdc", find_icdc_tables(catalog, "icdc"), place)) == []


def test_a_leftover_beside_a_registered_table_is_found_once(tmp_path: Path) -> None:
    """Under one of the spellings, and deleting it leaves the table whole."""
    catalog = captured(tmp_path, f"file://{tmp_path}", f"{tmp_path}/icdc")
    folder = tmp_path / "icdc" / ICDC.partition(".")[2] / "metadata" / ("b" * 12)
    folder.mkdir()
    left = [folder / "m0.avro", folder / "snap.avro"]
    for file in left:
        file.write_bytes(b"of an attempt that died")
    (folder / "notes.txt").write_bytes(b"of somebody else")
    found = list(find_leftovers(catalog, "icdc", find_icdc_tables(catalog, "icdc")))
    delete_leftovers(catalog, found)
    assert len(found) == len(left)
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]
    assert rows(catalog, ICDC) == [1, 2]
