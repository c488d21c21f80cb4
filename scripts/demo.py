"""A plain DAG and its incremental twin over the same late data, day by day, side by side.

Everything is real and small: Airflow on SQLite runs both DAGs, spark-submit runs their job, Iceberg tables hold the
data. State is in `.demo/` and is made anew by each run; `make ui` shows what the last one left.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from scripts import local_airflow
from scripts.lake import DAYS_ROWS_ARE_LATE, Lake, create_events_table, day_of_events, midnight
from scripts.spark_jars import JarsUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

FOLDER = Path(__file__).resolve().parent.parent / ".demo"
SOURCE = "db.playback"
PLAIN, INCREMENTAL = "playback_plain", "playback_incremental"
WINDOW_DAYS = DAYS_ROWS_ARE_LATE + 1


class DemoFailedError(Exception):
    """The demo did not show what it is there to show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one run of one DAG had to read of the source, and how long it took."""

    rows: int
    size_bytes: int
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=3, help="days processed after the first run")
    parser.add_argument("--rows", type=int, default=60_000, help="events per day")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the state is")
    arguments = parser.parse_args()
    started = time.monotonic()
    folder = arguments.folder.resolve()
    try:
        _start_anew(folder)
        lake = Lake.on_sqlite(folder / "lake")
        with _output_into(folder / "setup.log"):
            local_airflow.enter({**local_airflow.environment(folder / "airflow"), **lake.environment()})
        show = Demo(folder=folder, source=create_events_table(lake.catalog(), SOURCE), rows=arguments.rows)
        readings = show.process(days=arguments.days)
        _print_table(readings)
        require_identical_targets(lake.catalog())
    except (DemoFailedError, JarsUnavailableError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    print(f"Took {time.monotonic() - started:.0f} s. Look around: make ui")
    return 0


def _start_anew(folder: Path) -> None:
    """Remove what an earlier run left, unless Airflow is being looked at."""
    from scripts.ui import running_pid

    if pid := running_pid(folder):
        raise DemoFailedError(f"make ui shows the tables that would be removed; stop it first (process {pid})")
    if folder.exists():
        if any(folder.iterdir()) and not (folder / "lake").is_dir():
            raise DemoFailedError(f"{folder} is not empty and was not made by the demo; name another --folder")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """Days that arrive in one table, and the two DAGs that process each."""

    folder: Path
    source: Table
    rows: int

    def process(self, *, days: int) -> list[tuple[date, Reading, Reading]]:
        """Let data arrive and both DAGs run, a day at a time."""
        # Up to today, so that a DAG triggered from the UI afterwards finds the data inside its window.
        first = datetime.now(UTC).date() - timedelta(days=days)
        _say(f"{WINDOW_DAYS} days of playback arrive: {self.rows:,} events a day, a tenth of them late.")
        # The first run's window covers all that there is then, or it would leave out rows for good.
        earliest = first - timedelta(days=DAYS_ROWS_ARE_LATE)
        for n in range(DAYS_ROWS_ARE_LATE):
            self._arrive(earliest + timedelta(days=n), earliest)
        readings = []
        for day in (first + timedelta(days=n) for n in range(days + 1)):
            self._arrive(day, earliest)
            plain = self._run_plain(day)
            incremental = self._run_incremental(day)
            note = "   (first run: everything)" if day == first else ""
            _say(f"{day}  plain {_short(plain)}   incremental {_short(incremental)}{note}")
            readings.append((day, plain, incremental))
        return readings

    def _arrive(self, day: date, earliest: date) -> None:
        self.source.append(day_of_events(day, rows=self.rows, earliest=earliest))

    def _run_plain(self, day: date) -> Reading:
        """Run the plain DAG; what its query reads of the source is what the planner of its window selects."""
        finished = self._run(PLAIN, day)
        window = f"event_date >= '{day - timedelta(days=DAYS_ROWS_ARE_LATE)}'"
        selected = [task.file for task in self.source.scan(row_filter=window).plan_files()]
        return Reading(
            rows=sum(file.record_count for file in selected),
            size_bytes=sum(file.file_size_in_bytes for file in selected),
            seconds=sum(finished.task_seconds.values()),
        )

    def _run_incremental(self, day: date) -> Reading:
        """Run the incremental DAG; what its query reads is what capture put into the ICDC table."""
        finished = self._run(INCREMENTAL, day)
        captured = local_airflow.xcom(finished, "capture", "capture")["sources"][0]
        return Reading(
            rows=captured["records"],
            size_bytes=captured["bytes"],
            seconds=sum(finished.task_seconds.values()),
        )

    def _run(self, dag_id: str, day: date) -> local_airflow.Finished:
        _say(f"{day}  {dag_id} is running", passing=True)
        log = self.folder / f"{day}-{dag_id}.log"
        with _output_into(log):
            finished = local_airflow.run(dag_id, midnight(day))
        if finished.state != "success":
            states = dict(finished.task_states)
            raise DemoFailedError(f"{dag_id} of {day} ended as {finished.state} {states}; see {log}")
        return finished


def _print_table(readings: list[tuple[date, Reading, Reading]]) -> None:
    print(f"\n{'':12}{'rows read of the source':^32}{'bytes read of the source':^32}{'seconds':^22}")
    print(f"{'day':12}" + f"{'plain':>12}{'incremental':>14}{'':6}" * 2 + f"{'plain':>8}{'incremental':>13}")
    for day, plain, incremental in readings:
        print(
            f"{day!s:12}{plain.rows:>12,}{incremental.rows:>14,}{'':6}"
            f"{_size(plain.size_bytes):>12}{_size(incremental.size_bytes):>14}{'':6}"
            f"{plain.seconds:>8.1f}{incremental.seconds:>13.1f}"
        )
    later = readings[1:]
    shares = [incremental.size_bytes / plain.size_bytes for _, plain, incremental in later]
    print(
        "\nThe first run processes everything there is, in both DAGs. Rows and bytes are those of the data files that"
        "\nthe query selects: for the plain DAG those that Iceberg plans for its window, for the incremental one those"
        "\nthat were captured. Seconds are the durations of all tasks of the DAG, capture and commit included; each"
        "\nspark-submit spends several of them on starting."
    )
    if shares:
        print(f"After the first run the incremental DAG read {sum(shares) / len(shares):.0%} of the plain one's bytes.")


def require_identical_targets(catalog: Catalog) -> None:
    """Compare both targets row by row with each other, and with one computation over all of the source."""
    plain, incremental = (_rows_of(catalog, f"db.{dag_id}") for dag_id in (PLAIN, INCREMENTAL))
    anew = _computed_anew(catalog)
    if plain.equals(incremental) and plain.equals(anew):
        print(f"Both targets hold the same {plain.num_rows:,} rows, and so does a computation of everything anew.")
        return
    raise DemoFailedError(
        f"the targets differ: {plain.num_rows:,} rows by the plain DAG, {incremental.num_rows:,} by the incremental "
        f"one, {anew.num_rows:,} computed anew"
    )


def _rows_of(catalog: Catalog, name: str) -> pa.Table:
    return _in_order(catalog.load_table(name).scan().to_arrow())


def _computed_anew(catalog: Catalog) -> pa.Table:
    """Compute what the job computes, without Spark: the last version received of each event."""
    events = catalog.load_table(SOURCE).scan().to_arrow().sort_by("received_at")
    others = [name for name in events.column_names if name != "event_id"]
    last = events.group_by("event_id", use_threads=False).aggregate([(name, "last") for name in others])
    return _in_order(last.rename_columns(["event_id", *others]))


def _in_order(rows: pa.Table) -> pa.Table:
    """Bring rows into one order and one type, so that tables are equal when their rows are."""
    columns = sorted(rows.column_names)
    ordered = rows.select(columns).sort_by("event_id")
    types = {
        name: pa.timestamp("us", "UTC") for name in columns if pa.types.is_timestamp(ordered.schema.field(name).type)
    }
    arrays = [
        ordered[name].cast(types.get(name, _plain_type(ordered.schema.field(name).type))).combine_chunks()
        for name in columns
    ]
    return pa.table(dict(zip(columns, arrays, strict=True)))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_large_string(kind) else kind


@contextmanager
def _output_into(path: Path) -> Iterator[None]:
    """Send what this process and its children write to a file: Airflow and Spark have much to say."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with path.open("a") as log:
        try:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)


def _say(text: str, *, passing: bool = False) -> None:
    """Print a line; one that says what is running is overwritten by the next, and left out where that cannot be."""
    if sys.stdout.isatty():
        print(f"{text:<110}", end="\r" if passing else "\n", flush=True)
    elif not passing:
        print(text, flush=True)


def _short(reading: Reading) -> str:
    return f"{reading.rows:>10,} rows {_size(reading.size_bytes):>9} {reading.seconds:>5.1f} s"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB"


if __name__ == "__main__":
    sys.exit(main())
