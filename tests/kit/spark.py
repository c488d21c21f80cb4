"""Spark sessions in the process of a test, on catalogs that Spark and PyIceberg share."""

from __future__ import annotations

from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import pytest

from scripts.local_spark import BRIEF_JVM, session_settings, sqlite_catalog, sqlite_properties_for_spark, start_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

    from scripts.lake import Lake


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
    settings = session_settings({"lake": sqlite_properties_for_spark(folder)})
    spark = start_spark(
        {**settings, "spark.sql.shuffle.partitions": "2", "spark.driver.extraJavaOptions": " ".join(BRIEF_JVM)},
        log_level="ERROR",
    )
    yield LakeOfTwoEngines(spark=spark, catalog=sqlite_catalog(folder, namespaces=("db", "icdc")))
    spark.stop()


@contextmanager
def session_on(
    lake: Lake, settings: Mapping[str, str] = MappingProxyType({}), *, cores: int = 2
) -> Iterator[SparkSession]:
    """Start the session that a job of the examples has on this lake, in this process, and stop it at the end."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in lake.environment().items():
            if not name.startswith("AIRFLOW"):
                patch.setenv(name, value)
        spark = start_spark({"spark.driver.memory": "600m", **settings}, cores=cores, log_level="WARN")
        try:
            yield spark
        finally:
            spark.stop()
