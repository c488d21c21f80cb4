"""A plain DAG and its incremental twin over the same late data, day by day, side by side.

Everything is real: Airflow's scheduler runs both DAGs, spark-submit runs their job over wide events, Iceberg tables
hold the data. State is in `.demo/` and is made by each run from the start; `make ui` shows what the last one left: its
runs, logs and tables.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from scripts import demo_report
from scripts.components import MIGRATE, ComponentsFailedError, Deployment, held, holder, running, stop_by_signal
from scripts.demo_days import (
    DAYS_BEFORE,
    DAYS_OFFLINE,
    FOLDER,
    OFFLINE_VIEWS,
    SOURCE,
    WINDOW_DAYS,
    Days,
    first_days,
    keep_memory,
)
from scripts.demo_report import Day, Reading
from scripts.demo_targets import INCREMENTAL, PLAIN, DemoFailedError, Recomputation, Verdict, begin_targets, compare
from scripts.lake import DAYS_ROWS_ARE_LATE, NAME, Lake, midnight
from scripts.loopback import free_port
from scripts.spark_jars import JarsUnavailableError
from scripts.terminal import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from scripts.components import Api, Parts

SECONDS_A_RUN: Final = 1800
"""More than any run takes on a machine that has other things to do."""
FEW_ROWS: Final = 5_000
"""A day's rows, below which both jobs take less than a JVM needs to compile them well."""
STARTING: Final = "Airflow starts: web server, scheduler and DAG processor"
DONE: Final = ("success", "failed")
T = TypeVar("T")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=2, help="days processed by both DAGs")
    parser.add_argument("--rows", type=int, default=95_000, help="events per day")
    parser.add_argument("--seed", type=int, default=7, help="another one makes other events of the same shape")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the state is")
    arguments = parser.parse_args()
    if not 1 <= arguments.days <= DAYS_OFFLINE - WINDOW_DAYS:
        parser.error(f"--days must be from 1 to {DAYS_OFFLINE - WINDOW_DAYS}: so many days are compared")
    stop_by_signal()
    keep_memory()
    try:
        _show(arguments.folder.resolve(), days=arguments.days, rows=arguments.rows, seed=arguments.seed)
    except (DemoFailedError, ComponentsFailedError, JarsUnavailableError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped.")
        return 130
    return 0


def _show(folder: Path, *, days: int, rows: int, seed: int) -> None:
    # What is there, the targets, a run of each DAG a day, and the comparison.
    progress = Progress(steps=3 + 2 * days)
    _start_over(folder)
    # Up to today, so that a DAG triggered from the UI afterwards finds the data inside its window.
    arriving = Days.ending(datetime.now(UTC).date(), days=days, rows=rows, seed=seed)
    with held(folder):
        lake = Lake.on_sqlite(folder / "lake")
        # Both jobs are compiled as Spark's are by default: settings for brief jobs would make the long one slower,
        # unless it is brief as well. No run is started by a clock: each is for a day that has arrived.
        deployment = Deployment.of(
            folder,
            lake.environment(brief_jobs=rows < FEW_ROWS),
            port=free_port(),
            AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE="False",
        )
        migration = deployment.begin(*MIGRATE)
        before = f"{DAYS_BEFORE} days of playback, {rows:,} events a day, a tenth of them late"
        with aside(lambda go_on: first_days(lake.catalog(), arriving, go_on)) as arrival:
            progress.begin(f"{before}, arrive while Airflow starts")
            deployment.finish(migration, MIGRATE)
            with running(deployment, ("api-server", "scheduler", "dag-processor")) as parts:
                api = _ready(deployment, parts, progress)
                source, arrived = _finished(arrival, parts, lambda: progress.update(f"{before}, arrive"))
                progress.end(f"{before}, have arrived")
                recomputation = _take_over(lake.catalog(), deployment, progress)
                demo = Demo(folder=folder, source=source, api=api, parts=parts, progress=progress)
                found = demo.process(arrived, count=days)
                progress.update("Airflow stops")
    verdict = _compare(lake.catalog(), arriving, recomputation, progress)
    _close(folder, found, verdict, progress)


def _take_over(catalog: Catalog, deployment: Deployment, progress: Progress) -> Recomputation:
    """Let the incremental DAG begin where the plain one is, as when a DAG that is there already is made incremental."""
    progress.begin("What the plain DAG would have made of them is computed, without Spark")
    recomputation = Recomputation(catalog)
    rows = recomputation.rows(lambda n, of: progress.update(f"file {n + 1} of {of} is computed"))
    progress.update("Both targets get these rows")
    begin_targets(catalog, rows)
    progress.update("The incremental DAG gets its position")
    words = ("--consumer", f"{INCREMENTAL}.capture", "--conn-id", NAME, "--table", SOURCE, "--latest", "--yes")
    deployment.run("ips", "seed", *words)
    progress.end(f"Both targets hold {rows.num_rows:,} rows of them, and the incremental DAG goes on from there")
    return recomputation


def _compare(catalog: Catalog, days: Days, recomputation: Recomputation, progress: Progress) -> Verdict:
    progress.begin("All is computed once more, without Spark, and compared")
    expected = recomputation.rows(lambda n, of: progress.update(f"file {n + 1} of {of} more is recomputed"))
    progress.update("Both targets are compared")
    verdict = compare(catalog, days.day(0), expected)
    progress.end("Both targets have been compared with a recomputation")
    return verdict


@contextmanager
def aside(work: Callable[[Callable[..., None]], T]) -> Iterator[Future[T]]:
    """Do something beside what the block does. If the block fails, it ends at its next call of what it is handed."""
    left = threading.Event()

    def go_on(*_: object) -> None:
        if left.is_set():
            raise CancelledError

    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(work, go_on)
        try:
            yield future
        finally:
            left.set()


def _start_over(folder: Path) -> None:
    """Remove what an earlier run left, unless Airflow is being looked at."""
    if pid := holder(folder):
        raise DemoFailedError(
            f"process {pid} (make ui or make demo) uses the tables that would be removed; stop it first"
        )
    if folder.exists():
        if any(folder.iterdir()) and not (folder / "lake").is_dir():
            raise DemoFailedError(f"{folder} is not empty and was not made by the demo; name another --folder")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)


def _ready(deployment: Deployment, parts: Parts, progress: Progress) -> Api:
    parts.wait_until_ready(lambda: progress.update(STARTING))
    api = deployment.api()
    deadline = time.monotonic() + SECONDS_A_RUN
    while not (api.knows(PLAIN) and api.knows(INCREMENTAL)):
        parts.require_alive()
        if time.monotonic() > deadline:
            raise DemoFailedError(f"the DAG files were not read; see {deployment.log('dag-processor')}")
        progress.update("Airflow reads the example DAGs")
        time.sleep(0.5)
    for dag_id in (PLAIN, INCREMENTAL):
        api.unpause(dag_id)
    user, password = deployment.login
    progress.end(f"Airflow runs, and you can watch: {deployment.url}  login {user} / {password}")
    return api


def _finished(future: Future[T], parts: Parts, waiting: Callable[[], None]) -> T:
    while not future.done():
        parts.require_alive()
        waiting()
        wait([future], timeout=0.5)
    return future.result()


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """Days that arrive in one table, and the two DAGs that process each."""

    folder: Path
    source: Table
    api: Api
    parts: Parts
    progress: Progress

    def process(self, days: Days, *, count: int) -> list[Day]:
        """Let data arrive and both DAGs run, a day at a time."""
        found = []
        for number in range(count):
            self.progress.update(f"{days.day(days.arrived)} arrives")
            days = days.arrive(self.source, with_offline=number == 0)
            days.write(self.folder)
            day = days.latest
            found.append(Day(day=day, plain=self._plain(day), incremental=self._incremental(day)))
        return found

    def _plain(self, day: date) -> Reading:
        """Run the plain DAG; what its query reads of the source is what the planner of its window selects."""
        seconds, cpu_seconds, _ = self._run(PLAIN, day)
        window = f"event_date >= '{day - timedelta(days=DAYS_ROWS_ARE_LATE)}'"
        selected = [task.file for task in self.source.scan(row_filter=window).plan_files()]
        reading = Reading(
            rows=sum(file.record_count for file in selected),
            size_bytes=sum(file.file_size_in_bytes for file in selected),
            seconds=seconds,
            cpu_seconds=cpu_seconds,
        )
        self.progress.end(f"{day}  plain       {reading.short()}")
        return reading

    def _incremental(self, day: date) -> Reading:
        """Run the incremental DAG; what its query reads is what capture put into the ICDC table."""
        seconds, cpu_seconds, run_id = self._run(INCREMENTAL, day)
        captured = self.api.xcom(INCREMENTAL, run_id, "capture", "capture")["sources"][0]
        reading = Reading(
            rows=captured["records"], size_bytes=captured["bytes"], seconds=seconds, cpu_seconds=cpu_seconds
        )
        self.progress.end(f"{day}  incremental {reading.short()}")
        return reading

    def _run(self, dag_id: str, day: date) -> tuple[float, float, str]:
        run_id, used = f"demo__{day}", self.parts.cpu_seconds()
        self.progress.begin(f"{day}  {dag_id} starts")
        self.api.trigger(dag_id, run_id, midnight(day).isoformat())
        tasks = self._finish(dag_id, run_id, day)
        return sum(task["duration"] or 0.0 for task in tasks), self.parts.cpu_seconds() - used, run_id

    def _finish(self, dag_id: str, run_id: str, day: date) -> list[dict[str, Any]]:
        deadline = time.monotonic() + SECONDS_A_RUN
        while (state := self.api.state(dag_id, run_id)) not in DONE and time.monotonic() < deadline:
            self.parts.require_alive()
            tasks = self.api.tasks(dag_id, run_id)
            doing = [task["task_id"] for task in tasks if task["state"] == "running"] or ["waiting for the scheduler"]
            done = [task["task_id"] for task in tasks if task["state"] == "success"]
            self.progress.update(f"{day}  {dag_id}: {', '.join([f'{task} ✓' for task in done] + doing)}")
            time.sleep(1)
        tasks = self.api.tasks(dag_id, run_id)
        if state != "success":
            states = {task["task_id"]: task["state"] for task in tasks}
            logs = self.folder / "airflow" / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}"
            raise DemoFailedError(f"{dag_id} of {day} ended as {state} {states}; its logs are in {logs}")
        return tasks


def _close(folder: Path, days: Sequence[Day], verdict: Verdict, progress: Progress) -> None:
    path = folder / "demo.png"
    notes, share = (demo_report.wrapped(text) for text in (demo_report.NOTES, demo_report.share(days)))
    print(f"\n{demo_report.table(days)}\n\n{notes}\n\n{demo_report.drawing(days)}\n{share}")
    print(_late_row(days[0].day, verdict))
    try:
        demo_report.picture(days, path)
        print(f"\nThe same as a picture: {path}")
    except ImportError:
        print("\nNo picture was drawn, because matplotlib is not installed; `make demo` installs it.")
    print(f"Took {progress.seconds:.0f} s. Look around: make ui")


def _late_row(day: date, verdict: Verdict) -> str:
    """Say what this is all about."""
    if verdict.lost != OFFLINE_VIEWS:
        raise DemoFailedError(f"the plain target lacks {verdict.lost} rows instead of {OFFLINE_VIEWS}")
    then = day - timedelta(days=DAYS_OFFLINE)
    rows, lost = f"{verdict.rows - verdict.lost:,}", OFFLINE_VIEWS
    return f"""
The point of it
  On {day}, a device that had been offline sent {lost} views of {then}, {DAYS_OFFLINE} days late.
  {PLAIN} looks back {WINDOW_DAYS} days: it has 0 of the {lost}.
      No run has failed, and no later run will read them.
  {INCREMENTAL} reads what the table gained, whatever its date: it has all {lost}.
  Apart from these {lost}, both targets hold the same {rows} rows. The incremental one is
  identical, column by column, to a recomputation of all that has arrived: {verdict.rows:,} rows."""


if __name__ == "__main__":
    sys.exit(main())
