"""An ICDC table exists complete or not at all, belongs to one capture, and is dropped without a trace."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.catalog.rest import Capability
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ServerError
from pyiceberg.expressions import AlwaysTrue

from airflow_provider_ips.core.errors import CatalogError, IcdcConflictError, InputError
from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.iceberg.icdc.namespace import check_icdc_namespace
from airflow_provider_ips.redaction import redact
from tests.kit.local_tables import append, files_under, new_catalog, new_table, rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """A catalog of its own, with a table of two snapshots."""
    catalog = new_catalog(tmp_path)
    table = new_table(catalog)
    append(table, 1)
    append(table, 2)
    return catalog


def test_no_data_file_is_copied_or_opened(catalog: SqlCatalog) -> None:
    """The ICDC table is made even if no data file can be read."""
    table = catalog.load_table("db.t")
    data = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    for path in data:
        os.truncate(path, 0)
    capture(catalog, "db.t", into="icdc.x", range_columns=["id"])
    icdc = catalog.load_table("icdc.x")
    assert {t.file.file_path for t in icdc.scan(row_filter=AlwaysTrue()).plan_files()} == {f"file://{p}" for p in data}
    assert all(path.endswith((".avro", ".json")) for path in files_under(icdc.location()))


def test_the_same_capture_again_takes_the_table_that_is_there(catalog: SqlCatalog) -> None:
    """A retry after a crash: nothing is written twice, nothing is left over."""
    first = capture(catalog, "db.t", into="icdc.x")
    location = catalog.load_table("icdc.x").location()
    before = files_under(location)
    assert capture(catalog, "db.t", into="icdc.x") == first
    assert files_under(location) == before


def test_another_capture_under_the_same_name_is_an_error(catalog: SqlCatalog) -> None:
    """Handing it to the job would process other rows."""
    capture(catalog, "db.t", into="icdc.x")
    append(catalog.load_table("db.t"), 3)
    with pytest.raises(IcdcConflictError, match="exists already"):
        capture(catalog, "db.t", into="icdc.x")
    assert rows(catalog, "icdc.x") == [1, 2]


def test_dropping_deletes_exactly_what_capture_wrote(catalog: SqlCatalog) -> None:
    """Not one file of the source, and nothing that somebody else put beside it."""
    source_location = catalog.load_table("db.t").location()
    before = files_under(source_location)
    capture(catalog, "db.t", into="icdc.x")
    home = catalog.load_table("icdc.x").location().removeprefix("file://")
    with open(f"{home}/metadata/of-somebody-else", "w"):  # noqa: PTH123 - a location, not a path
        pass
    assert drop_icdc(catalog, "icdc.x")
    assert list(files_under(home)) == [f"{home}/metadata/of-somebody-else"]
    assert files_under(source_location) == before
    assert rows(catalog, "db.t") == [1, 2]
    assert not drop_icdc(catalog, "icdc.x")


def test_a_table_that_is_no_icdc_table_is_never_dropped(catalog: SqlCatalog) -> None:
    """Whatever name it is given."""
    with pytest.raises(IcdcConflictError, match="not an ICDC table"):
        drop_icdc(catalog, "db.t")
    assert rows(catalog, "db.t") == [1, 2]


def test_a_home_under_the_sources_is_refused(catalog: SqlCatalog) -> None:
    """The source's orphan clean-up would take the ICDC table's files, or the other way round."""
    location = catalog.load_table("db.t").location()
    with pytest.raises(InputError, match="lies under the source's"):
        capture(catalog, "db.t", into="icdc.x", location=f"{location}/icdc")
    assert not catalog.table_exists("icdc.x")


def test_only_what_readers_need_is_carried_over(tmp_path: Path) -> None:
    """Write paths, retention and secrets of the source are not the ICDC table's."""
    catalog = new_catalog(tmp_path)
    properties = {"read.split.target-size": "1", "write.data.path": "file:///elsewhere", "my.secret": "hush"}
    append(new_table(catalog, properties=properties), 1)
    capture(catalog, "db.t", into="icdc.x")
    kept = catalog.load_table("icdc.x").properties
    assert kept["read.split.target-size"] == "1"
    assert kept["gc.enabled"] == "false"
    assert not {"write.data.path", "my.secret"} & set(kept)


class Unreliable(SqlCatalog):
    """A real catalog whose register fails before it does anything, or after it did everything."""

    fails = ""

    def register_table(self, *args: Any, **kwargs: Any) -> Any:
        """Fail if this call is the one to fail."""
        if self.fails == "before":
            raise ServerError("500")
        registered = super().register_table(*args, **kwargs)
        if self.fails == "after":
            raise ServerError("the answer was lost")
        return registered

    def create_namespace(self, *args: Any, **kwargs: Any) -> None:
        """Fail if this call is the one to fail."""
        if self.fails == "namespace":
            raise ServerError("not yours")
        super().create_namespace(*args, **kwargs)


@pytest.fixture
def unreliable(catalog: SqlCatalog) -> Unreliable:
    """The same tables through an unreliable catalog."""
    return Unreliable("lake", **catalog.properties)


def test_a_register_whose_answer_was_lost_has_happened(unreliable: Unreliable) -> None:
    """An unknown outcome is settled by looking, never by deleting first."""
    unreliable.fails = "after"
    capture(unreliable, "db.t", into="icdc.x")
    assert rows(unreliable, "icdc.x") == [1, 2]


def test_a_register_that_failed_leaves_nothing(unreliable: Unreliable, tmp_path: Path) -> None:
    """And says that no checkpoint moved."""
    unreliable.fails = "before"
    before = files_under(f"file://{tmp_path}/warehouse")
    with pytest.raises(CatalogError, match="did not register") as failure:
        capture(unreliable, "db.t", into="icdc.x")
    assert "no checkpoint moved" in str(failure.value)
    assert files_under(f"file://{tmp_path}/warehouse") == before


def test_a_namespace_without_rights_is_said_before_anything_is_written(unreliable: Unreliable, tmp_path: Path) -> None:
    """With the parameter that names another."""
    unreliable.fails = "namespace"
    before = files_under(f"file://{tmp_path}/warehouse")
    with pytest.raises(CatalogError, match="icdc_namespace"):
        capture(unreliable, "db.t", into="icdc.x")
    assert files_under(f"file://{tmp_path}/warehouse") == before
    with pytest.raises(InputError, match="not a name that every catalog accepts"):
        check_icdc_namespace(unreliable, "ic dc")


def test_a_missing_manifest_is_a_catalog_error_with_its_path(catalog: SqlCatalog) -> None:
    """Not a stack trace of the file system."""
    snapshot = catalog.load_table("db.t").current_snapshot()
    assert snapshot is not None
    os.remove(snapshot.manifest_list.removeprefix("file://"))  # noqa: PTH107 - a location, not a path
    with pytest.raises(CatalogError, match=r"reading the manifest list of db\.t"):
        capture(catalog, "db.t", into="icdc.x")


def test_passwords_never_reach_a_message() -> None:
    """Libraries compose messages from connection strings."""
    text = redact("could not connect to postgresql://ips:hunter2@db/lake?password=hunter2&token: hunter2")
    assert "hunter2" not in text
    assert "db/lake" in text


class TestCatalogsThatCannotRegister:
    """They are refused before anything is written, or leave nothing if only the call itself shows it."""

    def test_a_rest_catalog_that_does_not_list_the_endpoint(self, catalog: SqlCatalog, tmp_path: Path) -> None:
        """As servers say in their configuration which requests they answer."""
        silent = SqlCatalog("lake", **catalog.properties)
        silent._supported_endpoints = {Capability.V1_LOAD_TABLE}  # type: ignore[attr-defined]
        before = files_under(f"file://{tmp_path}")
        with pytest.raises(InputError, match="cannot register tables") as failure:
            capture(silent, "db.t", into="icdc.x")
        assert "catalogs.md" in failure.value.remedy
        assert files_under(f"file://{tmp_path}") == before
        assert not catalog.namespace_exists("icdc")
        silent._supported_endpoints.add(Capability.V1_REGISTER_TABLE)  # type: ignore[attr-defined]
        capture(silent, "db.t", into="icdc.x")

    def test_a_class_of_pyiceberg_that_never_registers(self) -> None:
        """No connection is needed to say so."""
        with pytest.raises(InputError, match="cannot register tables"):
            check_icdc_namespace(NoopCatalog("nothing"), "icdc")

    def test_one_that_shows_it_by_the_call(self, catalog: SqlCatalog, tmp_path: Path) -> None:
        """A catalog class of somebody's own: its files are deleted again."""

        class Partial(SqlCatalog):
            def register_table(self, *_: Any, **__: Any) -> Any:
                raise NotImplementedError

        with pytest.raises(InputError, match="cannot register tables"):
            capture(Partial("lake", **catalog.properties), "db.t", into="icdc.x")
        assert not [path for path in files_under(f"file://{tmp_path}") if "/icdc/" in path]
