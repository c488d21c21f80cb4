"""What captures cost on tables of 10⁵ to 10⁷ files, beside a model that says what they would on one of 10⁸.

    python -m benchmarks.far --publish                    into docs/explanation (half an hour, 20 GB of disk)
    python -m benchmarks.far --files 100000,1000000       the smaller ones (2 minutes)

The model is made of two tables of many snapshots with one file each: what a snapshot with its manifest costs to load,
to look through and to copy. The kernel's time is left out, which a copy on a local disk takes for its bytes. Tables
with 10,000 files a manifest then show whether it holds: the processor time that it says, and the memory, must be within
a quarter, or 30 ms and 10 MB, of what is measured.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.generator import Generated, generate
from benchmarks.publish import ROOT, write_section
from benchmarks.shapes import ENTRIES_PER_MANIFEST, Shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAGE: Final = ROOT / "docs" / "explanation" / "at-100-million-files.md"
WORK: Final[Mapping[str, str]] = {
    "load_table": "load the table",
    "capture": "capture 10,000 appended files",
    "full_capture": "capture all live files",
}
UNITS: Final = (100, 3_000)
"""Snapshots of the two tables that the model is made of."""
FAR: Final = 100_000_000
ALLOWED: Final = 0.25
ALLOWED_S: Final = 0.03
ALLOWED_MB: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one operation: medians of processes of their own."""

    cpu_seconds: float
    megabytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What an operation costs by itself, and for each snapshot with its manifest."""

    fixed: Figures
    each: Figures

    @classmethod
    def of(cls, few: Figures, many: Figures) -> Model:
        """From what it costs on both tables of units."""
        more = UNITS[1] - UNITS[0]
        cpu, megabytes = ((many.cpu_seconds - few.cpu_seconds) / more, (many.megabytes - few.megabytes) / more)
        return cls(
            fixed=Figures(cpu_seconds=few.cpu_seconds - cpu * UNITS[0], megabytes=few.megabytes - megabytes * UNITS[0]),
            each=Figures(cpu_seconds=cpu, megabytes=megabytes),
        )

    def says(self, manifests: int) -> Figures:
        """Of a table with so many snapshots and manifests."""
        return Figures(
            cpu_seconds=self.fixed.cpu_seconds + self.each.cpu_seconds * manifests,
            megabytes=self.fixed.megabytes + self.each.megabytes * manifests,
        )


def main() -> int:
    """Measure, compare, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="100000,1000000,10000000", help="numbers, with commas")
    parser.add_argument("--runs", type=int, default=3, help="medians are taken")
    parser.add_argument("--publish", action="store_true", help="write the table into the documentation")
    given = parser.parse_args()
    few, many = (measure(Shape(files=1, snapshots=1, snapshots_before=each - 1), given.runs) for each in UNITS)
    models = {name: Model.of(few[name], many[name]) for name in WORK}
    lines: list[str] = []
    lost: list[str] = []
    for files in map(int, given.files.split(",")):
        manifests = files // ENTRIES_PER_MANIFEST
        before = files - ENTRIES_PER_MANIFEST
        shape = Shape(files=ENTRIES_PER_MANIFEST, snapshots=1, files_before=before, snapshots_before=manifests - 1)
        found = measure(shape, given.runs)
        for name, figures in found.items():
            said = models[name].says(manifests)
            lines.append(_line(files, name, said, figures))
            lost += _differing(name, f"{WORK[name]}, {files:,} files", said, figures)
    lines += [_line(FAR, name, model.says(FAR // ENTRIES_PER_MANIFEST), None) for name, model in models.items()]
    header = "| files | snapshots and manifests | operation | CPU, model | CPU | memory, model | memory |"
    table = "\n".join([header, "|--:|--:|---|--:|--:|--:|--:|", *lines])
    print(table)
    if given.publish:
        write_section(
            PAGE, "far", f"{table}\n\nMeasured on {time.strftime('%Y-%m-%d')}, Python {sys.version.split()[0]}."
        )
    print(*lost, sep="\n", file=sys.stderr)
    return 1 if lost else 0


def measure(shape: Shape, runs: int) -> dict[str, Figures]:
    """All operations on one table, which is made for it and removed."""
    with tempfile.TemporaryDirectory(prefix="ips-far-") as folder:
        table = generate(shape, Path(folder))
        base = statistics.median(_run(table, "load_table")["before_bytes"] for _ in range(runs))
        found = {}
        for name in WORK:
            ran = [_run(table, name) for _ in range(runs)]
            found[name] = Figures(
                cpu_seconds=statistics.median(one["user_seconds"] for one in ran),
                megabytes=(statistics.median(one["peak_bytes"] for one in ran) - base) / 1e6,
            )
    return found


def _run(table: Generated, name: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.contender", name, str(table.folder), str(table.since), "icdc.far"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{name} failed on {table.shape.name}:\n{done.stderr[-4000:]}")
    shutil.rmtree(table.warehouse / "icdc", ignore_errors=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _differing(name: str, what: str, said: Figures, found: Figures) -> Iterator[str]:
    # On a local disk the bytes of all manifests pass through the process; an object store copies them itself.
    if name != "full_capture" and abs(said.cpu_seconds - found.cpu_seconds) > max(
        ALLOWED * found.cpu_seconds, ALLOWED_S
    ):
        yield f"LOST: {what}: {found.cpu_seconds:.2f} s of CPU, where the model says {said.cpu_seconds:.2f} s"
    if abs(said.megabytes - found.megabytes) > max(ALLOWED * found.megabytes, ALLOWED_MB):
        yield f"LOST: {what}: {found.megabytes:.0f} MB, where the model says {said.megabytes:.0f} MB"


def _line(files: int, name: str, said: Figures, found: Figures | None) -> str:
    cells = (
        f"{files:,}",
        f"{files // ENTRIES_PER_MANIFEST:,}",
        WORK[name],
        f"{said.cpu_seconds:.2f} s",
        "-" if found is None else f"{found.cpu_seconds:.2f} s",
        f"{max(said.megabytes, 0):.0f} MB",
        "-" if found is None else f"{found.megabytes:.0f} MB",
    )
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
