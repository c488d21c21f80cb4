"""One Spark session and one PyIceberg catalog over the same tables."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from scripts.spark_jars import jar_paths

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog

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
    prefix = f"spark.sql.catalog.{CATALOG}"
    settings = {
        "spark.jars": ",".join(str(path) for path in jar_paths()),
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": f"jdbc:sqlite:file:{folder}/catalog.db",
        f"{prefix}.jdbc.schema-version": "V1",
        f"{prefix}.warehouse": f"file://{folder}/warehouse",
        # A cached table would show each contender the past.
        f"{prefix}.cache-enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    try:
        yield Lake(spark=spark, catalog=catalog, folder=folder)
    finally:
        spark.stop()
