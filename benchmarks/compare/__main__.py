"""Run this package and other ways to read what is new on the same tables, and write down who was right.

    python -m benchmarks.compare                       all of it, into results.json, its page and the summary
    python -m benchmarks.compare --only merge,append   the histories whose title has one of the words; writes nothing

Ends with an error if this package was silently wrong anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.compare.contenders import CONTENDERS
from benchmarks.compare.judge import Verdict
from benchmarks.compare.lake import open_lake
from benchmarks.compare.page import excerpt, whole_page, write_into
from benchmarks.compare.run import compare
from benchmarks.compare.scenarios import SCENARIOS
from scripts.spark_jars import JARS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.compare.run import Cell
    from benchmarks.compare.scenarios import Scenario

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs/explanation/compare.md"
SUMMARY = ROOT / "docs" / "explanation" / "when-to-use-it.md"


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="words, separated by commas; then nothing is written")
    parser.add_argument("--seed", type=int, default=1, help="which rows, and how many")
    options = parser.parse_args()
    words = options.only.split(",")
    scenarios = [scenario for scenario in SCENARIOS if any(word in scenario.title for word in words)]
    with tempfile.TemporaryDirectory() as folder, open_lake(Path(folder)) as lake:
        cells = list(said(compare(lake, scenarios, CONTENDERS, options.seed)))
    if not options.only:
        write(cells, scenarios, options.seed)
    ours = {entry.title for entry in CONTENDERS if entry.is_ours}
    wrong = [cell for cell in cells if cell.contender in ours and cell.judgement.verdict is Verdict.SILENT]
    if wrong:
        sys.exit("silently wrong: " + "; ".join(f"{cell.contender} on {cell.scenario}" for cell in wrong))


def said(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Print each cell as soon as it is judged."""
    for cell in cells:
        judged = cell.judgement
        print(f"{cell.scenario:40} {cell.contender:26} {judged.verdict:24} {judged.why}", flush=True)
        yield cell


def write(cells: Sequence[Cell], scenarios: Sequence[Scenario], seed: int) -> None:
    """The results, and the pages that show them."""
    results = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "command": "make compare" if seed == 1 else f"make compare COMPARE_ARGS='--seed {seed}'",
        "machine": machine(),
        "versions": versions(),
        "contenders": [entry.title for entry in CONTENDERS],
        "ours": [entry.title for entry in CONTENDERS if entry.is_ours],
        "scenarios": [{"title": one.title, "what": one.what} for one in scenarios],
        "cells": [cell.to_json() for cell in cells],
    }
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    write_into(PAGE, whole_page(results))
    write_into(SUMMARY, excerpt(results))


def machine() -> str:
    """Its shape."""
    gigabytes = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {gigabytes} GiB"


def versions() -> dict[str, Any]:
    """What could make a difference."""
    iceberg = next(jar.version for jar in JARS if jar.group == "org.apache.iceberg")
    return {
        "Iceberg": iceberg,
        "Spark": version("pyspark"),
        "PyIceberg": version("pyiceberg"),
        "Python": platform.python_version(),
        "Java": java_version(),
    }


def java_version() -> str:
    """As the virtual machine says."""
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return said.split('"')[1]


if __name__ == "__main__":
    main()
