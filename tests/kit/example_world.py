"""A lake that gains days, and an Airflow that runs the example DAGs over it, with real spark-submit.

The Airflow is in a process of its own: it reads its configuration once, and other tests have theirs.
"""

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

from scripts import local_airflow
from scripts.lake import Lake, create_events_table, day_of_events, midnight

FIRST_DAY = date(2026, 10, 1)
SOURCES = ("db.playback", "db.downloads")
ROWS = 2_000


@dataclass
class World:
    """A lake whose source tables gain days, and the Airflow that processes them."""

    lake: Lake
    catalog: SqlCatalog
    pool: ProcessPoolExecutor
    log: Path
    days: int = 0

    def next_day(self):
        """Let a day pass; return it."""
        day = FIRST_DAY + timedelta(days=self.days)
        self.days += 1
        return day

    def gain_a_day(self, *tables):
        """Append the next day, late rows of days before included, to each table; return its logical date."""
        day = self.next_day()
        for name in tables:
            self.catalog.load_table(name).append(day_of_events(day, rows=ROWS, seed=SOURCES.index(name)))
        return midnight(day)

    def run(self, dag_id, logical_date, **options):
        """Run an example DAG to its success, and return the states of its tasks and the capture's record."""
        finished = self.attempt(dag_id, logical_date, **options)
        assert finished.state == "success", f"{dag_id}: {finished.task_states}\n{self.end_of_log()}"
        return finished, self.xcom(finished, "capture", "capture")

    def attempt(
        self,
        dag_id: str,
        logical_date,
        *,
        conf: Mapping[str, Any] | None = None,
        after: Mapping[str, Callable[[], object]] | None = None,
        dags: Path = local_airflow.EXAMPLES,
    ):
        """Run a DAG however it ends. The same logical date again is the same run, cleared.

        `after` names a function of a module, or a partial of one, that is called in Airflow's process when a task has
        done its work; what it raises fails the task.
        """
        future = self.pool.submit(_run, dag_id, logical_date, conf=conf, after=after or {}, dags=dags)
        return future.result(timeout=300)

    def xcom(self, finished, task_id, key):
        """What a task of a finished run has pushed."""
        return self.ask(local_airflow.xcom, finished, task_id, key)

    def ask(self, question, *arguments):
        """Call a function in the process of that Airflow."""
        return self.pool.submit(question, *arguments).result(timeout=120)

    def rows(self, name):
        """Every row of a table, as PyIceberg reads it."""
        return self.catalog.load_table(name).scan().to_arrow().to_pylist()

    def end_of_log(self):
        """What Airflow and Spark said last."""
        return self.log.read_text()[-8_000:]


def _run(dag_id, logical_date, *, conf, after, dags):
    return local_airflow.run(dag_id, logical_date, conf=conf, after=after, dags=dags)


@contextmanager
def world_of(lake, home):
    """Start an Airflow for a lake."""
    settings = {**local_airflow.environment(home), **lake.environment()}
    # A started process imports what started it, and that is pytest: a new interpreter knows no Airflow yet.
    context = multiprocessing.get_context("spawn")
    log = home.with_suffix(".log")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_enter, initargs=(settings, log)) as pool:
        yield World(lake=lake, catalog=lake.catalog(), pool=pool, log=log)


def make_sources(world):
    """Three days of playback and of downloads."""
    for name in SOURCES:
        create_events_table(world.catalog, name)
    for _ in range(3):
        world.gain_a_day(*SOURCES)


def _enter(settings, log):
    """Let Airflow and Spark talk to a file: a failed run shows the end of it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.stdout.flush()
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    local_airflow.enter(settings)


def _end_with_parent():
    """Go when pytest is killed: nobody would ask this process anything any more."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
