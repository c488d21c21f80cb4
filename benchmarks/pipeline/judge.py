"""Whether two tables are the same, row by row, and whether what was measured is what was to be reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Rows of one table that another has not, each as often as it is there."""

    rows: int
    missing: int
    extra: int

    @property
    def is_none(self) -> bool:
        """And two empty tables would prove nothing."""
        return self.rows > 0 and self.missing == self.extra == 0


def differences(spark: SparkSession, wanted: str, found: str) -> Difference:
    """Both ways, with duplicates."""

    def count(query: str) -> int:
        return int(spark.sql(f"SELECT count(*) FROM ({query})").collect()[0][0])

    columns = ", ".join(spark.table(wanted).columns)
    left, right = (f"SELECT {columns} FROM {table}" for table in (wanted, found))
    return Difference(
        rows=count(left), missing=count(f"{left} EXCEPT ALL {right}"), extra=count(f"{right} EXCEPT ALL {left}")
    )
