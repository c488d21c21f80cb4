"""Airflow with the example DAGs and the demo's tables, on 127.0.0.1 and nowhere else.

Four processes as a deployment would run them; Ctrl-C stops all of them. State is in `.demo/`, as `make demo` left it;
if there is none, the tables are made first.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from scripts import local_airflow
from scripts.lake import DAYS_ROWS_ARE_LATE, Lake, create_events_table, day_of_events
from scripts.loopback import HOST, free_port
from scripts.spark_jars import JarsUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER = Path(__file__).resolve().parent.parent / ".demo"
SOURCES = ("db.playback", "db.downloads")
SECONDS_TO_START = 180
SECONDS_TO_STOP = 20


class UiFailedError(Exception):
    """Airflow did not come up, or did not stay up."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="of the web server; default: a free one")
    parser.add_argument("--for-seconds", type=float, help="stop by itself this long after it is ready")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the state is")
    arguments = parser.parse_args()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _as_interrupt)
    # The parts talk to each other, and this one to them: never by way of a proxy.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(
        filter(None, (os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), HOST))
    )
    try:
        _serve(arguments.folder.resolve(), port=arguments.port or free_port(), for_seconds=arguments.for_seconds)
    except (UiFailedError, JarsUnavailableError) as error:
        print(f"ui: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    print("Stopped.")
    return 0


def running_pid(folder: Path) -> int | None:
    """Return the process that shows this folder's tables, if one does."""
    with suppress(OSError, ValueError):
        pid = int((folder / "ui.pid").read_text())
        if psutil.pid_exists(pid) and "ui.py" in " ".join(psutil.Process(pid).cmdline()):
            return pid
    return None


def _serve(folder: Path, *, port: int, for_seconds: float | None) -> None:
    if pid := running_pid(folder):
        raise UiFailedError(f"it runs already (process {pid}); stop that one first")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ui.pid").write_text(str(os.getpid()))
    try:
        lake = Lake.on_sqlite(folder / "lake")
        _make_tables(lake)
        settings = _settings(folder, lake, port)
        print("Airflow is starting; this takes about half a minute.", flush=True)
        _run([sys.executable, "-m", "airflow", "db", "migrate"], settings, folder / "setup.log")
        with _components(settings, folder) as processes:
            _wait_until_ready(processes, port, folder)
            print(f"\n  http://{HOST}:{port}\n  login {_login(folder)}\n\nCtrl-C stops it.", flush=True)
            _watch(processes, folder, for_seconds)
    finally:
        (folder / "ui.pid").unlink(missing_ok=True)


def _make_tables(lake: Lake) -> None:
    """Give every example DAG something to read; tables of the demo stay as they are."""
    catalog = lake.catalog()
    today = datetime.now(UTC).date()
    for seed, name in enumerate(SOURCES):
        if catalog.table_exists(name):
            continue
        table = create_events_table(catalog, name)
        for days_before in range(DAYS_ROWS_ARE_LATE, -1, -1):
            table.append(day_of_events(today - timedelta(days=days_before), rows=10_000, seed=seed))


def _settings(folder: Path, lake: Lake, port: int) -> dict[str, str]:
    home = folder / "airflow"
    return {
        **local_airflow.environment(home),
        **lake.environment(),
        **local_airflow.serving(home, port=port),
        # Each task may bring a Spark of its own.
        "AIRFLOW__CORE__PARALLELISM": "2",
    }


@contextmanager
def _components(settings: Mapping[str, str], folder: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Start the four parts, and stop them with everything that they have started."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in local_airflow.PARTS:
            log = _log(folder, name)
            log.unlink(missing_ok=True)
            processes[name] = local_airflow.start_part(name, environment=settings, folder=folder, log=log)
        yield processes
    finally:
        _stop(processes)


def _stop(processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Ask, wait, then insist. Descendants are noted first: an orphan cannot be found by its parent any more."""
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)  # an impatient second Ctrl-C would leave the rest running
    roots = []
    for process in processes.values():
        with suppress(psutil.NoSuchProcess):
            roots.append(psutil.Process(process.pid))
    family = list(roots)
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            family.extend(root.children(recursive=True))
    for process in processes.values():
        if process.poll() is None:
            process.terminate()
    _, alive = psutil.wait_procs(family, timeout=SECONDS_TO_STOP)
    for survivor in alive:
        with suppress(psutil.NoSuchProcess):
            survivor.kill()
    psutil.wait_procs(alive, timeout=SECONDS_TO_STOP)


def _wait_until_ready(processes: Mapping[str, subprocess.Popen[bytes]], port: int, folder: Path) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        _require_alive(processes, folder)
        with suppress(OSError, ValueError, urllib.error.URLError):
            with urllib.request.urlopen(f"http://{HOST}:{port}/api/v2/monitor/health", timeout=5) as answer:
                health = json.load(answer)
            parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
            if all((health.get(part) or {}).get("status") == "healthy" for part in parts):
                return
        time.sleep(0.5)
    raise UiFailedError(f"not all parts were healthy within {SECONDS_TO_START} s; see the logs in {folder}")


def _watch(processes: Mapping[str, subprocess.Popen[bytes]], folder: Path, for_seconds: float | None) -> None:
    deadline = None if for_seconds is None else time.monotonic() + for_seconds
    while deadline is None or time.monotonic() < deadline:
        _require_alive(processes, folder)
        time.sleep(0.5)


def _require_alive(processes: Mapping[str, subprocess.Popen[bytes]], folder: Path) -> None:
    for name, process in processes.items():
        if process.poll() is not None:
            raise UiFailedError(f"{name} ended with exit code {process.returncode}; see {_log(folder, name)}")


def _login(folder: Path) -> str:
    return " / ".join(next(iter(json.loads(_passwords(folder).read_text()).items())))


def _passwords(folder: Path) -> Path:
    return folder / "airflow" / "passwords.json"


def _log(folder: Path, name: str) -> Path:
    return folder / f"ui-{name}.log"


def _run(command: list[str], settings: Mapping[str, str], log: Path) -> None:
    with log.open("ab") as output:
        result = subprocess.run(command, env=dict(settings), stdout=output, stderr=subprocess.STDOUT, check=False)
    if result.returncode:
        raise UiFailedError(f"`{' '.join(command[2:])}` failed; see {log}")


def _as_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
