"""Capture against PyIceberg's own means, side by side in one run, on a table that consists of metadata only.

    python -m benchmarks.capture --files 10000 --snapshots 10

PyIceberg's way to hand just the appended files to a job is to read the manifest entries of the range and to fast-append
their files to a new table (which renumbers field ids, and so is right for a table that never evolved only). Both run in
this process, alternately; the median counts. The figures are ratios: wall times of one machine mean little on another.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from airflow_provider_ips.iceberg import capture, drop_icdc

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

COLUMNS = 20
SCHEMA = Schema(*(NestedField(i, f"c{i}", LongType()) for i in range(1, COLUMNS + 1)))


def main() -> None:
    """Build the table, run both ways, print what they took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000, help="data files appended in the captured range")
    parser.add_argument("--snapshots", type=int, default=10, help="snapshots that appended them")
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many rounds counts")
    parser.add_argument("--at-least", type=float, default=0, help="fail unless capture is so many times faster")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
        catalog.create_namespace("db")
        catalog.create_namespace("icdc")
        since = generate(catalog, options.files, options.snapshots)
        result = compare(catalog, since, options.rounds) | {"files": options.files, "snapshots": options.snapshots}
    print(json.dumps(result, indent=2))
    if result["times_faster"] < options.at_least:
        raise SystemExit(f"capture is {result['times_faster']} times faster, not {options.at_least}")


def generate(catalog: SqlCatalog, files: int, snapshots: int) -> int:
    """Append metadata of files that do not exist, with full statistics; give the snapshot before the range."""
    table = catalog.create_table("db.t", SCHEMA)
    append(table, 0, 1)
    before = head(table.refresh())
    for number in range(1, snapshots + 1):
        append(table, number, files // snapshots)
    return before.snapshot_id


def append(table: Table, number: int, files: int) -> None:
    """Commit one snapshot."""
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
        for i in range(files):
            update.append_data_file(data_file(f"{table.location()}/data/{number}-{i}.parquet"))


def data_file(path: str) -> DataFile:
    """One file's metadata."""
    counts = dict.fromkeys(range(1, COLUMNS + 1), 1000)
    bound = to_bytes(LongType(), 12345)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1000,
        file_size_in_bytes=1_000_000,
        column_sizes=counts,
        value_counts=counts,
        null_value_counts=dict.fromkeys(counts, 0),
        nan_value_counts={},
        lower_bounds=dict.fromkeys(counts, bound),
        upper_bounds=dict.fromkeys(counts, bound),
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=None,
        spec_id=0,
    )


def compare(catalog: SqlCatalog, since: int, rounds: int) -> dict[str, float]:
    """Alternate, so that a slow moment of the machine hits both."""
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(seconds(lambda: capture(catalog, "db.t", since=since, into="icdc.ours")))
        drop_icdc(catalog, "icdc.ours")
        theirs.append(seconds(lambda: with_pyiceberg(catalog, since)))
        catalog.drop_table("icdc.theirs")
    mine, other = statistics.median(ours), statistics.median(theirs)
    return {
        "capture_seconds": round(mine, 4),
        "pyiceberg_seconds": round(other, 4),
        "times_faster": round(other / mine, 1),
    }


def with_pyiceberg(catalog: SqlCatalog, since: int) -> None:
    """Read the entries that the range added, and append their files to a new table."""
    table = catalog.load_table("db.t")
    snapshot = head(table)
    target = catalog.create_table("icdc.theirs", table.schema())
    with target.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
        for manifest in snapshot.manifests(table.io):
            for entry in manifest.fetch_manifest_entry(table.io):
                if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id != since:
                    update.append_data_file(entry.data_file)


def head(table: Table) -> Snapshot:
    """The newest snapshot of a table that has one."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        raise RuntimeError(f"{table.name()} has no snapshot")
    return snapshot


def seconds(work: Callable[[], object]) -> float:
    """Wall time."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
