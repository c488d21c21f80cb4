"""Many consumers on one deployment: what an hour of their runs costs its database, its scheduler and its API server.

    python -m benchmarks.many                                   # 500 consumers, two hours
    python -m benchmarks.many --consumers 20 --store iceberg

A whole Airflow on PostgreSQL runs the DAG of each consumer once an hour: a capture, a job that does nothing, and a
commit. The hours follow each other at once, and before each one every table gets a snapshot. Twins of the same DAGs,
whose tasks do nothing at all, run once; what ours takes more is what the package costs. Counted are transactions, rows
and CPU seconds, so other work on the machine hardly shows. Fails if a run does not succeed, if the scheduler works
more than it may for ours, or if an hour costs more than the one before it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

from tests.kit.deployment import deployed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Engine

STORES: Final = ("variable", "iceberg")
SCHEDULER_MORE: Final = 1.25
"""What the scheduler may spend on a run of ours, of what it spends on one of a twin."""
NEXT_HOUR_MORE: Final = 1.15
PATIENCE_S: Final = 3600.0
STATISTICS: Final = """
    SELECT xact_commit + xact_rollback, tup_inserted + tup_updated + tup_deleted, tup_fetched
    FROM pg_stat_database WHERE datname = '{name}'"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What was used until now, or by one run."""

    transactions: float
    rows_written: float
    rows_fetched: float
    lake_transactions: float
    scheduler_cpu_s: float
    api_server_cpu_s: float
    database_kb: float

    def since(self, before: Load, runs: int) -> Load:
        """What each of some runs used."""
        return Load(**{f.name: (getattr(self, f.name) - getattr(before, f.name)) / runs for f in fields(Load)})


def main() -> int:
    """Measure the stores one after the other, print the table, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consumers", type=int, default=500)
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--hours", type=int, default=2)
    parser.add_argument("--store", choices=STORES, action="append")
    given = parser.parse_args()
    lost = []
    for store in given.store or STORES:
        hours, twins = measure(store, given)
        names = [*(f"hour {number + 1}" for number in range(len(hours))), "twins"]
        print(f"\ncheckpoints in {store}, {given.consumers} consumers of {given.tables} tables; for each run:")
        print(f"| | {' | '.join(names)} |\n|---|{'--:|' * len(names)}")
        for field in fields(Load):
            values = [getattr(load, field.name) for load in (*hours, twins)]
            print(f"| {field.name.replace('_', ' ')} | {' | '.join(f'{value:,.2f}' for value in values)} |", flush=True)
        lost += [f"LOST, {store}: {each}" for each in broken(hours, twins)]
    print(*lost, sep="\n", file=sys.stderr)
    return 1 if lost else 0


def broken(hours: Sequence[Load], twins: Load) -> list[str]:
    """What costs more than it may."""
    first, last = hours[0], hours[-1]
    found = []
    if last.scheduler_cpu_s > SCHEDULER_MORE * twins.scheduler_cpu_s:
        found.append(
            f"the scheduler spends {last.scheduler_cpu_s:.2f} s on a run, {twins.scheduler_cpu_s:.2f} on a twin"
        )
    found += [
        f"the last hour takes {getattr(last, name):.1f} {name} a run, the first one took {getattr(first, name):.1f}"
        for name in ("transactions", "rows_written", "lake_transactions")
        if getattr(last, name) > NEXT_HOUR_MORE * getattr(first, name)
    ]
    return found


def measure(store: str, given: argparse.Namespace) -> tuple[list[Load], Load]:
    """Run everything once to have a checkpoint each, then the hours, then the twins."""
    from sqlalchemy import create_engine

    with tempfile.TemporaryDirectory(prefix="ips-many-") as name:
        dags = Path(name) / "dags"
        dags.mkdir()
        shutil.copy(Path(__file__).with_name("many_dags.py"), dags)
        settings = {
            "AIRFLOW__IPS__CHECKPOINT_STORE": store,
            "IPS_BENCH_CONSUMERS": str(given.consumers),
            "IPS_BENCH_TABLES": str(given.tables),
            # As by default: a quick scheduler would mostly be busy with looking again.
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
            "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "600",
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600",
        }
        with deployed(Path(name) / "deployment", dags=dags, settings=settings) as airflow:
            lake = airflow.lakes["lake"]
            for number in range(given.tables):
                lake.create(f"db.t{number}", [0])
            airflow.rest.wait_for(lambda: airflow.rest.knows(f"twin_{given.consumers - 1}"), "the DAGs", 600)
            engine = create_engine(airflow.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
            lake_engine = create_engine(lake.uri)
            meter = Meter(airflow, engine, lake_engine)
            run_all(airflow, engine, "ours", "first", given.consumers)
            hours = []
            for hour in range(given.hours):
                for number in range(given.tables):
                    lake.append(f"db.t{number}", [hour + 1])
                before = meter.read()
                run_all(airflow, engine, "ours", f"hour-{hour}", given.consumers)
                hours.append(meter.read().since(before, given.consumers))
            before = meter.read()
            run_all(airflow, engine, "twin", "hour", given.consumers)
            twins = meter.read().since(before, given.consumers)
            engine.dispose()
            lake_engine.dispose()
    return hours, twins


class Meter:
    """Reads what the deployment has used."""

    def __init__(self, airflow: Any, engine: Engine, lake: Engine) -> None:  # noqa: ANN401 - the kit has no types
        self._airflow, self._engine, self._lake = airflow, engine, lake

    def read(self) -> Load:
        """Until now."""
        time.sleep(2)  # PostgreSQL reports its counts at least once a second
        transactions, written, fetched = self._ask(self._engine, STATISTICS.format(name="airflow"))
        lake_transactions, _, _ = self._ask(self._lake, STATISTICS.format(name="lake"))
        (size,) = self._ask(self._engine, "SELECT pg_database_size('airflow') / 1000.0")
        return Load(
            transactions=transactions,
            rows_written=written,
            rows_fetched=fetched,
            lake_transactions=lake_transactions,
            scheduler_cpu_s=self._cpu("scheduler", only_itself=True),
            api_server_cpu_s=self._cpu("api-server", only_itself=False),
            database_kb=size,
        )

    def _cpu(self, part: str, *, only_itself: bool) -> float:
        """Processes that the scheduler has started are tasks; those of the API server are its workers."""
        total = 0.0
        family = self._airflow.family(part)
        for process in family[:1] if only_itself else family:
            with suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:2])
        return total

    @staticmethod
    def _ask(engine: Engine, query: str) -> tuple[float, ...]:
        from sqlalchemy import text

        with engine.connect() as connection:
            return tuple(float(value) for value in connection.execute(text(query)).one())


def run_all(airflow: Any, engine: Engine, prefix: str, run_id: str, consumers: int) -> None:  # noqa: ANN401 - as above
    """Trigger a run of each DAG at once, and wait for the last one."""
    from sqlalchemy import text

    began = time.monotonic()
    for number in range(consumers):
        airflow.rest.trigger(f"{prefix}_{number}", run_id)
    query = text("SELECT state, count(*) FROM dag_run WHERE run_id = :run_id AND dag_id LIKE :dags GROUP BY state")
    while time.monotonic() - began < PATIENCE_S:
        time.sleep(5)
        with engine.connect() as connection:
            rows = connection.execute(query, {"run_id": run_id, "dags": f"{prefix}_%"}).all()
        found = {row[0]: row[1] for row in rows}
        if set(found) <= {"success", "failed"}:
            break
    if found != {"success": consumers}:
        raise SystemExit(f"{prefix}, {run_id}: {found} instead of {consumers} that succeed; see {airflow.folder}")
    print(f"{prefix}, {run_id}: {consumers} runs in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
