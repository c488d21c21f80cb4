"""What captures in mode BRANCH cost: requests, seconds and memory, and what they leave in the source's metadata.

    python -m benchmarks.branches                              all of it (ten minutes)
    python -m benchmarks.branches --only requests              30, 1,000 and 3,000 manifests in S3, 30 ms a request
    python -m benchmarks.branches --only memory                1,000,000 files in pure manifests, on a local disk
    python -m benchmarks.branches --only month --captures 288  a capture per quarter of an hour, for three days

Fails when publishing takes more than 12 requests besides loading the table, or more with more manifests; when removing
does; when a million files take more than a second, by the clock and by processor time alike, or 50 MB; or when
``metadata.json`` grows.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlparse

from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider_ips.iceberg import capture, drop_icdc
from benchmarks.generator import CACHE, SOURCE, generate, open_catalog, snapshot_id
from benchmarks.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

DELAY_MS: Final = 30.0
MANIFESTS: Final = (30, 1_000, 3_000)
REQUESTS: Final = 12
FILES: Final = 1_000_000
SNAPSHOTS: Final = 20
SECONDS: Final = 1.0
MEGABYTES: Final = 50.0
A_MONTH: Final = 2_880
KEPT: Final = 100
GROWTH: Final = 30_000
"""Bytes of a snapshot, a branch and a log of a hundred older metadata files."""


@contextmanager
def counted_calls() -> Iterator[list[str]]:
    """Calls of a catalog, each of which is a request where it is a server."""
    calls: list[str] = []
    originals = {name: getattr(SqlCatalog, name) for name in ("load_table", "commit_table")}

    def counting(name: str) -> Callable[..., object]:
        def call(*given: object) -> object:
            calls.append(name)
            return originals[name](*given)

        return call

    for name in originals:
        setattr(SqlCatalog, name, counting(name))
    try:
        yield calls
    finally:
        for name, original in originals.items():
            setattr(SqlCatalog, name, original)


def requests() -> bool:
    """Publish and remove captures of more and more manifests."""
    from benchmarks.objects.store import FILE_IOS, far_store

    found: dict[str, list[int]] = {}
    print("| manifests | file IO | load: requests, s | publish: requests, s | remove: requests, s |")
    print("|---|---|---|---|---|")
    for manifests in MANIFESTS:
        shape = Shape(files=10 * manifests, snapshots=manifests)
        with tempfile.TemporaryDirectory() as folder, far_store(Path(folder), DELAY_MS) as store:
            store.add_table(shape)
            for file_io in FILE_IOS:
                catalog, since = store.catalog(file_io), snapshot_id(shape.last_before)
                warm = capture(catalog, SOURCE, since=since, mode="BRANCH", into="warm")
                drop_icdc(catalog, str(warm.icdc_table))
                load = store.measured(lambda c=catalog: c.load_table(SOURCE))  # type: ignore[misc]
                with counted_calls() as calls:
                    publish = store.measured(lambda c=catalog, s=since: capture(c, SOURCE, since=s, mode="BRANCH"))  # type: ignore[misc]
                    published = publish.requests + len(calls) - load.requests - 1
                    name = next(ref for ref in catalog.load_table(SOURCE).refs() if ref.startswith("ips_"))
                    calls.clear()
                    remove = store.measured(lambda c=catalog, n=name: drop_icdc(c, f"{SOURCE}.branch_{n}"))  # type: ignore[misc]
                    removed = remove.requests + len(calls)
                found.setdefault(f"publish by {file_io}", []).append(published)
                found.setdefault(f"remove by {file_io}", []).append(removed)
                print(
                    f"| {manifests:,} | {file_io} | {load.requests + 1}, {load.seconds:.2f} | {published} more, "
                    f"{publish.seconds:.2f} | {removed}, {remove.seconds:.2f} |",
                    flush=True,
                )
    print(json.dumps(found))
    return all(max(each) <= REQUESTS for what, each in found.items() if what.startswith("publish")) and all(
        max(each) == min(each) for each in found.values()
    )


def capture_once(folder: str, since: int) -> dict[str, float]:
    """Capture a table in this process."""
    catalog = open_catalog(Path(folder))
    catalog.load_table(SOURCE)
    before, wall, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic(), time.process_time()
    record = capture(catalog, SOURCE, since=since, mode="BRANCH")
    figures = {
        "files": float(record.captured.files or 0),
        "seconds": time.monotonic() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "megabytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    }
    drop_icdc(catalog, str(record.icdc_table))
    return figures


def memory() -> bool:
    """Capture a million files in a process of its own."""
    shape = Shape(files=FILES, snapshots=SNAPSHOTS)
    made = generate(shape, CACHE)
    command = [sys.executable, "-m", "benchmarks.branches", "--folder", str(made.folder)]
    shown = subprocess.run([*command, "--since", str(made.since)], capture_output=True, text=True, check=True)
    figures = json.loads(shown.stdout.splitlines()[-1])
    print({name: round(value, 2) for name, value in figures.items()})
    return bool(min(figures["seconds"], figures["cpu_seconds"]) <= SECONDS and figures["megabytes"] <= MEGABYTES)


def month(captures: int, settings: Sequence[str] = ("false", "true")) -> bool:
    """Capture so often, remove each branch after the next capture, and keep or delete old metadata files."""
    from tests.kit.local_tables import append, files_under, new_catalog, new_table

    kept = []
    for deletes in settings:
        with tempfile.TemporaryDirectory() as folder:
            catalog = new_catalog(Path(folder))
            properties = {
                "write.metadata.delete-after-commit.enabled": deletes,
                "write.metadata.previous-versions-max": str(KEPT),
            }
            table = new_table(catalog, properties=properties)
            for number in range(KEPT):
                append(table, number)
            before, name, begun = _bytes(table.refresh()), None, time.monotonic()
            for number in range(captures):
                record = capture(catalog, "db.t", mode="BRANCH", into=f"c{number}")
                if name is not None:
                    drop_icdc(catalog, name)
                name = str(record.icdc_table)
            files = [size for path, size in files_under(table.location()).items() if ".metadata.json" in path]
            after = _bytes(table.refresh())
            kept.append(after - before)
            print(
                f"{captures} captures, delete-after-commit {deletes}: metadata.json has {before:,} bytes before and "
                f"{after:,} after; {len(files):,} metadata files of {sum(files):,} bytes; "
                f"{(time.monotonic() - begun) / captures * 1000:.0f} ms a capture with its removal",
                flush=True,
            )
    return max(kept) <= GROWTH


def _bytes(table: Table) -> int:
    return Path(urlparse(table.metadata_location).path).stat().st_size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("requests", "memory", "month"))
    parser.add_argument("--captures", type=int, default=A_MONTH)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--since", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        print(json.dumps(capture_once(options.folder, options.since)))
        return 0
    parts: dict[str, Callable[[], bool]] = {
        "requests": requests,
        "memory": memory,
        "month": lambda: month(options.captures),
    }
    chosen = [parts[options.only]] if options.only else list(parts.values())
    lost = [not part() for part in chosen]
    print("LOST: over the limits" if any(lost) else "within the limits")
    return int(any(lost))


if __name__ == "__main__":
    sys.exit(main())
