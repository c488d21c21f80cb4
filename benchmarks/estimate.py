"""What an estimate costs on a table of metadata only: seconds and memory of a process of its own.

    python -m benchmarks.estimate                       1,000,000 files in 1,000 snapshots
    python -m benchmarks.estimate --files 10000 --snapshots 20

Fails when it takes longer than 10 s, by the clock and by processor time alike, or more than 200 MB, imports included.
Both limits are for a million files.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

from benchmarks.generator import CACHE, SOURCE, generate, open_catalog
from benchmarks.shapes import Shape

SECONDS = 10.0
MEGABYTES = 200.0


def measure(folder: str, column: str | None) -> dict[str, float]:
    """Estimate a table as of its newest commit, in this process."""
    from pathlib import Path

    from airflow_provider_ips.iceberg import estimate

    catalog = open_catalog(Path(folder))
    head = catalog.load_table(SOURCE).current_snapshot()
    if head is None:
        raise SystemExit(f"{SOURCE} has no snapshot")
    wall, cpu = time.monotonic(), time.process_time()
    found = estimate(catalog, SOURCE, column=column, now_ms=head.timestamp_ms + 1)
    return {
        "seconds": time.monotonic() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "days": found.totals.days,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--snapshots", type=int, default=1_000)
    parser.add_argument("--column", help="estimate by the bounds or partitions of this column")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder:
        print(json.dumps(measure(arguments.folder, arguments.column)))
        return 0
    made = generate(Shape(files=arguments.files, snapshots=arguments.snapshots), CACHE)
    command = [sys.executable, "-m", "benchmarks.estimate", "--folder", str(made.folder)]
    command += ["--column", arguments.column] if arguments.column else []
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    if shown.returncode:
        print(shown.stderr, file=sys.stderr)
        return 1
    figures = json.loads(shown.stdout.splitlines()[-1])
    for name, value in figures.items():
        print(f"  {name:<12} {value:10.1f}")
    lost = min(figures["seconds"], figures["cpu_seconds"]) > SECONDS or figures["megabytes"] > MEGABYTES
    print("LOST: over the limits" if lost else "within the limits")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
