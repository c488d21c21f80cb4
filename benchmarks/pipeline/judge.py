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
    """Both ways, with duplicates: how often each row is here and there, told by 128 bits of hashes of all its columns.

    Rows are wide, and ``EXCEPT ALL`` would sort them whole, for longer than the contenders take together.
    """
    names = spark.sql(f"SELECT * FROM {wanted}").columns
    # Spark's hash skips NULL, so that (NULL, 1) and (1, NULL) would have the same one.
    columns = ", ".join([*names, *(f"isnull({name})" for name in names)])
    hashed = " UNION ALL ".join(
        f"SELECT xxhash64({columns}) AS one, xxhash64('two', {columns}) AS two, {sign} AS more FROM {table}"
        for table, sign in ((wanted, 1), (found, -1))
    )
    counted = f"SELECT count_if(more > 0) AS rows, sum(more) AS more FROM ({hashed}) GROUP BY one, two"
    sums = "sum(rows)", "sum(greatest(more, 0))", "sum(greatest(-more, 0))"
    rows, missing, extra = spark.sql(f"SELECT {', '.join(sums)} FROM ({counted})").collect()[0]
    return Difference(rows=rows or 0, missing=missing or 0, extra=extra or 0)
