"""Three kinds of catalog with their storage, each open to PyIceberg and to Spark under one name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyarrow.fs import FileSelector, FileType
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io.pyarrow import PyArrowFileIO

from airflow_provider_ips.iceberg import capture
from scripts.local_spark import sqlite_properties, sqlite_properties_for_spark

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

    from airflow_provider_ips.core.results.capture_record import SourceRecord
    from tests.kit.servers import Storage
    from tests.kit.spark_process import Spark

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.date32()), pa.field("note", pa.string())])
DAYS = (date(2026, 10, 1), date(2026, 10, 2), date(2026, 10, 3))

Row: TypeAlias = tuple[int, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """One catalog, as the two engines know it."""

    name: str
    catalog: Catalog
    spark: Spark
    keeps_history: bool = True

    def source(self, namespace: str, **properties: str) -> Source:
        """A new table, partitioned by day."""
        self.catalog.create_namespace_if_not_exists(namespace)
        wanted = {"format-version": "2", **properties}
        listed = ", ".join(f"'{key}'='{value}'" for key, value in wanted.items())
        table = f"{namespace}.events"
        self.spark.sql(
            f"CREATE TABLE {self.name}.{table} (id BIGINT, day DATE, note STRING) USING iceberg "
            f"PARTITIONED BY (day) TBLPROPERTIES ({listed})"
        )
        return Source(lake=self, name=table, icdc=f"{namespace}_icdc")

    def read(self, table: str) -> list[Row]:
        """The rows of a table, which both engines must agree about."""
        by_spark = self.spark.sql(f"SELECT id, day, note FROM {self.name}.{table}")
        scanned = self.catalog.load_table(table).scan().to_arrow().to_pylist()
        by_pyiceberg = sorted(((r["id"], r["day"].isoformat(), r["note"]) for r in scanned), key=repr)
        assert by_spark == by_pyiceberg
        return by_pyiceberg

    def files_of(self, location: str) -> dict[str, int]:
        """Every file below a location, with its size."""
        return files_below(dict(self.catalog.properties), location)


def files_below(properties: dict[str, Any], location: str) -> dict[str, int]:
    """Every file below a location, with its size."""
    scheme, netloc, path = PyArrowFileIO.parse_location(location)
    system = PyArrowFileIO(properties).fs_by_scheme(scheme, netloc)
    found = system.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
    # S3Proxy over a folder shows the folder that a deleted object leaves behind as an object of that name.
    return {file.path: file.size for file in found if file.type == FileType.File and PurePosixPath(file.path).suffix}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table to capture from, written to by both engines."""

    lake: Lake
    name: str
    icdc: str

    @property
    def table(self) -> Table:
        return self.lake.catalog.load_table(self.name)

    @property
    def head(self) -> int:
        """The newest snapshot's id."""
        snapshot = self.table.current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id

    def append(self, *ids: int, note: str = "") -> list[Row]:
        """Append by PyIceberg; gives the rows."""
        rows = rows_of(*ids, note=note)
        days = [date.fromisoformat(day) for _, day, _ in rows]
        columns = {"id": list(ids), "day": days, "note": [text for _, _, text in rows]}
        self.table.append(pa.table(columns, schema=SCHEMA))
        return rows

    def insert(self, *ids: int, note: str = "") -> list[Row]:
        """Append by Spark; gives the rows."""
        rows = rows_of(*ids, note=note)
        values = ", ".join(f"({number}, DATE'{day}', '{text}')" for number, day, text in rows)
        self.sql(f"INSERT INTO {{table}} VALUES {values}")
        return rows

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement of Spark, in which {table} stands for this one and {catalog} for its catalog."""
        return self.lake.spark.sql(statement.format(table=f"{self.lake.name}.{self.name}", catalog=self.lake.name))

    def compact(self) -> None:
        """Rewrite all files."""
        self.sql(
            f"CALL {{catalog}}.system.rewrite_data_files(table => '{self.name}', options => map('rewrite-all','true'))"
        )

    def capture(self, into: str = "x", **settings: Any) -> SourceRecord:
        """Capture into a table of this source's own ICDC namespace."""
        return capture(self.lake.catalog, self.name, into=f"{self.icdc}.{into}", **settings)

    def captured(self, into: str = "x") -> list[Row]:
        """What both engines read there."""
        return self.lake.read(f"{self.icdc}.{into}")


def rows_of(*ids: int, note: str = "") -> list[Row]:
    """The row that an id stands for."""
    return [(number, DAYS[number % len(DAYS)].isoformat(), note or f"n{number}") for number in ids]


def ordered(*parts: list[Row]) -> list[Row]:
    """Several lists of rows, as :meth:`Lake.read` orders them."""
    return sorted((row for part in parts for row in part), key=repr)


def on_sqlite(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """PyIceberg's properties and Spark's: everything in a folder."""
    return sqlite_properties(folder), sqlite_properties_for_spark(folder)


def on_postgres(address: str, password: str, storage: Storage) -> tuple[dict[str, str], dict[str, str]]:
    """PyIceberg's properties and Spark's: names in PostgreSQL, files in S3."""
    warehouse = "s3://lake/of-postgres"
    return (
        {
            "type": "sql",
            "uri": f"postgresql+psycopg2://postgres:{password}@{address}",
            "warehouse": warehouse,
            **storage.properties,
        },
        {
            "type": "jdbc",
            "uri": f"jdbc:postgresql://{address}",
            "jdbc.user": "postgres",
            "jdbc.password": password,
            "jdbc.schema-version": "V1",
            "warehouse": warehouse,
            **_for_java(storage),
        },
    )


def on_nessie(address: str, storage: Storage) -> tuple[dict[str, str], dict[str, str]]:
    """PyIceberg's properties and Spark's: names by the Iceberg REST protocol, files in S3."""
    # Spark would let Nessie sign its requests, for which this Nessie names an address that this Iceberg does not ask.
    own_keys = {"header.X-Iceberg-Access-Delegation": "vended-credentials"}
    return (
        {"type": "rest", "uri": address, **storage.properties},
        {"type": "rest", "uri": address, **own_keys, **_for_java(storage)},
    )


def _for_java(storage: Storage) -> dict[str, str]:
    properties = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", **storage.properties}
    region = properties.pop("s3.region")
    return {**properties, "client.region": region}


def opened(name: str, properties: dict[str, str]) -> Catalog:
    """As the Airflow hook opens it."""
    return load_catalog(name, **properties)
