"""What holds for every test."""

import sqlite3
from importlib.metadata import version

import pytest
from packaging.version import Version
from sqlalchemy import event
from sqlalchemy.engine import Engine


@event.listens_for(Engine, "connect")
def _do_not_wait_for_the_disk(connection, _record):
    """A test's database need not survive a power failure. Else every commit of Airflow and PyIceberg waits 5 ms."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


def pytest_collection_modifyitems(items):
    """Leave out what this Airflow is too old or too new for. The marker says what the test is about."""
    airflow = version("apache-airflow-core")
    other = "needs_airflow_below_3_3" if Version(airflow).release >= (3, 3) else "needs_airflow_3_3"
    for item in items:
        if (marker := item.get_closest_marker(other)) is not None:
            item.add_marker(pytest.mark.skip(reason=f"Airflow {airflow}: {marker.args[0]}"))
