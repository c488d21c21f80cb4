"""``make test-engines``: one set of tables, read by every engine, and the matrix of the docs.

    python -m tests.system.engines                     all engines
    python -m tests.system.engines spark flink         those whose names begin so
    python -m tests.system.engines flink --publish     and write into the page's matrix what they read

Fails where an engine reads less of an ICDC table than of its source, and where one that was named does not run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scripts.local_spark import BRIEF_JVM, session_settings, sqlite_catalog, sqlite_properties_for_spark, start_spark
from tests.kit.packages import UnavailableError
from tests.kit.spark import LakeOfTwoEngines
from tests.system.engines.engines import ENGINES, Engine, Ready
from tests.system.engines.page import WORSE, publish, verdicts
from tests.system.engines.tables import Shelf, questions

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS: Final = 900
"""For one engine."""

MOST_ENDS: Final = 6
"""After so many ends of its process an engine is asked nothing more."""

ENDED: Final = {"error": "its process ended"}
ROOT: Final = Path(__file__).resolve().parents[3]
BUILD: Final = "build"


def main(arguments: list[str]) -> int:
    """Build the set, ask every engine, say and keep what was read."""
    parser = argparse.ArgumentParser(prog="test-engines")
    parser.add_argument("engines", nargs="*", default=[], help=f"beginnings of {', '.join(ENGINES)}")
    parser.add_argument("--publish", action="store_true", help="write results and page")
    parser.add_argument("--build", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.build:
        _build(Path(options.build))
        return 0
    names = [name for name in ENGINES if name.startswith(tuple(options.engines) or "")]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ips-engines-") as folder:
        # In a process of its own: this one keeps no JVM beside those of the engines.
        subprocess.run([sys.executable, "-m", "tests.system.engines", "--build", folder], check=True, cwd=ROOT)
        asked = json.loads((Path(folder) / "questions.json").read_text())
        print(f"{len(asked)} questions about {len({q['table']['name'] for q in asked})} tables", flush=True)
        results = {name: _asked(ENGINES[name], Path(folder), asked) for name in names}
    print(f"{time.monotonic() - began:.0f} s")
    if options.publish:
        publish(results, ENGINES)
    worse = [
        (name, case)
        for name, each in results.items()
        for case, verdict in each["cases"].items()
        if verdict == WORSE and not ENGINES[name].limit
    ]
    for name, case in worse:
        print(f"{name} reads less of the ICDC table than of the source: {case}")
    not_run = [name for name in names if options.engines and not results[name]["version"]]
    return int(bool(worse or not_run))


def _build(folder: Path) -> None:
    with open_shelf(folder) as shelf:
        (folder / "questions.json").write_text(json.dumps(questions(shelf)))


@contextlib.contextmanager
def open_shelf(folder: Path) -> Iterator[Shelf]:
    """A lake of both engines in this folder."""
    settings = session_settings({"lake": sqlite_properties_for_spark(folder)})
    brief = {"spark.sql.shuffle.partitions": "1", "spark.driver.extraJavaOptions": " ".join(BRIEF_JVM)}
    spark = start_spark({**settings, **brief}, cores=1, log_level="ERROR")
    catalog = sqlite_catalog(folder, namespaces=("db", "icdc"))
    yield Shelf(LakeOfTwoEngines(spark=spark, catalog=catalog), folder)
    spark.stop()


def _asked(engine: Engine, folder: Path, asked: list[dict[str, Any]]) -> dict[str, Any]:
    """One engine's answers, judged; what does not start on this machine is not run, with the reason."""
    began = time.monotonic()
    try:
        with engine.ready(folder) as ready:
            version, answers = answers_of(engine, ready, folder, len(asked))
    except (UnavailableError, LookupError, OSError, subprocess.TimeoutExpired) as error:
        late = isinstance(error, subprocess.TimeoutExpired)
        reason = f"it did not end within {SECONDS} s" if late else str(error)[:300]
        print(f"{engine.label}: not run: {reason}", flush=True)
        return {"label": engine.label, "version": None, "reason": reason, "cases": {}, "notes": {}}
    cases, notes = verdicts(asked, answers)
    print(f"{engine.label} ({version}), {time.monotonic() - began:.0f} s", flush=True)
    for case, verdict in cases.items():
        print(f"   {case:40} {verdict:12} {notes.get(case, '')}", flush=True)
    return {"label": engine.label, "version": version, "reason": engine.limit, "cases": cases, "notes": notes}


def answers_of(engine: Engine, ready: Ready, folder: Path, expected: int) -> tuple[str, list[dict[str, Any]]]:
    """What its reader says; a question at which its process ends is asked no second time."""
    answers: list[dict[str, Any]] = []
    version, ends = "", 0
    while len(answers) < expected and ends < MOST_ENDS:
        version, more = _run(engine, ready, folder, len(answers), version)
        answers += more
        if len(answers) < expected:
            if not version:
                log = (folder / f"{engine.reader}.log").read_text()
                raise OSError(f"it did not start: {' '.join(log.split())[-300:]}")
            answers.append(ENDED)
            ends += 1
    return version, answers + [ENDED] * (expected - len(answers))


def _run(engine: Engine, ready: Ready, folder: Path, first: int, version: str) -> tuple[str, list[dict[str, Any]]]:
    command = [str(ready.python), "-m", f"tests.system.engines.readers.{engine.reader}"]
    with (folder / f"{engine.reader}.log").open("w") as log:
        ended = subprocess.run(
            [*command, str(folder / "questions.json"), str(first)],
            cwd=ROOT,
            env={**os.environ, **ready.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    said = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    return next((line["version"] for line in said if "version" in line), version), [s for s in said if "number" in s]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
