"""Spark on this machine, and the catalog on SQLite that it shares with PyIceberg.

The one place where the demo, the benchmarks and the tests take these settings from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyiceberg.catalog.sql import SqlCatalog

from scripts.spark_jars import JARS, jar_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from scripts.spark_jars import Jar

BRIEF_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a JVM that lives for a minute or two: the second compiler would not pay for itself."""

LONG_JVM: Final = ("-XX:+UseParallelGC",)
"""For a job of a minute or more on few cores: the collector that takes the least of them."""

LOOPBACK: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
ICEBERG: Final = {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"}


def sqlite_properties(folder: Path) -> dict[str, str]:
    """Return the properties by which PyIceberg opens a catalog whose names and files are in one folder."""
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def sqlite_properties_for_spark(folder: Path) -> dict[str, str]:
    """Return the properties by which Spark opens the same catalog."""
    return {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:file:{folder}/catalog.db",
        "jdbc.schema-version": "V1",
        "warehouse": f"file://{folder}/warehouse",
    }


def sqlite_catalog(
    folder: Path, *, name: str = "lake", namespaces: Iterable[str] = (), **properties: str
) -> SqlCatalog:
    """Open the catalog in a folder. Its name is part of every key in it, so Spark has to know it by the same name."""
    catalog = SqlCatalog(name, **{**sqlite_properties(folder), **properties})
    for namespace in namespaces:
        catalog.create_namespace_if_not_exists(namespace)
    return catalog


def catalog_settings(name: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark settings of one Iceberg catalog."""
    prefix = f"spark.sql.catalog.{name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{key}": value for key, value in properties.items()},
    }


def session_settings(catalogs: Mapping[str, Mapping[str, str]], *, jars: Iterable[Jar] = JARS) -> dict[str, str]:
    """Return the settings of a session that sees these catalogs as they are, also right after others wrote to them."""
    settings = {"spark.jars": ",".join(str(path) for path in jar_paths(tuple(jars))), **LOOPBACK, **ICEBERG}
    for name, properties in catalogs.items():
        settings |= catalog_settings(name, {**properties, "cache-enabled": "false"})
    return settings


def start_spark(settings: Mapping[str, str], *, cores: int = 2, log_level: str = "OFF") -> SparkSession:
    """Start Spark in this process; a session that runs here already is returned with these settings added."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(log_level)
    return spark
