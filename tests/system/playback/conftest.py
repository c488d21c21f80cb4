"""A lake and an Airflow per file of tests: files run side by side, and no test sees the tables of another file."""

from pathlib import Path

import pytest

from scripts.lake import Lake
from tests.kit.example_world import world_of

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """An empty lake on SQLite, shared by Spark and PyIceberg. Each test makes the sources that it needs."""
    folder = tmp_path_factory.mktemp("playback")
    with world_of(Lake.on_sqlite(folder / "lake"), folder / "airflow") as made:
        yield made


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """Keep the tests of a file on one worker, where they share one Airflow; files go to different ones."""
    for item in (each for each in items if each.path.parent == HERE):
        item.add_marker(pytest.mark.spark)
        item.add_marker(pytest.mark.timeout(600))
        item.add_marker(pytest.mark.xdist_group(item.path.stem))
