"""Whether the demo's targets hold what they must: both are compared with a computation of everything by other means."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from scripts.demo_days import SOURCE
from scripts.lake import BY_DAY
from scripts.wide_events import measured

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from pyiceberg.catalog import Catalog

PLAIN, INCREMENTAL = "playback_plain", "playback_incremental"
pc: Any = compute  # neither has types
pq: Any = parquet

TIMES: Final = pa.timestamp("us", "UTC")
ROWS_AT_ONCE: Final = 10_000


class DemoFailedError(Exception):
    """The demo did not show what it is there to show."""


TARGET: Final = Schema(
    *(
        NestedField(number, name, kind)
        for number, (name, kind) in enumerate(
            {
                "event_id": LongType(),
                "event_date": DateType(),
                "account_id": IntegerType(),
                "title_id": IntegerType(),
                "watched_seconds": IntegerType(),
                "received_at": TimestamptzType(),
                "device": StringType(),
                "network": StringType(),
                "loaded_ms": LongType(),
                "kilobits": LongType(),
                "median_kbps": IntegerType(),
                "low_kbps": IntegerType(),
                "switches": IntegerType(),
                "dropped": IntegerType(),
                "slow_segments": IntegerType(),
            }.items(),
            1,
        )
    )
)
"""What the job makes of an event, as its CREATE TABLE has it."""


def begin_targets(catalog: Catalog, rows: pa.Table) -> None:
    """Give both DAGs a target that holds these rows, as the plain one has it when it is made incremental."""
    for name in (PLAIN, INCREMENTAL):
        target = catalog.create_table(
            f"db.{name}", TARGET, partition_spec=BY_DAY, properties={"write.merge.mode": "merge-on-read"}
        )
        target.append(rows.cast(target.schema().as_arrow()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How many rows each target has, and how many of those that came after the window."""

    rows: int
    """Of the recomputation, and of the incremental target."""
    lost: int
    """Rows that the plain target lacks, all of them of days outside its window when they came."""


class Recomputation:
    """What the job computes, computed without Spark: the last version received of each event, file by file."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._parts: dict[str, pa.Table] = {}

    def read(self, reading: Callable[[int, int], None] | None = None) -> None:
        """Read the files that the source has by now; those that were read before are kept."""
        table = self._catalog.load_table(SOURCE)
        paths = [task.file.file_path for task in table.scan().plan_files() if task.file.file_path not in self._parts]

        def measure(path: str) -> pa.Table:
            # Some at a time: a day of payloads at once costs more to make room for than to read.
            with table.io.new_input(path).open() as stream:
                batches = pq.ParquetFile(stream).iter_batches(batch_size=ROWS_AT_ONCE)
                return pa.concat_tables(measured(pa.Table.from_batches([batch])) for batch in batches)

        readers = ThreadPoolExecutor(os.cpu_count())
        try:
            for number, (path, part) in enumerate(zip(paths, readers.map(measure, paths), strict=True)):
                if reading is not None:
                    reading(number, len(paths))
                self._parts[path] = part
        finally:
            readers.shutdown(cancel_futures=True)

    def rows(self, reading: Callable[[int, int], None] | None = None) -> pa.Table:
        """Read what is left, and return what a target has to hold."""
        self.read(reading)
        everything = pa.concat_tables(self._parts.values())
        ids, received = (everything[name].cast(pa.int64()).to_numpy() for name in ("event_id", "received_at"))
        order = np.lexsort((received, ids))
        last = np.append(ids[order][1:] != ids[order][:-1], True)
        found = everything.take(pa.array(order[last]))
        return _in_order(found, _plain(found.schema))


def compare(catalog: Catalog, earliest: date, expected: pa.Table) -> Verdict:
    """Compare both targets, column by column, with a recomputation.

    Rows before the earliest day came when no window held that day.
    """
    in_window = expected.filter(pc.field("event_date") >= pa.scalar(earliest))
    targets = {PLAIN: in_window, INCREMENTAL: expected}
    for name, wanted in targets.items():
        found = _in_order(catalog.load_table(f"db.{name}").scan().to_arrow(), wanted.schema)
        if not found.equals(wanted):
            raise DemoFailedError(
                f"the target of {name} differs from a recomputation: {found.num_rows:,} rows instead of "
                f"{wanted.num_rows:,}, or other values in them"
            )
    return Verdict(rows=expected.num_rows, lost=expected.num_rows - in_window.num_rows)


def _in_order(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Bring rows into one order and into one set of types, so that tables are equal when their rows are."""
    return rows.select(schema.names).cast(schema).sort_by("event_id").combine_chunks()


def _plain(schema: pa.Schema) -> pa.Schema:
    """The types that are compared, whatever the engines write: any integer as a long one."""

    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_integer(kind):
            return pa.int64()
        if pa.types.is_timestamp(kind):
            return TIMES
        return pa.string() if pa.types.is_large_string(kind) else kind

    return pa.schema([(name, plain(schema.field(name).type)) for name in schema.names])
