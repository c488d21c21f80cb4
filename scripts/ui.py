"""Airflow with the example DAGs and the demo's tables, on 127.0.0.1 and nowhere else.

Four processes as a deployment would run them; Ctrl-C stops all of them. State is in `.demo/`, as `make demo` left it,
its runs and logs included; if there is none, the tables are made first.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.components import MIGRATE, PORT, ComponentsFailedError, Deployment, held, holder, running, stop_by_signal
from scripts.demo_days import DAYS_BEFORE, FOLDER, SOURCE, Days, first_days
from scripts.demo_targets import INCREMENTAL, PLAIN
from scripts.lake import Lake, create_events_table, day_of_events
from scripts.loopback import HOST, free_port
from scripts.spark_jars import JarsUnavailableError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from scripts.components import Parts

ROWS: Final = 10_000
DOWNLOADS: Final = "db.downloads"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=PORT, help=f"of the web server (default: {PORT}; 0: a free one)")
    parser.add_argument("--for-seconds", type=float, help="stop by itself this long after it is ready")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the state is")
    arguments = parser.parse_args()
    stop_by_signal()
    try:
        _serve(arguments.folder.resolve(), port=arguments.port or free_port(), for_seconds=arguments.for_seconds)
    except (ComponentsFailedError, JarsUnavailableError) as error:
        print(f"ui: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    print("Stopped.")
    return 0


def _serve(folder: Path, *, port: int, for_seconds: float | None) -> None:
    if pid := holder(folder):
        raise ComponentsFailedError(f"process {pid} (make ui or make demo) uses {folder} already; stop that one first")
    _require_free(port)
    with held(folder):
        lake = Lake.on_sqlite(folder / "lake")
        # As the demo has it: what is run here can be compared with the runs of the demo.
        deployment = Deployment.of(folder, lake.environment(brief_jobs=False), port=port)
        deployment.write()
        print("Airflow is starting; this takes about half a minute.", flush=True)
        migration = deployment.begin(*MIGRATE)
        _make_tables(folder, lake.catalog())
        deployment.finish(migration, MIGRATE)
        with running(deployment) as parts:
            parts.wait_until_ready()
            print(_welcome(deployment), flush=True)
            _watch(parts, for_seconds)


def _require_free(port: int) -> None:
    """Say which option helps, before anything is started."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does, right after another one
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ComponentsFailedError(
                f"port {port} of {HOST} cannot be used ({error.strerror}); name another one: make ui PORT={port + 1}"
            ) from None


def _make_tables(folder: Path, catalog: Catalog) -> None:
    """Give the example DAGs something to read; tables of the demo stay as they are."""
    today = datetime.now(UTC).date()
    if Days.read(folder) is None:
        if catalog.namespace_exists("db") and catalog.table_exists(SOURCE):
            raise ComponentsFailedError(
                f"{folder} has tables of a demo that was stopped early, or of an earlier release: run `make demo` again"
            )
        _, days = first_days(catalog, Days.ending(today, days=0, rows=ROWS, seed=7))
        days.write(folder)
    if not catalog.table_exists(DOWNLOADS):
        days_before = Days.ending(today, days=0, rows=ROWS, seed=1)
        downloads = create_events_table(catalog, DOWNLOADS)
        for number in range(DAYS_BEFORE):
            downloads.append(day_of_events(days_before.day(number), rows=ROWS, seed=1, earliest=days_before.day(0)))


def _welcome(deployment: Deployment) -> str:
    user, password = deployment.login
    dag = f"{deployment.url}/dags/{INCREMENTAL}"
    return f"""
  {deployment.url}
  login {user} / {password}

Three things to try:
  1. {dag}
     Trigger, Options, tick "Dry run": the log of `capture` says what a run would read, and nothing is changed.
  2. make day                (in another terminal) lets a day arrive, with late rows; then trigger
     {INCREMENTAL} and {PLAIN}, and compare how long they take.
  3. make shell              opens a shell for `airflow ips show --consumer {INCREMENTAL}.capture`,
     `airflow ips history --consumer {INCREMENTAL}.capture`, and `airflow dags test` for paused DAGs.

Examples tagged `demo` work on the tables that are here; those tagged `needs-setup` need another table or program.
Ctrl-C stops it."""


def _watch(parts: Parts, for_seconds: float | None) -> None:
    deadline = None if for_seconds is None else time.monotonic() + for_seconds
    while deadline is None or time.monotonic() < deadline:
        parts.require_alive()
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
