"""One Spark session and one PyIceberg catalog over the same tables."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from scripts.local_spark import session_settings, sqlite_catalog, sqlite_properties_for_spark, start_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

CATALOG = "lake"
NAMESPACES = ("compared", "compared_icdc", "compared_netflix")

_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """Where the compared tables live."""

    spark: SparkSession
    catalog: Catalog
    folder: Path

    def __post_init__(self) -> None:
        """Make the namespaces, for the lake may be somebody else's."""
        for namespace in NAMESPACES:
            self.catalog.create_namespace_if_not_exists(namespace)

    def unused(self, prefix: str) -> str:
        """A name that nothing has had in this process."""
        return f"{prefix}_{next(_numbers)}"

    def head(self, table: str) -> int:
        """The newest snapshot of a table that has one."""
        snapshot = self.catalog.load_table(table).current_snapshot()
        if snapshot is None:
            raise RuntimeError(f"{table} has no snapshot: a scenario must write before its checkpoint")
        return snapshot.snapshot_id


@contextmanager
def open_lake(folder: Path) -> Iterator[Lake]:
    """Start Spark on two cores, and stop it at the end."""
    settings = {
        **session_settings({CATALOG: sqlite_properties_for_spark(folder)}),
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = start_spark(settings)
    catalog = sqlite_catalog(folder, name=CATALOG)
    try:
        yield Lake(spark=spark, catalog=catalog, folder=folder)
    finally:
        spark.stop()
