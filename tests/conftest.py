"""What holds for every test."""

import gc
import sqlite3
from importlib.metadata import version
from importlib.util import find_spec

import pytest
from packaging.version import Version
from sqlalchemy import event
from sqlalchemy.engine import Engine

# A worker holds a million objects of Airflow and PyIceberg: to look through them as often as by default is a tenth of
# its time.
gc.set_threshold(100_000, 20, 50)

if find_spec("hypothesis"):  # environments of cookbook, lineage and dbt do without it
    import hypothesis

    # A busy machine needs more than the 200 ms that it grants an example, and how long one takes proves nothing.
    hypothesis.settings.register_profile("untimed", deadline=None)
    hypothesis.settings.load_profile("untimed")


@event.listens_for(Engine, "connect")
def _do_not_wait_for_the_disk(connection, _record):
    """A test's database need not survive a power failure. Else every commit of Airflow and PyIceberg waits 5 ms."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


def pytest_collection_modifyitems(config, items):
    """Leave out what is about an older Airflow; on an older one, say what it lacks for a test."""
    airflow = version("apache-airflow-core")
    if Version(airflow).release >= (3, 3):
        left_out = [item for item in items if item.get_closest_marker("needs_airflow_below_3_3")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
        return
    for item in items:
        if (marker := item.get_closest_marker("needs_airflow_3_3")) is not None:
            item.add_marker(pytest.mark.skip(reason=f"Airflow {airflow} lacks this: {marker.args[0]}"))
