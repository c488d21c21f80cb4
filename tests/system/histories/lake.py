"""One Spark session and one PyIceberg catalog over the same SQLite database, set up for many small tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from scripts.local_spark import (
    BRIEF_JVM,
    session_settings,
    sqlite_catalog,
    sqlite_properties_for_spark,
    start_spark,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

# A name of its own: Spark sets a catalog up once per name, and a session may be shared with other tests' catalogs.
CATALOG: Final = "histories"

# Three rows a table: what costs is the planning of a statement, not its rows.
FAST: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.iceberg.locality.enabled": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """The three writers and readers of every table: Spark, Iceberg's Java API inside it, and PyIceberg."""

    spark: SparkSession
    catalog: SqlCatalog
    folder: Path

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a Spark statement and give its rows."""
        return [tuple(row) for row in self.spark.sql(statement).collect()]

    @property
    def jvm(self) -> Any:
        """Iceberg's Java API."""
        return self.spark._jvm

    def java_table(self, name: str) -> Any:
        """Load a table as Java sees it."""
        loader = self.jvm.org.apache.iceberg.spark.Spark3Util
        return loader.loadIcebergTable(self.spark._jsparkSession, f"{CATALOG}.{name}")


def open_lake(folder: Path) -> Lake:
    """Start Spark, or take the session that is there, and make a new catalog in ``folder``."""
    settings = {
        **session_settings({CATALOG: sqlite_properties_for_spark(folder)}),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join(BRIEF_JVM),
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "false",
    }
    # Spark's own session object is new, so the settings that make it fast stay away from tests that share the driver.
    spark = start_spark(settings).newSession()
    for key, value in {**settings, **FAST}.items():
        if key.startswith("spark.sql.") and key != "spark.sql.extensions":
            spark.conf.set(key, value)
    catalog = sqlite_catalog(folder, name=CATALOG, namespaces=("db", "icdc"))
    return Lake(spark=spark, catalog=catalog, folder=folder)
