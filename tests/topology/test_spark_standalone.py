"""The topology of `docker/` short of containers: Airflow submits to a Spark master, executors run on its worker."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, IntegerType, LongType, NestedField

from scripts.spark_jars import jar_paths
from tests.topology.standalone import Standalone, environment, spark_standalone

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

DAG_FILE = Path(__file__).parent / "dags" / "on_standalone.py"
PLAYBACK = Schema(
    NestedField(1, "event_id", LongType()),
    NestedField(2, "event_date", DateType()),
    NestedField(3, "account_id", IntegerType()),
    NestedField(4, "title_id", IntegerType()),
    NestedField(5, "watched_seconds", IntegerType()),
)


@dataclass(frozen=True, slots=True)
class Site:
    """One Airflow and one lake, in a folder."""

    folder: Path
    spark: Standalone

    @property
    def lake(self) -> SqlCatalog:
        return SqlCatalog("lake", uri=self.catalog_uri, warehouse=self.warehouse)

    @property
    def catalog_uri(self) -> str:
        return f"sqlite:///{self.folder}/lake.db"

    @property
    def warehouse(self) -> str:
        return f"file://{self.folder}/warehouse"

    def play(self, *event_ids: int) -> None:
        """Append events; each is a minute long."""
        table = self.lake.load_table("db.playback")
        day = datetime.date(2026, 1, 1)
        rows = [
            {"event_id": n, "event_date": day, "account_id": 1, "title_id": 1, "watched_seconds": 60} for n in event_ids
        ]
        table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))

    def watched(self) -> list[int]:
        rows = self.lake.load_table("db.watched").scan().to_arrow()
        return sorted(rows["event_id"].to_pylist())

    def run_dag(self) -> str:
        return self.run(sys.executable, str(DAG_FILE))

    def run(self, *command: str) -> str:
        """Run a program of this site; its output."""
        done = subprocess.run(
            command, env=self.environment(), cwd=self.folder, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
        return done.stdout

    def environment(self) -> dict[str, str]:
        lake = {"type": "sql", "uri": self.catalog_uri, "warehouse": self.warehouse}
        host, _, port = self.spark.master_url.rpartition(":")
        return environment(
            AIRFLOW_HOME=str(self.folder / "airflow"),
            AIRFLOW__CORE__DAGS_FOLDER=str(DAG_FILE.parent),
            AIRFLOW__CORE__LOAD_EXAMPLES="False",
            AIRFLOW_CONN_LAKE=json.dumps({"conn_type": "iceberg", "extra": lake}),
            AIRFLOW_CONN_SPARK_DEFAULT=json.dumps({"conn_type": "spark", "host": host, "port": int(port)}),
            SPARK_CONF_DIR=str(self.folder / "spark"),
        )

    def write_spark_defaults(self) -> None:
        jars = ":".join(str(path) for path in jar_paths())
        settings = {
            "spark.driver.extraClassPath": jars,
            "spark.executor.extraClassPath": jars,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "jdbc",
            "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{self.folder}/lake.db",
            "spark.sql.catalog.lake.jdbc.schema-version": "V1",
            "spark.sql.catalog.lake.warehouse": self.warehouse,
        }
        (self.folder / "spark").mkdir()
        text = "".join(f"{name} {value}\n" for name, value in settings.items())
        (self.folder / "spark" / "spark-defaults.conf").write_text(text)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    with spark_standalone(folder) as spark:
        site = Site(folder, spark)
        site.write_spark_defaults()
        site.run("airflow", "db", "migrate")
        site.lake.create_namespace("db")
        site.lake.create_table("db.playback", PLAYBACK)
        yield site


def test_a_job_runs_on_the_worker_of_the_master_that_the_connection_names(site):
    site.play(1, 2, 3)

    site.run_dag()

    assert site.watched() == [1, 2, 3]
    applications = site.spark.applications()
    assert [(a["name"], a["state"]) for a in applications] == [("append", "FINISHED")]
    assert site.spark.cores_in_use() == 0
