"""An Airflow per lake, in a process of its own: it reads its configuration once, and other tests have theirs."""

import multiprocessing
import os
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from scripts import local_airflow
from scripts.lake import Lake, create_events_table, day_of_events, midnight
from tests.examples.postgres_server import postgres_server

FIRST_DAY = date(2026, 10, 1)
SOURCES = ("db.playback", "db.downloads")
ROWS = 2_000
PASSWORD = "p@ss w/rd"  # noqa: S105 - of a server that lives as long as its test; it has to survive three configurations


@dataclass
class World:
    """A lake whose source tables gain days, and the Airflow that processes them."""

    lake: Lake
    catalog: SqlCatalog
    pool: ProcessPoolExecutor
    log: Path
    days: int = 0

    def gain_a_day(self, *tables):
        """Append the next day, late rows of days before included, to each table; return its logical date."""
        day = FIRST_DAY + timedelta(days=self.days)
        self.days += 1
        for name in tables:
            self.catalog.load_table(name).append(day_of_events(day, rows=ROWS, seed=SOURCES.index(name)))
        return midnight(day)

    def run(self, dag_id, logical_date):
        """Run an example DAG through Airflow, and return the states of its tasks and the capture's record."""
        finished, record = self.pool.submit(_run, dag_id, logical_date).result(timeout=300)
        assert finished.state == "success", f"{dag_id}: {finished.task_states}\n{self.log.read_text()[-8_000:]}"
        return finished, record

    def ask(self, question, *arguments):
        """Call a function in the process of that Airflow."""
        return self.pool.submit(question, *arguments).result(timeout=120)

    def rows(self, name):
        """Every row of a table, as PyIceberg reads it."""
        return self.catalog.load_table(name).scan().to_arrow().to_pylist()


def _run(dag_id, logical_date):
    finished = local_airflow.run(dag_id, logical_date)
    return finished, local_airflow.xcom(finished, "capture", "capture")


@contextmanager
def world_of(lake, home):
    """Start an Airflow for a lake."""
    settings = {**local_airflow.environment(home), **lake.environment()}
    # A started process imports what started it, and that is pytest: a new interpreter knows no Airflow yet.
    context = multiprocessing.get_context("spawn")
    log = home.with_suffix(".log")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_enter, initargs=(settings, log)) as pool:
        yield World(lake=lake, catalog=lake.catalog(), pool=pool, log=log)


def _enter(settings, log):
    """Let Airflow and Spark talk to a file: a failed run shows the end of it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.stdout.flush()
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    local_airflow.enter(settings)


@pytest.fixture(scope="session")
def sqlite_world(tmp_path_factory):
    """Three days in two sources, in a catalog that Spark and PyIceberg share on SQLite."""
    folder = tmp_path_factory.mktemp("sqlite")
    with world_of(Lake.on_sqlite(folder / "lake"), folder / "airflow") as world:
        _make_sources(world)
        yield world


@pytest.fixture
def postgres_world(tmp_path):
    """The same with the catalog on a PostgreSQL server that asks for a password."""
    with postgres_server(password=PASSWORD) as address:
        lake = Lake.on_postgres(tmp_path / "lake", address=address, user="postgres", password=PASSWORD)
        with world_of(lake, tmp_path / "airflow") as world:
            _make_sources(world)
            yield world


def _end_with_parent():
    """Go when pytest is killed: nobody would ask this process anything any more."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _make_sources(world):
    for name in SOURCES:
        create_events_table(world.catalog, name)
    for _ in range(3):
        world.gain_a_day(*SOURCES)
