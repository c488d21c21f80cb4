"""A Spark session over the lake of one data set, and a PyIceberg catalog over the same tables."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from scripts.spark_jars import jar_paths

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog

CATALOG: Final = "lake"
CORES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a process works with."""

    spark: SparkSession
    catalog: Catalog
    folder: Path

    def run(self, *statements: str) -> None:
        """One after another, each to its end."""
        for statement in statements:
            self.spark.sql(statement).collect()


@contextmanager
def open_session(folder: Path, *, event_log: Path | None = None, memory: str = "4g") -> Iterator[Session]:
    """Start Spark, the same for every contender, and stop it at the end: only then is its event log complete."""
    folder.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.master(f"local[{CORES}]")
    for key, value in {**_settings(folder, memory), **_logging(event_log)}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    try:
        yield Session(spark=spark, catalog=catalog, folder=folder)
    finally:
        spark.stop()


def _settings(folder: Path, memory: str) -> dict[str, str]:
    prefix = f"spark.sql.catalog.{CATALOG}"
    return {
        "spark.jars": ",".join(str(path) for path in jar_paths()),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "shuffle"),
        "spark.sql.session.timeZone": "UTC",
        # Two cores: more partitions would only be more tasks. Adaptive execution would join them into two or three, one
        # of them long, behind which the other core waits.
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": f"jdbc:sqlite:file:{folder}/catalog.db",
        f"{prefix}.jdbc.schema-version": "V1",
        f"{prefix}.warehouse": f"file://{folder}/warehouse",
        # A cached table would show the past.
        f"{prefix}.cache-enabled": "false",
    }


def _logging(event_log: Path | None) -> dict[str, str]:
    if event_log is None:
        return {}
    event_log.mkdir(parents=True, exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{event_log}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
