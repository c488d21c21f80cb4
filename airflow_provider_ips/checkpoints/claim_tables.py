"""Keeps the claims of backfills in Iceberg, where a task cannot list Variables: one table without rows for each claim.

A claim has one writer, so it needs no compare-and-set. It is a property of its table, beside the checkpoints' logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from airflow_provider_ips.checkpoints.iceberg import IcebergStore

CLAIM: Final = "ips.claim"
_SUFFIX: Final = "_claim"
"""Ends no name of a log table."""

_SCHEMA: Final = Schema(NestedField(1, "note", StringType(), required=False, doc="no rows: see the table's properties"))


@dataclass(frozen=True, slots=True)
class ClaimTables:
    """The claims in the namespace of a checkpoint store."""

    store: IcebergStore

    def get(self, key: str) -> str | None:
        with self.store.mapping_errors(f"the claim {key!r} of a backfill could not be read"):
            try:
                table = self.store.catalog.load_table(self._identifier(key))
            except NoSuchTableError:
                return None
            return table.metadata.properties.get(CLAIM)

    def set(self, key: str, value: str, *, description: str) -> None:
        identifier = self._identifier(key)
        with self.store.mapping_errors(f"the claim {key!r} of a backfill could not be written"):
            self.store.make_namespace()
            try:
                table = self.store.catalog.load_table(identifier)
            except NoSuchTableError:
                properties = {CLAIM: value, "comment": description}
                self.store.catalog.create_table(identifier, schema=_SCHEMA, properties=properties)
                return
            table.transaction().set_properties({CLAIM: value}).commit_transaction()

    def keys(self, *, prefix: str) -> Sequence[str]:
        start = prefix.replace("-", "_")
        names = [name.removesuffix(_SUFFIX) for name in self.store.names() if name.endswith(_SUFFIX)]
        return [prefix + name.removeprefix(start).replace("_", "-") for name in names if name.startswith(start)]

    def delete(self, key: str) -> None:
        with self.store.mapping_errors(f"the claim {key!r} of a backfill could not be deleted"):
            self.store.catalog.purge_table(self._identifier(key))

    def _identifier(self, key: str) -> tuple[str, ...]:
        return (*self.store.levels, key.replace("-", "_") + _SUFFIX)
