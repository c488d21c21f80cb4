"""A real Airflow on a SQLite file of its own, a real Iceberg catalog per test, and DAGs run by ``dag.test()``.

The environment must stand before Airflow is imported for the first time, so it is set while this file is. Every xdist
worker is a process and so has its own.
"""

import atexit
import json
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

HOME = Path(tempfile.mkdtemp(prefix="ips-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)


def _set_environment():
    if "airflow" in sys.modules:
        raise RuntimeError("airflow was imported before its test environment was set; import it within functions only")
    (HOME / "dags").mkdir()
    os.environ.update(
        {
            "AIRFLOW_HOME": str(HOME),
            "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(HOME / "logs"),
        }
    )


_set_environment()


@pytest.fixture(scope="session")
def airflow_database():
    """Airflow's own database, made once."""
    from airflow.sdk.execution_time import supervisor
    from airflow.utils.db import initdb

    initdb()
    # Airflow 3.2 makes an API server for each task of dag.test(), in more than a second. Later versions keep theirs.
    supervisor.in_process_api_server = cache(supervisor.in_process_api_server)


@dataclass
class Ran:
    """What one run of a DAG left behind."""

    dag_run: object
    states: dict[str, str | None]
    xcoms: dict[tuple[str, str], object] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)

    def xcom(self, key, task="capture", map_index=-1):
        """The value of one XCom; None where there is none."""
        return self.xcoms.get((task, key) if map_index < 0 else (f"{task}[{map_index}]", key))


@pytest.fixture
def run_dag(airflow_database):
    """Run a DAG, as ``dag.test()`` does: ``run_dag(dag)``; with the same ``at`` it is the same run, cleared."""

    def run(dag, *, at=None, run_after=None, conf=None):
        at = at or datetime.now(tz=UTC)
        with noting_errors(dag) as errors:
            sync(dag)
            ran = collect(dag.test(logical_date=at, run_after=run_after or at, run_conf=conf))
        ran.errors.update(errors)
        return ran

    yield run
    _forget_checkpoints()


def _forget_checkpoints():
    """Leave none to a test whose DAG happens to have the same name: all tests of a worker share one database."""
    from airflow.models.variable import Variable as StoredVariable
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    with create_session() as session:
        session.execute(delete(StoredVariable).where(StoredVariable.key.startswith("ips_", autoescape=True)))


@contextmanager
def noting_errors(dag):
    """Keep what tasks fail with: Airflow tells it to callbacks, and to the log."""
    errors: dict[str, BaseException] = {}

    def note(context):
        if "exception" in context:
            errors[context["ti"].task_id] = context["exception"]

    for task in dag.tasks:
        if isinstance(getattr(task, "partial_kwargs", None), dict):
            task.partial_kwargs["on_failure_callback"] = [note]
        else:
            task.on_failure_callback = [*(task.on_failure_callback or ()), note]
    with _listening_for(errors):
        yield errors


@contextmanager
def _listening_for(errors):
    """Note errors on Airflow 3.2, too, where ``dag.test()`` passes them to listeners only."""
    if Version(version("apache-airflow-core")).release >= (3, 3):
        yield
        return
    from airflow.listeners import hookimpl
    from airflow.sdk.listener import get_listener_manager

    class Listener:
        @hookimpl
        def on_task_instance_failed(self, task_instance, error):
            errors[task_instance.task_id] = error

    listener = Listener()
    get_listener_manager().add_listener(listener)
    try:
        yield
    finally:
        get_listener_manager().pm.unregister(listener)


def sync(dag):
    """Make a DAG that lives in a test known to Airflow, as its DAG processor would."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    with create_session() as session:
        session.merge(DagBundleModel(name="tests"))
    lazy = LazyDeserializedDAG.from_dag(dag)
    SerializedDAG.bulk_write_to_db("tests", None, [lazy])
    SerializedDagModel.write_dag(lazy, bundle_name="tests")


def collect(dag_run):
    """Read states and XComs of a finished run from Airflow's database."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    def label(row):
        return row.task_id if row.map_index < 0 else f"{row.task_id}[{row.map_index}]"

    states = {label(ti): ti.state for ti in dag_run.get_task_instances()}
    with create_session() as session:
        rows = session.scalars(
            select(XComModel).where(XComModel.dag_id == dag_run.dag_id, XComModel.run_id == dag_run.run_id)
        )
        xcoms = {(label(row), row.key): XComModel.deserialize_value(row) for row in rows}
    return Ran(dag_run=dag_run, states=states, xcoms=xcoms)


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """A SQL catalog on SQLite, and the Airflow connection ``lake`` that leads to it."""
    from pyiceberg.catalog import load_catalog

    from scripts.local_spark import sqlite_properties

    (tmp_path / "warehouse").mkdir()
    properties = sqlite_properties(tmp_path)
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": properties}))
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def events(lake):
    """A source of three rows in one snapshot."""
    from tests.kit.tables import append, create

    table = create(lake, "db.events")
    append(table, [1, 2, 3])
    return table


@pytest.fixture
def job(lake):
    """What stands for the Spark job, and notes what it read."""
    from tests.kit.pipelines import Job

    return Job(lake)
