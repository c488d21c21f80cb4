"""An Airflow with the OpenLineage provider, in the environment that `make test-lineage` builds, and a receiver."""

import json
import os
import subprocess
import sys

import pytest

from tests.kit.airflow import HOME, airflow_database, events, lake, run_dag
from tests.kit.pages import ROOT

__all__ = ["airflow_database", "events", "lake", "run_dag"]

RECEIVED = HOME / "received.jsonl"


# Its listener is made when Airflow is imported, so the receiver stands before that, and until this process ends.
_receiver = subprocess.Popen(
    [sys.executable, "-m", "tests.system.lineage.receiver", str(RECEIVED)],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
    cwd=ROOT,
)
assert _receiver.stdout is not None
PORT = int(_receiver.stdout.readline())
os.environ["AIRFLOW__OPENLINEAGE__TRANSPORT"] = json.dumps({"type": "http", "url": f"http://127.0.0.1:{PORT}"})
os.environ["AIRFLOW__OPENLINEAGE__NAMESPACE"] = "airflow"


def end_processes():
    """End the listener's processes for events of DAG runs: they were forked from this one, with all of its pipes.

    They would keep each other from ending, and every server that ends when the last writer of a pipe does.
    """
    from airflow.providers.openlineage.plugins.listener import get_openlineage_listener

    listener = get_openlineage_listener()
    if listener._executor is not None:
        listener._executor.shutdown(wait=False, cancel_futures=True)
        for process in list((listener._executor._processes or {}).values()):
            process.terminate()
        listener._executor = None  # the next event starts others


@pytest.fixture(scope="session", autouse=True)
def _listener_ends():
    yield
    end_processes()


@pytest.fixture
def received():
    """Give the events that have arrived since the test began."""
    RECEIVED.write_bytes(b"")
    return lambda: [json.loads(line) for line in RECEIVED.read_text().splitlines()]
