"""How each engine reads a branch of a source, a snapshot by its id, and a range of appends: in its words, and rightly?

    python -m tests.system.engines.ways                     all engines
    python -m tests.system.engines.ways spark flink         those whose names begin so
    python -m tests.system.engines.ways flink --publish     and write into the page what they read

An engine without words for one of them says so. Fails where one has words, and reads other rows by them, unless that is
known and on the page.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.kit.packages import UnavailableError
from tests.system.engines.engines import ENGINES
from tests.system.engines.page import RIGHT, judged
from tests.system.engines.protocol import NO_WORDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.system.engines.engines import Engine
    from tests.system.engines.tables import Shelf

RESULTS: Final = Path(__file__).with_name("ways.json")
ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = ROOT / "docs" / "explanation" / "capture-modes.md"
BEGIN: Final = "<!-- written by make test-engines, from here -->\n"
END: Final = "<!-- to here, by make test-engines -->\n"

WAYS: Final = {"branch": "a branch by its name", "snapshot": "a snapshot by its id", "range": "a range of appends"}
NONE: Final = "none"
WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "spark": {
        "branch": "`lake.db.t.branch_ips_…`",
        "snapshot": "`lake.db.t VERSION AS OF 123`",
        "range": "`.option('start-snapshot-id', …)`, `.option('end-snapshot-id', …)`",
    },
    "flink": {
        "branch": "`/*+ OPTIONS('branch'='ips_…') */`",
        "snapshot": "`/*+ OPTIONS('snapshot-id'='123') */`",
        "range": "`/*+ OPTIONS('start-snapshot-id'='…', 'end-snapshot-id'='…') */`",
    },
    "trino": {"branch": "`FOR VERSION AS OF 'ips_…'`", "snapshot": "`FOR VERSION AS OF 123`"},
    "pyiceberg": {
        "branch": "`table.scan().use_ref('ips_…')`",
        "snapshot": "`table.scan(snapshot_id=123)`",
        "range": "`table.incremental_append_scan(from_snapshot_id_exclusive=…, to_snapshot_id_inclusive=…)`",
    },
    "polars": {
        "snapshot": "`scan_iceberg(…, snapshot_id=123)`",
        "range": "`scan_iceberg(…, from_snapshot_id_exclusive=…, to_snapshot_id_inclusive=…)`",
    },
    "daft": {"branch": "`read_iceberg(…, branch='ips_…')`", "snapshot": "`read_iceberg(…, snapshot_id=123)`"},
    "sail": {
        "branch": "`.option('branch', 'ips_…')`",
        "snapshot": "`.option('snapshot-id', 123)`",
        "range": "`.option('start-snapshot-id', …)`, `.option('end-snapshot-id', …)`",
    },
    "duckdb": {"snapshot": "`iceberg_scan('…', snapshot_from_id = 123)`"},
    "clickhouse": {"snapshot": "`SETTINGS iceberg_snapshot_id = 123`"},
}
"""By reader. What a reader is not told to do is not asked of its engine."""

IGNORED: Final = {("sail", "range"): "the options are ignored, and all of the source is read"}
"""What an engine is known to read wrongly, without a word, by reader and way. A release that does not fails the run."""


def main(arguments: list[str]) -> int:
    """Make the tables, ask every engine, say and keep what was read."""
    parser = argparse.ArgumentParser(prog="test-engines-ways")
    parser.add_argument("engines", nargs="*", default=[], help=f"beginnings of {', '.join(ENGINES)}")
    parser.add_argument("--publish", action="store_true", help="write results and page")
    parser.add_argument("--build", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.build:
        from tests.system.engines.__main__ import open_shelf  # it starts Spark

        with open_shelf(Path(options.build)) as shelf:
            (Path(options.build) / "questions.json").write_text(json.dumps(questions(shelf)))
        return 0
    names = [name for name in ENGINES if name.startswith(tuple(options.engines) or "")]
    with tempfile.TemporaryDirectory(prefix="ips-ways-") as folder:
        command = [sys.executable, "-m", "tests.system.engines.ways", "--build", folder]
        subprocess.run(command, check=True, cwd=ROOT)
        asked = json.loads((Path(folder) / "questions.json").read_text())
        results = {name: _read(ENGINES[name], Path(folder), asked) for name in names}
    if options.publish:
        publish(results)
    wrong = {name: each["ways"] for name, each in results.items() if not _is_as_known(each)}
    for name, ways in wrong.items():
        print(f"{name} reads other rows: {ways}")
    not_run = [name for name in names if options.engines and not results[name]["version"]]
    return int(bool(wrong or not_run))


def questions(shelf: Shelf) -> list[dict[str, Any]]:
    """A source that goes on after it was captured, with a delete that does not concern the capture."""
    from tests.system.engines.tables import Case, about, rows, values

    story = shelf.story(partitioned="day")
    since = story.insert(values(1, 2, 3))
    story.insert(values(4, 5))
    until = story.insert(values(6))
    record = story.capture(since, into=None, mode="BRANCH")
    story.insert(values(7))
    story.run("delete from {t} where id = 1")
    places = {"branch": record.branch, "snapshot": record.snapshot_id, "range": [since, until]}
    case = Case(name="", story=story, captured="", source_rows=[], captured_rows=[])
    return [
        {**question, "case": WAYS[way], "way": {way: place}}
        for way, place in places.items()
        for question in about(shelf, case, "captured", story.name, rows(4, 5, 6))
    ]


def _read(engine: Engine, folder: Path, asked: list[dict[str, Any]]) -> dict[str, Any]:
    from tests.system.engines.__main__ import answers_of

    try:
        with engine.ready(folder) as ready:
            version, answers = answers_of(engine, ready, folder, len(asked))
    except (UnavailableError, LookupError, OSError, subprocess.TimeoutExpired) as error:
        print(f"{engine.label}: not run: {error}", flush=True)
        return {"label": engine.label, "reader": engine.reader, "version": None, "ways": {}}
    found: dict[str, set[str]] = {}
    for question, answer in zip(asked, answers, strict=True):
        (way,) = question["way"]
        is_without = NO_WORDS in answer.get("error", "")
        verdict = NONE if is_without else judged(question, answer) or RIGHT
        found.setdefault(way, set()).add(verdict if verdict in (NONE, RIGHT) else f"{question['what']}: {verdict}")
    ways = {way: next(iter(each)) if len(each) == 1 else "; ".join(sorted(each)) for way, each in found.items()}
    print(f"{engine.label} ({version}): {ways}", flush=True)
    return {"label": engine.label, "reader": engine.reader, "version": version, "ways": ways}


def _is_as_known(result: Mapping[str, Any]) -> bool:
    ignored = {way for reader, way in IGNORED if reader == result["reader"] and result["version"]}
    return ignored == {way for way, verdict in result["ways"].items() if verdict not in (RIGHT, NONE)}


def table(results: Mapping[str, Any]) -> str:
    """A row for each engine; a cell has its words, if it read by them what was captured."""
    lines = ["| engine | " + " | ".join(WAYS.values()) + " |", "|---|" + "---|" * len(WAYS)]
    for each in results.values():
        if each["version"]:
            name, _, more = each["label"].partition(",")
            label = f"{name.split()[0]} {each['version']}{f' ({more.strip()})' if more else ''}"
            cells = (_cell(each["reader"], way, each["ways"].get(way, NONE)) for way in WAYS)
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(reader: str, way: str, verdict: str) -> str:
    if verdict == NONE:
        return "no"
    words = WORDS.get(reader, {}).get(way, "")
    verdict = verdict if verdict == RIGHT else IGNORED.get((reader, way), verdict)
    return words if verdict == RIGHT else f"**no**, {words}: {verdict.replace('|', '/')}"


def with_table(page: str, results: Mapping[str, Any]) -> str:
    """The page with the table of these results."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table(results)}\n\n{END}{tail}"


def publish(results: Mapping[str, Any]) -> None:
    """Store results beside those of engines that were not run this time, and write the page."""
    known = {**(json.loads(RESULTS.read_text()) if RESULTS.exists() else {}), **results}
    ordered = {name: known[name] for name in ENGINES if name in known}
    RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), ordered))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
