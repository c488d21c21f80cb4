"""A table made statement by statement, in Spark, and captures of it that both engines read."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from airflow_provider_ips.iceberg import capture, drop_icdc

if TYPE_CHECKING:
    from airflow_provider_ips.core.results.capture_record import SourceRecord
    from tests.kit.spark import LakeOfTwoEngines

NUMBERS = count()


class Story:
    """One table, made statement by statement, and captures of it."""

    def __init__(
        self,
        lake: LakeOfTwoEngines,
        columns: str,
        *,
        partitioned: str = "",
        format_version: str = "2",
        **properties: str,
    ) -> None:
        self.lake = lake
        self.name = f"db.history_{next(NUMBERS)}"
        self.table = f"lake.{self.name}"
        wanted = {"format-version": format_version}
        wanted |= {key.replace("__", "-").replace("_", "."): value for key, value in properties.items()}
        pairs = ", ".join(f"'{key}'='{value}'" for key, value in wanted.items())
        by = f"partitioned by ({partitioned})" if partitioned else ""
        self.run(f"create table {self.table} ({columns}) using iceberg {by} tblproperties ({pairs})")

    def run(self, statement: str) -> int:
        """Run a statement, in which ``{t}`` is the table, and give main's head after it."""
        self.lake.spark.sql(statement.replace("{t}", self.table)).collect()
        return self.head

    def call(self, procedure: str, arguments: str) -> int:
        """Run one of Iceberg's procedures on the table."""
        return self.run(f"call lake.system.{procedure}(table => '{self.name}'{arguments and ', '}{arguments})")

    def insert(self, values: str) -> int:
        """Append rows to main and give the snapshot's id."""
        return self.run(f"insert into {{t}} values {values}")

    @property
    def head(self) -> int:
        """Main's head; 0 while there is none."""
        snapshot = self.lake.catalog.load_table(self.name).current_snapshot()
        return snapshot.snapshot_id if snapshot else 0

    def capture(self, since: int | None, **options: object) -> SourceRecord:
        """Capture into a table of its own."""
        given = {"into": f"icdc.history_{next(NUMBERS)}", **options}
        return capture(self.lake.catalog, self.name, since=since, **given)  # type: ignore[arg-type]

    def captured(self, since: int | None, **options: object) -> list[int]:
        """The ids that Spark reads from a capture, which PyIceberg must read as well."""
        icdc = self.capture(since, **options).icdc_table
        if icdc is None:
            return []
        by_spark = sorted(row[0] for row in self.lake.spark.sql(f"select id from lake.{icdc}").collect())
        assert sorted(self.lake.catalog.load_table(icdc).scan().to_arrow()["id"].to_pylist()) == by_spark
        drop_icdc(self.lake.catalog, icdc)
        return by_spark
