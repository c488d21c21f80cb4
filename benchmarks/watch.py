"""Many watched tables on one triggerer: how flat its event loop stays, what the catalog is asked, how soon events come.

    python -m benchmarks.watch                        # 200 tables, a poll every 10 s, some two minutes
    python -m benchmarks.watch --tables 50 --interval 5

A real `airflow triggerer` watches the tables through a real catalog, both on SQLite, while this process appends to some
of them. Fails if a figure is lost: the loop's lag, one load per table and interval, an append's event within one
interval and two seconds, no event without an append.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.watch_notes import FOLDER, LAGS, LOADS, MACHINE, noted
from scripts import local_airflow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyiceberg.catalog import Catalog

MAX_LAG_MS: Final = 100.0
MAX_DELAY_S: Final = 2.0
"""Beyond one poll interval."""
WARM_UP_S: Final = 10.0
"""A triggerer that starts imports and builds its triggers in its loop; what it lags then is told, and not judged."""
PATIENCE_S: Final = 180.0
SNAPSHOTS: Final = 100
"""In each table's history: what a load has to parse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one run measured."""

    lag_ms: float
    lag_own_ms: float
    """The longest, without what the machine let an idle process wait in the same second."""
    lag_p99_ms: float
    machine_ms: float
    lag_starting_ms: float
    loads_a_second: float
    loads_at_once: int
    """The most loads of one table within one interval."""
    delays_s: tuple[float, ...]
    interval_s: float
    events: int
    appends: int

    @property
    def lost(self) -> list[str]:
        """The figures that do not hold."""
        held = {
            f"the loop's own lag is at most {MAX_LAG_MS:g} ms": self.lag_own_ms <= MAX_LAG_MS,
            "a table is loaded once in an interval": self.loads_at_once <= 1,
            "every append has one event": self.events == self.appends == len(self.delays_s),
            f"an event comes within the interval and {MAX_DELAY_S:g} s": max(self.delays_s, default=math.inf)
            <= self.interval_s + MAX_DELAY_S,
        }
        return [name for name, holds in held.items() if not holds]

    def __str__(self) -> str:
        """A table for people."""
        delays = sorted(self.delays_s) or [math.nan]
        rows = (
            ("event loop's lag, longest", f"{self.lag_ms:.0f} ms"),
            ("without what an idle process waited", f"{self.lag_own_ms:.0f} ms"),
            ("an idle process, longest", f"{self.machine_ms:.0f} ms"),
            ("event loop's lag, 99 of 100", f"{self.lag_p99_ms:.0f} ms"),
            ("while the triggerer starts", f"{self.lag_starting_ms:.0f} ms"),
            ("loads of the catalog", f"{self.loads_a_second:.1f} a second"),
            ("most loads of one table in an interval", str(self.loads_at_once)),
            ("append to its event, longest", f"{delays[-1]:.1f} s"),
            ("append to its event, median", f"{delays[len(delays) // 2]:.1f} s"),
            ("appends, and events", f"{self.appends}, {self.events}"),
        )
        return "\n".join(f"{name:<42} {value}" for name, value in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A folder with a lake and an Airflow in it."""

    folder: Path
    tables: int
    interval_s: float

    @property
    def properties(self) -> dict[str, str]:
        """Of the catalog."""
        return {"uri": f"sqlite:///{self.folder}/lake.db", "warehouse": f"file://{self.folder}/warehouse"}

    @property
    def names(self) -> list[str]:
        """Of the watched tables."""
        return [f"db.t{number:04}" for number in range(self.tables)]

    def environment(self) -> dict[str, str]:
        """Of every Airflow process, the repository on its path."""
        root = str(Path(__file__).resolve().parent.parent)
        counting = {**self.properties, "py-catalog-impl": "benchmarks.watched.CountingCatalog"}
        return {
            **local_airflow.environment(self.folder / "airflow", dags=self.folder),
            "AIRFLOW_CONN_LAKE": json.dumps({"conn_type": "iceberg", "extra": counting}),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
            FOLDER: str(self.folder),
            "PYTHONPATH": root,
        }

    def catalog(self) -> Catalog:
        """For the writer, uncounted."""
        from pyiceberg.catalog import load_catalog

        return load_catalog("lake", **{"type": "sql", **self.properties})

    def make_tables(self) -> None:
        """One history, registered under many names: from there each table goes its own way."""
        import pyarrow as pa

        catalog = self.catalog()
        catalog.create_namespace("db")
        rows = pa.table({"id": [1, 2, 3]})
        first = catalog.create_table("db.first", schema=rows.schema)
        for _ in range(SNAPSHOTS):
            first.append(rows)
        for name in self.names:
            catalog.register_table(name, first.metadata_location)

    def make_dag(self) -> None:
        """One DAG that all the watched assets start, as a DAG processor makes it known."""
        from airflow.models.dagbundle import DagBundleModel
        from airflow.models.serialized_dag import SerializedDagModel
        from airflow.providers.standard.operators.empty import EmptyOperator
        from airflow.sdk import DAG, Asset, AssetAny, AssetWatcher
        from airflow.serialization.definitions.dag import SerializedDAG
        from airflow.serialization.serialized_objects import LazyDeserializedDAG
        from airflow.utils.session import create_session

        from airflow_provider_ips import IcebergAppendTrigger, iceberg_asset
        from benchmarks.watched import LoopLag

        def watched(name: str) -> Asset:
            trigger = IcebergAppendTrigger(
                table=name, iceberg_conn_id="lake", initial="latest", poll_interval=self.interval_s
            )
            return iceberg_asset(name, iceberg_conn_id="lake", watchers=[AssetWatcher(name="appends", trigger=trigger)])

        lag_trigger = LoopLag()  # type: ignore[no-untyped-call]
        lag = Asset("loop_lag", watchers=[AssetWatcher(name="lag", trigger=lag_trigger)])
        with DAG("watching", schedule=AssetAny(lag, *map(watched, self.names)), is_paused_upon_creation=False) as dag:
            EmptyOperator(task_id="work")
        with create_session() as session:
            session.merge(DagBundleModel(name="bench"))
        for _ in range(2):  # assets are known after the first time, and their watchers after the second
            lazy = LazyDeserializedDAG.from_dag(dag)
            SerializedDAG.bulk_write_to_db("bench", None, [lazy])
            SerializedDagModel.write_dag(lazy, bundle_name="bench")

    def events(self) -> dict[str, float]:
        """The snapshots that events told of, and when Airflow had stored them."""
        from airflow.models.asset import AssetEvent
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            rows = session.execute(select(AssetEvent.extra, AssetEvent.timestamp).order_by(AssetEvent.id)).all()
        found: dict[str, float] = {}
        for extra, at in rows:
            told = extra["payload"]["tables"][0]
            found.setdefault(f"{told['source']} {told['newest_snapshot_id']}", at.timestamp())
        return found


@contextmanager
def triggerer(stage: Stage) -> Iterator[None]:
    """A real one, in a process of its own."""
    with (stage.folder / "triggerer.log").open("w") as log:
        process, idle = (
            subprocess.Popen(
                [sys.executable, "-m", *words], env=stage.environment(), stdout=log, stderr=subprocess.STDOUT
            )
            for words in (("airflow", "triggerer", "--skip-serve-logs"), ("benchmarks.watch_notes",))
        )
        try:
            yield
        except TimeoutError:
            sys.stderr.write((stage.folder / "triggerer.log").read_text()[-4_000:])
            raise
        finally:
            for each in (idle, process):
                each.terminate()
                each.wait(30)


def until(answer: Callable[[], bool], what: str) -> None:
    """Another process does the work, and tells nobody: ask again and again."""
    deadline = time.monotonic() + PATIENCE_S
    while not answer():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE_S:g} s in vain until {what}")
        time.sleep(0.2)


def append_here_and_there(stage: Stage, *, appends: int) -> dict[str, float]:
    """Append to some of the tables, spread over three intervals; say which snapshots, and when they were committed."""
    import pyarrow as pa

    catalog, rows, committed = stage.catalog(), pa.table({"id": [4]}), dict[str, float]()
    step = max(stage.tables // appends, 1)
    for name in stage.names[::step][:appends]:
        table = catalog.load_table(name)
        table.append(rows)
        snapshot = table.current_snapshot()
        if snapshot is not None:
            committed[f"{name} {snapshot.snapshot_id}"] = time.time()
        time.sleep(3 * stage.interval_s / appends)
    return committed


def measure(stage: Stage, *, appends: int) -> Figures:
    """Watch, append, and count."""
    stage.make_tables()
    stage.make_dag()
    with triggerer(stage):
        until(lambda: len({name for _, name in noted(stage.folder, LOADS)}) == stage.tables, "every table was loaded")
        settled_at = time.time() + WARM_UP_S
        until(lambda: time.time() > settled_at + stage.interval_s, "the triggerer has settled")
        committed = append_here_and_there(stage, appends=appends)
        until(lambda: set(committed) <= set(stage.events()), "every append had its event")
        ended_at = time.time() + stage.interval_s
        until(lambda: time.time() > ended_at, "a whole interval brought nothing more")
    told = stage.events()
    lags = [(at, float(lag)) for at, lag in noted(stage.folder, LAGS)]
    late = [(at, lag) for at, lag in lags if at > settled_at]
    judged = sorted(lag for _, lag in late)
    machine = [(at, float(lag)) for at, lag in noted(stage.folder, MACHINE) if at > settled_at]
    loads = [(at, name) for at, name in noted(stage.folder, LOADS) if at > settled_at]
    return Figures(
        lag_ms=judged[-1],
        lag_own_ms=max(lag - waited(machine, at) for at, lag in late),
        machine_ms=max(lag for _, lag in machine),
        lag_p99_ms=judged[int(len(judged) * 0.99)],
        lag_starting_ms=max((lag for at, lag in lags if at <= settled_at), default=math.nan),
        loads_a_second=len(loads) / (loads[-1][0] - loads[0][0]),
        loads_at_once=most_at_once(loads, stage.interval_s),
        delays_s=tuple(told[key] - at for key, at in committed.items()),
        interval_s=stage.interval_s,
        events=len(told),
        appends=len(committed),
    )


def waited(machine: Sequence[tuple[float, float]], at: float) -> float:
    """The longest that an idle process had to wait in the second before."""
    return max((lag for noted_at, lag in machine if at - 1 <= noted_at <= at + 0.1), default=0.0)


def most_at_once(loads: Sequence[tuple[float, str]], interval_s: float) -> int:
    """The most loads of one table that lie closer together than an interval, but for a tenth of it."""
    times: dict[str, list[float]] = {}
    for at, name in sorted(loads):
        times.setdefault(name, []).append(at)
    return max(
        sum(1 for other in found if at <= other < at + interval_s * 0.9) for found in times.values() for at in found
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run once, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--interval", type=float, default=10.0, help="seconds between two polls")
    parser.add_argument("--appends", type=int, default=40)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ips-watch-") as home:
        stage = Stage(folder=Path(home), tables=given.tables, interval_s=given.interval)
        local_airflow.enter(stage.environment())
        figures = measure(stage, appends=given.appends)
    print(f"{given.tables} watched tables, a poll every {given.interval:g} s, on {os.cpu_count()} processors")
    print(figures)
    for lost in figures.lost:
        print(f"LOST: {lost}", file=sys.stderr)
    return 1 if figures.lost else 0


if __name__ == "__main__":
    sys.exit(main())
