"""A Spark session over the lake of one data set, and a PyIceberg catalog over the same tables."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scripts.local_spark import session_settings, sqlite_catalog, sqlite_properties_for_spark, start_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

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
    spark = start_spark({**_settings(folder, memory), **_logging(event_log)}, cores=CORES)
    catalog = sqlite_catalog(folder, name=CATALOG)
    try:
        yield Session(spark=spark, catalog=catalog, folder=folder)
    finally:
        spark.stop()


def _settings(folder: Path, memory: str) -> dict[str, str]:
    return {
        **session_settings({CATALOG: sqlite_properties_for_spark(folder)}),
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.local.dir": str(folder / "shuffle"),
        "spark.sql.session.timeZone": "UTC",
        # Two cores: more partitions would only be more tasks. Adaptive execution would join them into two or three, one
        # of them long, behind which the other core waits.
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
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
