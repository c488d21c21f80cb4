"""An Airflow of its own in one folder, on SQLite, that knows the example DAGs and nothing of the one you may have.

Import no Airflow before `enter`: it reads its configuration once, at import.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from scripts.loopback import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

EXAMPLES = Path(__file__).resolve().parent.parent / "dags_examples"
PARTS: Final = {
    "api-server": ("api-server", "--host", HOST),
    # Their log servers would listen on all interfaces; here every log is a file that the API server can read.
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
"""What a deployment consists of, each part a command of `airflow`."""
NOTHING: Final[Mapping[str, Callable[[], object]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run of a DAG that is over: how it ended, and how long each task took."""

    dag_id: str
    run_id: str
    state: str
    task_states: Mapping[str, str]
    task_seconds: Mapping[str, float]


def environment(home: Path, *, dags: Path = EXAMPLES) -> dict[str, str]:
    """Return the environment of every Airflow process: what the caller's says about another Airflow is left out."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")}
    return {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        # Parts that are started one by one share these only if they are told.
        "AIRFLOW__API_AUTH__JWT_SECRET": _secret(home, "jwt_secret"),
        "AIRFLOW__API__SECRET_KEY": _secret(home, "secret_key"),
        # Examples are worth looking at, not to be run by a clock the moment they are seen.
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        # The demo asks for no newer version of Airflow, and tells nobody that it ran.
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }


def serving(home: Path, *, port: int, user: str = "admin") -> dict[str, str]:
    """Return what the environment of parts that run side by side has in addition, with the API server on this port.

    Logins are in `passwords.json` of the home; Airflow writes a random one there for a user who has none.
    """
    address = f"http://{HOST}:{port}"
    return {
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": address,
        "AIRFLOW__API__DEFAULT_WRAP": "True",  # an error's remedy is the end of its line
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{user}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    }


def start_part(
    name: str, *arguments: str, environment: Mapping[str, str], folder: Path, log: Path
) -> subprocess.Popen[bytes]:
    """Start a part of a deployment; what it says is added to the log."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "airflow", *PARTS[name], *arguments],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A session of its own: Ctrl-C in the terminal is for whoever started the parts, and stops them in order.
            start_new_session=True,
        )


def enter(settings: Mapping[str, str]) -> None:
    """Make this process one of that Airflow, with its database ready."""
    os.environ.update(settings)
    for key in set(os.environ) - set(settings):
        if key.startswith("AIRFLOW"):
            del os.environ[key]
    from airflow.utils.db import initdb

    initdb()


def run(
    dag_id: str,
    logical_date: datetime,
    *,
    dags: Path = EXAMPLES,
    conf: Mapping[str, Any] | None = None,
    after: Mapping[str, Callable[[], object]] = NOTHING,
) -> Finished:
    """Run a DAG to its end in this process, by Airflow's own `dag.test()`.

    `after` says what happens, by task, when it has done its work; an error there fails the task.
    """
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=dags, bundle_name="dags-folder")
    if dag_id not in bag.dags:
        raise LookupError(f"no DAG {dag_id!r} in {dags}; there are {sorted(bag.dags)}, and errors: {bag.import_errors}")
    dag = bag.dags[dag_id]
    for task_id, happens in after.items():
        # As the argument post_execute= does.
        dag.task_dict[task_id]._post_execute_hook = _calling(happens)  # type: ignore[union-attr]  # noqa: SLF001
    # What makes a run this run: with both given, the same day again is the same run, cleared.
    finished = dag.test(
        logical_date=logical_date, run_after=logical_date, run_conf=None if conf is None else dict(conf)
    )
    tasks = finished.get_task_instances()
    return Finished(
        dag_id=dag_id,
        run_id=finished.run_id,
        state=str(finished.state),
        task_states={task.task_id: str(task.state) for task in tasks},
        task_seconds={task.task_id: task.duration or 0.0 for task in tasks},
    )


def xcom(finished: Finished, task_id: str, key: str) -> Any:  # noqa: ANN401 - whatever was pushed
    """Read what a task of a finished run has pushed."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        query = XComModel.get_many(run_id=finished.run_id, key=key, task_ids=task_id, dag_ids=finished.dag_id)
        row = session.scalars(query).one_or_none()
        return None if row is None else XComModel.deserialize_value(row)


def _calling(happens: Callable[[], object]) -> Callable[..., None]:
    """What happens, in the form of a hook."""

    def hook(context: object, result: object) -> None:  # noqa: ARG001 - handed to every hook
        happens()

    return hook


def _secret(home: Path, name: str) -> str:
    """Make a secret once, and keep it where the database is that it protects."""
    path = home / name
    if not path.exists():
        home.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(32))
    return path.read_text()
