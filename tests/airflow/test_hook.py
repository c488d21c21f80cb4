"""Which catalog a connection leads to, and what is said about one that leads nowhere."""

import json
import subprocess
import sys

import pytest

from airflow_provider_ips.core.errors import CatalogError, InputError

PASSWORD = "correct-horse"  # noqa: S105 - what must not be shown


@pytest.fixture
def hook(airflow_database, monkeypatch):
    """Make the hook of a connection: ``hook(conn_type=…, host=…, extra={…})``."""
    from airflow_provider_ips.hooks.ips import IpsHook

    def make(**connection):
        monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE", json.dumps({"conn_type": "iceberg", **connection}))
        return IpsHook("lakehouse")

    return make


def test_the_catalog_is_named_after_the_connection(hook, tmp_path):
    catalog = hook(extra={"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db"}).catalog

    assert catalog.name == "lakehouse"


def test_the_extra_can_name_it_like_sparks(hook, tmp_path):
    """A JDBC catalog of Spark sees the same tables only under the same name."""
    catalog = hook(extra={"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "catalog_name": "lake"}).catalog

    assert catalog.name == "lake"
    assert "catalog_name" not in catalog.properties


def test_the_host_is_the_catalogs_uri(hook, tmp_path):
    catalog = hook(host=f"sqlite:///{tmp_path}/c.db", extra={"type": "sql", "uri": "sqlite:///elsewhere.db"}).catalog

    assert catalog.properties["uri"] == f"sqlite:///{tmp_path}/c.db"


def test_a_connection_that_does_not_exist(airflow_database):
    from airflow_provider_ips.hooks.ips import IpsHook

    with pytest.raises(InputError, match="connection 'nowhere' does not exist"):
        _ = IpsHook("nowhere").catalog


def test_a_connection_of_another_type(hook):
    with pytest.raises(InputError, match="connection 'lakehouse' is of type 'postgres'"):
        _ = hook(conn_type="postgres", host="db", password=PASSWORD).catalog


@pytest.mark.parametrize("extra", [{}, {"type": "sql"}, {"type": "rest", "uri": ""}, {"warehouse": "s3://w"}])
def test_a_connection_without_a_catalog(hook, extra):
    with pytest.raises(InputError, match="does not name a catalog"):
        _ = hook(login="me", password=PASSWORD, extra=extra).catalog


@pytest.mark.parametrize(
    "extra",
    [
        {"type": "sql", "uri": f"nodialect://me:{PASSWORD}@db/lake"},
        {"type": "nonsense", "uri": f"http://me:{PASSWORD}@db/lake"},
        {"py-catalog-impl": "nowhere.Catalog", "uri": f"http://me:{PASSWORD}@db/lake"},
        {"type": "rest", "uri": f"http://me:{PASSWORD}@127.0.0.1:1/lake"},
    ],
)
def test_a_catalog_that_does_not_open_is_reported_without_its_password(hook, extra):
    with pytest.raises(CatalogError, match="the catalog of connection 'lakehouse' cannot be opened") as caught:
        _ = hook(extra=extra).catalog

    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


OPENED = """
import sys

from airflow_provider_ips.hooks.ips import IpsHook

catalog = IpsHook("lakehouse").catalog
{made}
print("imported", *sorted({{"numpy", "pandas", "pyarrow", "pyarrow.dataset"}} & set(sys.modules)))
"""
MADE = """
import pyarrow as pa

catalog.create_namespace("db")
catalog.create_table("db.t", schema=pa.schema({"id": pa.int64()})).append(pa.table({"id": [1]}))
import pandas

assert pa.array(pandas.Series([1, 2])).to_pylist() == [1, 2]
assert catalog.load_table("db.t").scan().to_pandas()["id"].to_list() == [1]
"""


@pytest.fixture
def imported_by(airflow_database, monkeypatch, tmp_path):
    """Open a catalog in a fresh process, and say which of the large libraries it has imported."""

    def imported(made="", **extra):
        catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}", **extra}
        monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE", json.dumps({"conn_type": "iceberg", "extra": catalog}))
        program = OPENED.format(made=made)
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        _, _, names = ran.stdout.partition("imported")
        return names.split()

    return imported


def test_a_task_does_not_wait_for_pandas(imported_by):
    """Importing pyarrow's datasets, as PyIceberg does, would import it where it is installed."""
    assert imported_by() == ["numpy", "pyarrow", "pyarrow.dataset"]


def test_what_a_preloaded_task_uses_is_there(imported_by):
    """For `airflow_local_settings.py`: tasks are forked from the process that has imported it."""
    preloading = """
import airflow_provider_ips.operators.preload

before = set(sys.modules)
from airflow_provider_ips.operators.capture import IpCaptureOperator
from airflow_provider_ips.iceberg import capture, drop_icdc
catalog.create_namespace("db")
later = {name for name in sys.modules if name.startswith(("pyiceberg", "pyarrow"))} - before
assert not later - {"pyiceberg.catalog.sql"}, later
"""

    assert imported_by(made=preloading) == ["numpy", "pyarrow", "pyarrow.dataset"]


def test_pandas_works_for_those_who_use_it(imported_by):
    assert imported_by(made=MADE) == ["numpy", "pandas", "pyarrow", "pyarrow.dataset"]


def test_a_task_that_opens_files_by_fsspec_does_not_wait_for_pyarrow(imported_by):
    capturing = """
from airflow_provider_ips.iceberg import capture
from airflow_provider_ips.iceberg.storage import files, requests
"""

    assert imported_by(made=capturing, **{"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}) == []
