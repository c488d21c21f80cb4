"""An Airflow per lake: one for all tests on SQLite, and one of its own for the test on PostgreSQL."""

import pytest

from scripts.lake import Lake
from tests.kit.example_world import make_sources, world_of
from tests.kit.postgres import postgres_server

PASSWORD = "p@ss w/rd"  # noqa: S105 - of a server that lives as long as its test; it has to survive three configurations


@pytest.fixture(scope="session")
def sqlite_world(tmp_path_factory):
    """Three days in two sources, in a catalog that Spark and PyIceberg share on SQLite."""
    folder = tmp_path_factory.mktemp("sqlite")
    with world_of(Lake.on_sqlite(folder / "lake"), folder / "airflow") as world:
        make_sources(world)
        yield world


@pytest.fixture
def postgres_world(tmp_path):
    """The same with the catalog on a PostgreSQL server that asks for a password."""
    with postgres_server(password=PASSWORD) as address:
        lake = Lake.on_postgres(tmp_path / "lake", address=address, user="postgres", password=PASSWORD)
        with world_of(lake, tmp_path / "airflow") as world:
            make_sources(world)
            yield world
