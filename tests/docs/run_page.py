"""Run the Python blocks of one page in order, as a reader would type them, and say what each printed, as JSON.

Run in a process and a folder of its own: PyIceberg reads its settings when it is imported, and pages change the current
catalog. Each page finds a lake as the pages describe it: `load_catalog("lake")`, with three days in `db.playback`.
"""

import contextlib
import datetime as dt
import io
import json
import sys
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType

from tests.kit.pages import ROOT, blocks

SCHEMA = Schema(
    NestedField(1, "event_date", DateType()),
    NestedField(2, "title", StringType()),
    NestedField(3, "minutes", LongType()),
)
BY_DATE = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "event_date"))
DAYS = (
    [("2026-11-01", "Ozark", 50), ("2026-11-01", "Dark", 45)],
    [("2026-11-02", "Ozark", 20), ("2026-11-01", "Dark", 5)],
    [("2026-11-03", "Lupin", 40)],
)


def fill_lake() -> None:
    lake = load_catalog("lake")
    lake.create_namespace("db")
    playback = lake.create_table("db.playback", schema=SCHEMA, partition_spec=BY_DATE)
    for day in DAYS:
        rows = [{"event_date": dt.date.fromisoformat(d), "title": t, "minutes": m} for d, t, m in day]
        playback.append(pa.Table.from_pylist(rows, schema=SCHEMA.as_arrow()))


def run(page: str) -> dict[int, str]:
    """The output of each block, by its line."""
    namespace, outputs = {"__name__": "__main__"}, {}
    for block in blocks(ROOT / page):
        if block.language != "python" or block.is_dag_file or block.directive:
            continue
        code = compile("\n" * (block.line - 1) + block.text, page, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(code, namespace)  # noqa: S102 - the page is the program
        outputs[block.line] = said.getvalue()
    return outputs


if __name__ == "__main__":
    Path("warehouse").mkdir()
    fill_lake()
    sys.stdout.write(json.dumps(run(sys.argv[1])))
