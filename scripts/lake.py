"""The small lake of the demo, the UI and the tests: one catalog shared by Spark and PyIceberg, and days of playback.

The catalog's name is part of every key in a SQL catalog, so Spark, PyIceberg and the Airflow connection all say `lake`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from scripts import class_archive
from scripts.local_spark import BRIEF_JVM, ICEBERG, LONG_JVM, LOOPBACK, catalog_settings
from scripts.spark_jars import JarsUnavailableError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

NAME = "lake"
LATE_SHARE = 0.1
DAYS_ROWS_ARE_LATE = 13
"""The furthest back that a late row lies: what a lookback window of 14 days is for."""

EVENTS = Schema(
    NestedField(1, "event_id", LongType(), required=True),
    NestedField(2, "event_date", DateType(), required=True),
    NestedField(3, "event_time", TimestamptzType(), required=True),
    NestedField(4, "account_id", IntegerType(), required=True),
    NestedField(5, "title_id", IntegerType(), required=True),
    NestedField(6, "watched_seconds", IntegerType(), required=True),
    NestedField(7, "received_at", TimestamptzType(), required=True),
    NestedField(8, "device", StringType(), required=True),
)
BY_DAY = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="event_date"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """A folder of data, the database that is its catalog, and how each program reaches them."""

    folder: Path
    sqlalchemy_uri: str
    jdbc_uri: str
    jdbc_properties: tuple[tuple[str, str], ...] = ()

    @classmethod
    def on_sqlite(cls, folder: Path) -> Lake:
        """Everything below one folder."""
        folder.mkdir(parents=True, exist_ok=True)
        database = folder / "catalog.db"
        return cls(folder=folder, sqlalchemy_uri=f"sqlite:///{database}", jdbc_uri=f"jdbc:sqlite:{database}")

    @classmethod
    def on_postgres(cls, folder: Path, *, address: str, user: str, password: str) -> Lake:
        """Data below one folder, the catalog in a database at ``host:port/name``."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls(
            folder=folder,
            sqlalchemy_uri=f"postgresql+psycopg2://{quote(user)}:{quote(password, safe='')}@{address}",
            jdbc_uri=f"jdbc:postgresql://{address}",
            jdbc_properties=(("user", user), ("password", password)),
        )

    @property
    def warehouse(self) -> str:
        return f"{self.folder.as_uri()}/warehouse"

    def catalog(self) -> SqlCatalog:
        return SqlCatalog(NAME, uri=self.sqlalchemy_uri, warehouse=self.warehouse)

    def environment(self, *, brief_jobs: bool = True, java_options: tuple[str, ...] | None = None) -> dict[str, str]:
        """What Airflow's tasks and their spark-submit find in their environment.

        Jobs that are not brief are compiled as Spark's are by default.
        """
        if java_options is None:
            java_options = (*(BRIEF_JVM if brief_jobs else LONG_JVM), *class_archive.java_options(pyspark_folder()))
        catalog = {"type": "sql", "uri": self.sqlalchemy_uri, "warehouse": self.warehouse}
        return {
            "AIRFLOW_CONN_LAKE": json.dumps({"conn_type": "iceberg", "extra": catalog}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
                {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}
            ),
            "SPARK_CONF_DIR": str(self._write_spark_conf(java_options)),
            # spark-submit is a shell script that asks the first python3 on the PATH where pyspark is.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            # Another Spark that the machine has would look for jars of another version.
            "SPARK_HOME": pyspark_folder(),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }

    def _write_spark_conf(self, java_options: tuple[str, ...]) -> Path:
        """Write spark-defaults.conf, where administrators set up catalogs and no log shows a password."""
        catalog = {
            "type": "jdbc",
            "uri": self.jdbc_uri,
            "jdbc.schema-version": "V1",
            **{f"jdbc.{key}": value for key, value in self.jdbc_properties},
            "warehouse": self.warehouse,
        }
        settings = {
            **LOOPBACK,
            **ICEBERG,
            **catalog_settings(NAME, catalog),
            # Driver and executor are one process here. `spark.jars` would copy 60 MB per job, and hides JDBC drivers
            # from DriverManager.
            "spark.driver.extraClassPath": os.pathsep.join(
                str(path) for path in class_archive.class_path(pyspark_folder())
            ),
            "spark.driver.extraJavaOptions": " ".join(java_options),
            "spark.sql.session.timeZone": "UTC",
            # Two cores and megabytes of data: the defaults are made for clusters.
            "spark.sql.shuffle.partitions": "4",
            "spark.local.dir": str(self.folder / "spark-local"),
            "spark.sql.warehouse.dir": f"{self.folder.as_uri()}/spark-warehouse",
            "spark.log.level": "WARN",
        }
        conf = self.folder / "spark-conf"
        conf.mkdir(exist_ok=True)
        text = "".join(f"{key} {value}\n" for key, value in settings.items())
        (conf / "spark-defaults.conf").write_text(text)
        return conf


def pyspark_folder() -> str:
    """Find the Spark that is installed beside this Python, without the second that importing it takes."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JarsUnavailableError("pyspark is not installed here; run 'make env'")
    return spec.submodule_search_locations[0]


def create_events_table(catalog: Catalog, name: str) -> Table:
    """Make an empty table of playback events, partitioned by the day of the event."""
    catalog.create_namespace_if_not_exists(name.partition(".")[0])
    return catalog.create_table(name, EVENTS, partition_spec=BY_DAY)


def day_of_events(
    day: date, *, rows: int, earliest: date = date.min, seed: int = 0, number: int | None = None
) -> pa.Table:
    """Return what arrives on one day: that day's events, late ones of the days before, and some sent twice.

    An event that is sent again keeps its id and its day, and brings a later `received_at` with more seconds watched.
    No two days and no two seeds share an id, and no event lies before the earliest day. The number of a day decides its
    contents; by default each date has its own.
    """
    number = day.toordinal() if number is None else number
    random = np.random.default_rng([seed, number])
    event_ids = (seed * 10_000_000 + number) * 10_000_000 + np.arange(rows, dtype=np.int64)
    days_late = np.where(random.random(rows) < LATE_SHARE, random.integers(1, DAYS_ROWS_ARE_LATE + 1, rows), 0)
    days_late = np.minimum(days_late, (day - earliest).days)
    watched = random.integers(30, 7200, rows).astype(np.int32)
    sent_again = np.arange(0, rows, 50)
    order = np.concatenate([np.arange(rows), sent_again])
    resent = np.concatenate([np.zeros(rows, dtype=np.int64), np.ones(len(sent_again), dtype=np.int64)])
    dates = np.datetime64(day, "D") - days_late.astype("timedelta64[D]")
    times = dates.astype("datetime64[us]") + random.integers(0, 86_400_000_000, rows).astype("timedelta64[us]")
    received = np.datetime64(datetime(day.year, day.month, day.day), "us") + np.timedelta64(1, "D")  # noqa: DTZ001 - UTC
    devices = np.array(["tv", "phone", "tablet", "browser", "console"])
    columns = {
        "event_id": event_ids[order],
        "event_date": pa.array(dates[order]),
        "event_time": pa.array(times[order], pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
        "account_id": random.integers(1, 5_000, rows).astype(np.int32)[order],
        "title_id": random.integers(1, 400, rows).astype(np.int32)[order],
        "watched_seconds": (watched[order] + 15 * resent).astype(np.int32),
        "received_at": pa.array(received + resent.astype("timedelta64[m]"), pa.timestamp("us")).cast(
            pa.timestamp("us", "UTC")
        ),
        "device": devices[random.integers(0, len(devices), rows)][order],
    }
    return pa.table(columns, schema=EVENTS.as_arrow()).sort_by(
        [("event_date", "ascending"), ("event_time", "ascending")]
    )


def midnight(day: date) -> datetime:
    """Return the logical date of the run that processes a day."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
