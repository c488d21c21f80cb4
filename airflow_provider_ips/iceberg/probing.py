"""Whether a namespace can really be used: only trying tells, for catalogs know no question for it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from airflow_provider_ips.iceberg.faults import mapped
from airflow_provider_ips.iceberg.places import check_icdc_namespace

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def probe_namespace(catalog: Catalog, namespace: str) -> str:
    """Make a table and drop it again, with its one file; say what was done."""
    check_icdc_namespace(catalog, namespace)
    identifier = (*namespace.split("."), f"ips_probe_{secrets.token_hex(6)}")
    with mapped(f"making and dropping a table in {namespace}"):
        table = catalog.create_table(identifier, schema=Schema(NestedField(1, "note", StringType(), required=False)))
        catalog.drop_table(identifier)
        table.io.delete(table.metadata_location)
    return "a table was made and dropped"
