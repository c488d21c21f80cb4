"""What many consumers and long documents cost, in a whole Airflow on SQLite and on PostgreSQL, with both stores.

make bench-state                                       500 consumers
make bench-state STATE_ARGS='--consumers 50 --database sqlite'

Prints CPU seconds. Fails when a first run costs more beside many consumers, when a list or a long document takes too
long, or when a command fails on a long document.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from scripts import local_airflow

ROOT = Path(__file__).parents[3]
PASSWORD = "scale-secret-4711"  # noqa: S105 - of a server that lives for minutes
TURNS = 3
"""A busy machine makes a process slower by turns, also in CPU seconds: the least counts."""
LIST_SECONDS = 5.0
DOCUMENT_SECONDS = 0.3
DOCUMENT_BYTES = 500_000
SLOWER = 1.5
"""How much longer a first run may take beside the others: the calls that it makes are counted by a quick test."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consumers", type=int, default=500)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], action="append")
    parser.add_argument("--store", choices=["variable", "iceberg"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.store:
        from tests.system.scale.figures import measure

        print(json.dumps(measure(arguments.folder, arguments.store, arguments.consumers)))
        return 0
    lost = []
    for kind in arguments.database or ["sqlite", "postgresql"]:
        for store in ("variable", "iceberg"):
            with tempfile.TemporaryDirectory(prefix="ips-scale-") as folder, database(kind, Path(folder)) as urls:
                figures = measured(Path(folder), environment(Path(folder), urls, store), store, arguments.consumers)
            print(f"\nAirflow on {kind}, checkpoints in {store}, {arguments.consumers} consumers")
            for name, value in figures.items():
                print(f"  {name:<55} {value if isinstance(value, int) else f'{value:.2f} s'}", flush=True)
            lost += [f"{kind}, {store}: {each}" for each in broken(figures)]
    for each in lost:
        print(f"LOST: {each}", file=sys.stderr)
    return 1 if lost else 0


@contextmanager
def database(kind, folder):
    """The addresses of Airflow's database and of the lake's catalog."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/airflow.db", f"sqlite:///{folder}/catalog.db"
        return
    from sqlalchemy import create_engine, text

    from tests.kit.postgres import postgres_server

    with postgres_server(password=PASSWORD) as address:
        root = f"postgresql+psycopg2://postgres:{PASSWORD}@{address.partition('/')[0]}"
        engine = create_engine(f"{root}/postgres", isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for name in ("airflow", "lake"):
                connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        yield f"{root}/airflow", f"{root}/lake"


def environment(folder, urls, store):
    for_airflow, for_lake = urls
    extra = {"type": "sql", "catalog_name": "lake", "uri": for_lake, "warehouse": f"file://{folder}/warehouse"}
    (folder / "dags").mkdir()
    return {
        **local_airflow.environment(folder / "airflow", dags=folder / "dags"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": for_airflow,
        "AIRFLOW_CONN_ICEBERG_DEFAULT": json.dumps({"conn_type": "iceberg", "extra": extra}),
        "AIRFLOW__IPS__CHECKPOINT_STORE": store,
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "PYTHONPATH": str(ROOT),
    }


def measured(folder, settings, store, consumers):
    """Have a process measure, and then each command in a process of its own."""
    words = ("tests.system.scale", "--store", store, "--folder", str(folder), "--consumers", str(consumers))
    figures = json.loads(run(settings, *words)[0].splitlines()[-1])
    capture_id = figures.pop("capture_id")
    consumer = ("--consumer", figures.pop("consumer"))
    figures["airflow version"] = min(run(settings, "airflow", "version")[1] for _ in range(TURNS))
    commands = {
        "list": (),
        "doctor": consumer,
        "replay": (*consumer, "--capture-id", capture_id),
        "gc": ("--older-than-days", "0", "--dry-run"),
    }
    for verb, options in commands.items():
        turns = [run(settings, "airflow", "ips", verb, *options, "-o", "json") for _ in range(TURNS)]
        output, figures[f"airflow ips {verb}"] = min(turns, key=lambda turn: turn[1])
        figures[f"  rows of {verb}"] = len(json.loads(output[output.index("[") :]))
    return figures


def run(settings, *words):
    """What a module printed, and the CPU seconds of its process: other programs take turns on the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [sys.executable, "-m", *words], env=settings, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if ended.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}")
    return ended.stdout, seconds


def broken(figures):
    held = {
        "a first run costs no more": figures["first run beside them"] <= SLOWER * figures["first run alone"] + 0.1,
        "a list is quick": figures["airflow ips list"] <= LIST_SECONDS,
        "a long document is small": figures["bytes of 50 captures of 100 sources"] < DOCUMENT_BYTES,
        "a long document is written soon": figures["writing it as text"] < DOCUMENT_SECONDS,
        "a long document is read soon": figures["reading it from text"] < DOCUMENT_SECONDS,
    }
    return [name for name, holds in held.items() if not holds]


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    sys.exit(main())
