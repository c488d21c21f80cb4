"""Print the way of one append capture through the rooms of the package: its modules, in order of first visit.

A real capture operator runs in a real Airflow, twice: the first run captures the whole table, and the second, which is
the one shown, captures what was appended since. A room is a folder. Whoever reads the code of a capture from its first
line to its last opens the modules in this order, so each return to a room is a place where they turn back.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from scripts import local_airflow
from scripts.room_map import drawn_as
from scripts.rooms import PACKAGE, Module, read_graph

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

MOST_RETURNS = 5
"""How much oftener than it visits rooms a capture may change room."""

DAG_FILE = """
from airflow.sdk import DAG, task
from airflow_provider_ips import IpCaptureOperator, IpCommitOperator


@task
def daily(source):
    from airflow.providers.apache.iceberg.hooks.iceberg import IcebergHook

    catalog = IcebergHook("lake").get_conn()
    catalog.load_table("db.target").append(catalog.load_table(source).scan().to_arrow())


with DAG(dag_id="walk", schedule=None):
    capture = IpCaptureOperator(task_id="capture", source_tables="db.playback", iceberg_conn_id="lake")
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> daily(capture.output["db.playback"]) >> commit
"""


@dataclass(frozen=True, slots=True)
class Visit:
    """The first call of a function in a module, and the module that called it."""

    module: str
    room: str
    function: str
    caller: str


def _modules_by_file() -> dict[str, Module]:
    return {str(module.path): module for module in read_graph().modules.values()}


@dataclass(slots=True)
class Walk:
    """The first visits during a stretch of execution, in all threads."""

    visits: dict[str, Visit] = field(default_factory=dict)
    modules: dict[str, Module] = field(default_factory=_modules_by_file)

    def start(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def stretches(self) -> list[tuple[str, list[Visit]]]:
        """The visits, cut where the room changes."""
        return [(room, list(visits)) for room, visits in groupby(self.visits.values(), lambda visit: visit.room)]

    @property
    def changes_minus_rooms(self) -> int:
        """How often the way changes room, less the rooms that it visits: minus one if it never returns to any."""
        stretches = self.stretches()
        return len(stretches) - 1 - len({room for room, _ in stretches})

    def _note(self, frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG002 - as sys.setprofile has it
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        module = self.modules.get(frame.f_code.co_filename)
        if module is None or module.name in self.visits:
            return
        caller = frame.f_back
        while caller is not None and caller.f_code.co_filename not in self.modules:
            caller = caller.f_back
        self.visits[module.name] = Visit(
            module=module.name.removeprefix(f"{PACKAGE}."),
            room=drawn_as(module),
            function=frame.f_code.co_qualname,
            caller=self.modules[caller.f_code.co_filename].name.removeprefix(f"{PACKAGE}.") if caller else "",
        )


def walk_of_an_append_capture(folder: Path) -> Walk:
    """Run a DAG of capture, job and commit twice, and record the capture of the second run."""
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    settings = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"{folder.as_uri()}/warehouse"}
    dags = folder / "dags"
    dags.mkdir()
    (dags / "walk.py").write_text(DAG_FILE)
    local_airflow.enter(
        {
            **local_airflow.environment(folder / "airflow", dags=dags),
            "AIRFLOW_CONN_LAKE": json.dumps({"conn_type": "iceberg", "extra": settings}),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        }
    )
    catalog = load_catalog("lake", **settings)
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    catalog.create_namespace("db")
    source = catalog.create_table("db.playback", schema)
    catalog.create_table("db.target", schema)
    walk = Walk()
    for day in (1, 2):
        source.append(pa.table({"id": [day], "day": [f"2026-10-0{day}"]}, schema=schema))
        _run(dags, day, walk if day == 2 else None)  # noqa: PLR2004 - the second run captures appends
    return walk


def _run(dags: Path, day: int, walk: Walk | None) -> None:
    from airflow.dag_processing.dagbag import DagBag

    dag = DagBag(dags, bundle_name="dags-folder").dags["walk"]
    if walk:
        # What pre_execute= and post_execute= of an operator set.
        capture = dag.task_dict["capture"]
        capture._pre_execute_hook = lambda _context: walk.start()  # type: ignore[union-attr]  # noqa: SLF001
        capture._post_execute_hook = lambda _context, _result: walk.stop()  # type: ignore[union-attr]  # noqa: SLF001
    at = datetime(2026, 10, day, tzinfo=UTC)
    run = dag.test(logical_date=at, run_after=at)
    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    if set(states.values()) != {"success"}:
        raise SystemExit(f"walk: the run of day {day} did not succeed: {states}")


def describe(walk: Walk) -> Iterator[str]:
    """The way, room by room, and its figures."""
    seen: set[str] = set()
    number = 0
    for room, visits in walk.stretches():
        yield f"{'back to ' if room in seen else ''}{room}"
        seen.add(room)
        for visit in visits:
            number += 1
            short = visit.module.removeprefix(f"{room}.")
            yield f"  {number:3}  {short:22} {visit.function}" + (
                f"  (called by {visit.caller})" if visit.caller else ""
            )
    returns = len(walk.stretches()) - len(seen)
    yield ""
    yield f"modules visited        {len(walk.visits)}"
    yield f"rooms visited          {len(seen)}"
    yield f"changes of room        {len(walk.stretches()) - 1}"
    yield f"changes minus rooms    {walk.changes_minus_rooms} (at most {MOST_RETURNS})"
    yield f"returns to a room      {returns}"


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory(prefix="ips-walk-") as name, _quiet():
        walk = walk_of_an_append_capture(Path(name))
    print("\n".join(describe(walk)))
    return 0


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what Airflow writes while it sets itself up off the terminal; errors still come as exceptions."""
    logging.disable(logging.WARNING)
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):  # noqa: PTH123 - a device
        yield


if __name__ == "__main__":
    sys.exit(main())
