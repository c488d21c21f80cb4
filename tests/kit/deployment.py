"""Airflow as a deployment runs it: PostgreSQL, and its four parts as processes of their own on 127.0.0.1.

``with deployed(folder, dags=…) as airflow`` starts all of it, waits until each part says that it is well, and stops
every process it knows of. ``airflow.kill("scheduler")`` is SIGKILL to it and all that it started; ``airflow.start``
brings it back.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from scripts import local_airflow
from scripts.local_airflow import PARTS, start_part
from scripts.loopback import HOST, free_port
from tests.kit.deployed_lake import Lake
from tests.kit.postgres import postgres_server
from tests.kit.rest import Rest, until

USER, PASSWORD = "admin", "only for this test"
DATABASE_PASSWORD = "postgres"  # noqa: S105 - on a socket that only this machine reaches
SECONDS_TO_START = 180
SECONDS_TO_STOP = 8
QUICK = {
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
    # A scheduler that was killed is noticed, and its tasks are taken over, after so many seconds instead of minutes.
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "8",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "3",
    # Likewise a task whose supervisor was killed.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "12",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "4",
    "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "2",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
    # One worker of the API server, for two cores.
    "AIRFLOW__API__WORKERS": "1",
    "AIRFLOW__CORE__PARALLELISM": "6",
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "AIRFLOW__API__MAXIMUM_PAGE_LIMIT": "1000",
}
PRELOAD = """
# Tasks are forked from the scheduler: what it has imported, none of them pays for again.
import pyarrow.parquet, pyiceberg.catalog.sql, pyiceberg.io.pyarrow
import airflow_provider_ips.operators.preload
"""


@dataclass
class Deployment:
    """The running parts, where they are, and what they say. Any process may use it: what runs is noted in files."""

    folder: Path
    environment: dict[str, str]
    url: str
    lakes: dict[str, Lake]
    rest: Rest

    def start(self, *names):
        """Start parts that are not running, and wait until they say that they are well."""
        for name in names:
            process = start_part(
                name, environment=self.environment, folder=self.folder, log=self.folder / f"{name}.log"
            )
            with (self.folder / f"{name}.pids").open("a") as pids:
                pids.write(f"{process.pid}\n")
        until(lambda: self._are_well(names), seconds=SECONDS_TO_START, what=f"{names} to be well")

    def address(self):
        """All that another process needs to know to use the same deployment."""
        return {
            "folder": str(self.folder),
            "environment": self.environment,
            "url": self.url,
            "headers": self.rest.headers,
            "lakes": {name: lake.uri for name, lake in self.lakes.items()},
        }

    @classmethod
    def at(cls, address):
        """Use a deployment that another process has started, and will stop."""
        folder = Path(address["folder"])
        return cls(
            folder=folder,
            environment=address["environment"],
            url=address["url"],
            lakes={name: Lake(name=name, uri=uri, warehouse=folder / name) for name, uri in address["lakes"].items()},
            rest=Rest(address["url"], headers=address["headers"]),
        )

    def kill(self, name):
        """SIGKILL a part and everything it started, as when a machine loses power."""
        family = self.family(name)
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        until(lambda: not any(map(is_alive, family)), seconds=SECONDS_TO_STOP, what=f"{name} to die")

    def family(self, name):
        """A part's process and all that it started, known before anything dies."""
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(self._pids(name)[-1])
            return [root, *root.children(recursive=True)]
        return []

    def stop(self):
        """Ask, wait, then insist, on every process that belongs to this deployment."""
        for name in self._started():
            for root in self.family(name)[:1]:
                with suppress(psutil.NoSuchProcess):
                    root.terminate()
        with suppress(AssertionError):
            until(lambda: not self._members(), seconds=SECONDS_TO_STOP)
        for process in self._members():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        until(lambda: not self._members(), seconds=SECONDS_TO_STOP, what=f"the processes of {self.folder} to end")

    def _members(self):
        """All processes that belong here: their folder or their environment says so.

        Workers write their title over the environment, and jobs of a cluster may leave the folder.
        """
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.pid != os.getpid() and is_alive(process) and self._owns(process):
                    found.append(process)
        return found

    def _owns(self, process):
        if Path(process.cwd()).is_relative_to(self.folder):
            return True
        return process.environ().get("AIRFLOW_HOME") == self.environment["AIRFLOW_HOME"]

    def _started(self):
        return [path.stem for path in self.folder.glob("*.pids")]

    def _pids(self, name):
        return [int(line) for line in (self.folder / f"{name}.pids").read_text().split()]

    def run(self, *command, timeout=120):
        """Run an ``airflow`` command in this deployment and return what it printed."""
        answer = subprocess.run(
            [sys.executable, "-m", "airflow", *command],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert answer.returncode == 0, f"airflow {' '.join(command)}: {answer.stdout[-3000:]}{answer.stderr[-3000:]}"
        return answer.stdout

    def _are_well(self, names):
        for name in names:
            assert self.family(name), f"{name} has ended; see {self.folder / name}.log"
        health = self.rest.health()
        wanted = ["metadatabase", *(name.replace("-", "_") for name in names if name != "api-server")]
        return all((health.get(part) or {}).get("status") == "healthy" for part in wanted)


@contextmanager
def deployed(folder, *, dags, lakes=("lake",), settings=None, postgres=None, preload=PRELOAD):
    """Start everything in ``folder``, whose logs stay there; DAG files come from ``dags``.

    There is one catalog, in a database of its own, for each name in ``lakes``, and an Airflow connection of that name.
    ``postgres`` is the address of a server with :data:`DATABASE_PASSWORD`; by default one is started. ``preload`` is
    Python that every part runs when it starts.
    """
    with nullcontext(postgres) if postgres else postgres_server(password=DATABASE_PASSWORD) as server:
        for database in ("airflow", *lakes):
            _create_database(server, database)
        deployment = _prepare(Path(folder), Path(dags), server.rpartition("/")[0], lakes, settings or {}, preload)
        deployment.run("db", "migrate", timeout=SECONDS_TO_START)
        try:
            deployment.start(*PARTS)
            deployment.rest.log_in(USER, PASSWORD)
            yield deployment
        finally:
            deployment.stop()


def _prepare(folder, dags, server, lakes, settings, preload):
    port = free_port()
    url = f"http://{HOST}:{port}"
    home = folder / "airflow"
    for part in (home / "logs", home / "config", folder / "control"):
        part.mkdir(parents=True)
    (home / "config" / "airflow_local_settings.py").write_text(preload)
    (home / "passwords.json").write_text(json.dumps({USER: PASSWORD}))
    database = f"postgresql+psycopg2://postgres:{DATABASE_PASSWORD}@{server}"
    environment = {
        **local_airflow.environment(home, dags=dags),
        **QUICK,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"{database}/airflow",
        **local_airflow.serving(home, port=port, user=USER),
        # The parts talk to each other: never by way of a proxy.
        "NO_PROXY": HOST,
        "no_proxy": HOST,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "IPS_CONTROL": str(folder / "control"),
        **settings,
    }
    opened = {name: Lake(name=name, uri=f"{database}/{name}", warehouse=folder / name) for name in lakes}
    environment |= {f"AIRFLOW_CONN_{name.upper()}": lake.connection() for name, lake in opened.items()}
    return Deployment(folder=folder, environment=environment, url=url, lakes=opened, rest=Rest(url))


def _create_database(server, name):
    from sqlalchemy import create_engine, text

    engine = create_engine(f"postgresql+psycopg2://postgres:{DATABASE_PASSWORD}@{server}", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()


def is_alive(process):
    """A process that nobody has waited for yet is dead all the same."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
