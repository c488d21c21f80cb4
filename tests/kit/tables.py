"""Tables to capture from: one column of numbers, one of days."""

from datetime import date

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from airflow_provider_ips.core.identifiers import CapturedBranch
from airflow_provider_ips.iceberg.branches.leases import find_branches

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.date32())])


def create(catalog, name, **options):
    """Make an empty table."""
    return catalog.create_table(name, schema=SCHEMA, **options)


def append(table, ids, *, day=date(2026, 10, 1), properties=None):
    """Commit one snapshot of appended rows."""
    table.refresh()
    rows = pa.table({"id": ids, "day": [day] * len(ids)}, schema=SCHEMA)
    table.append(rows, snapshot_properties=properties or {})


def scan(catalog, name, **options):
    """What a reader sees in a table, or in a branch that an engine would read by this name."""
    branch = CapturedBranch.parse(name)
    table = catalog.load_table(name if branch is None else branch.table)
    found = table.scan(**options)
    return found if branch is None else found.use_ref(branch.branch)


def rows(catalog, name):
    """The ids that it holds."""
    return sorted(scan(catalog, name).to_arrow()["id"].to_pylist())


def reader(catalog):
    """Read ids by table name, through a catalog opened anew as a job would."""
    properties = dict(catalog.properties)
    return lambda name: rows(load_catalog(catalog.name, **properties), name)


def branches(table):
    """The branches of a source that hold captures, as engines name them."""
    return sorted(found.name for found in find_branches(".".join(table.name()), table.refresh().metadata))


def icdc_tables(catalog, namespace="icdc"):
    """The ICDC tables there are."""
    if (namespace,) not in catalog.list_namespaces():
        return []
    return sorted(".".join(name) for name in catalog.list_tables(namespace))
