"""One Spark session for the whole ring, on a catalog that Spark and PyIceberg share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from scripts.spark_jars import jar_paths

if TYPE_CHECKING:
    from collections.abc import Iterator


class LakeOfTwoEngines(NamedTuple):
    """Spark's session and PyIceberg's catalog over the same SQLite database."""

    spark: SparkSession
    catalog: SqlCatalog

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement and give its rows as sorted tuples, nulls first."""
        return sorted((tuple(row) for row in self.spark.sql(statement).collect()), key=repr)


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeOfTwoEngines]:
    """Mark users with ``xdist_group("spark")``, so that one worker starts one session."""
    folder = tmp_path_factory.mktemp("lake")
    prefix = "spark.sql.catalog.lake"
    settings = {
        "spark.jars": ",".join(str(path) for path in jar_paths()),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": f"jdbc:sqlite:file:{folder}/catalog.db",
        f"{prefix}.jdbc.schema-version": "V1",
        f"{prefix}.warehouse": f"file://{folder}/warehouse",
        f"{prefix}.cache-enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace_if_not_exists("db")
    catalog.create_namespace_if_not_exists("icdc")
    yield LakeOfTwoEngines(spark=spark, catalog=catalog)
    spark.stop()
