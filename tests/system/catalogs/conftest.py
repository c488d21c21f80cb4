"""Every server is started once, and at once where it can be: mark users with ``xdist_group("catalogs")``."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.kit import lakes, servers
from tests.kit.airflow import airflow_database, run_dag
from tests.kit.postgres import postgres_server
from tests.kit.spark_process import spark as started_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.spark_process import Spark

__all__ = ["airflow_database", "run_dag"]

PASSWORD = "postgres-secret-4711"  # noqa: S105 - of a server that lives for two minutes
_numbers = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def _plain_s3_requests() -> Iterator[None]:
    """S3Proxy, like other servers that are not Amazon's, refuses the checksums that newer clients append to a body."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


@pytest.fixture(scope="session")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Storage]:
    """S3."""
    with servers.s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="session")
def nessie(storage: servers.Storage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an Iceberg REST catalog."""
    with servers.nessie_server(tmp_path_factory.mktemp("nessie"), storage) as address:
        yield address


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """``host:port/database``."""
    with postgres_server(password=PASSWORD) as address:
        yield address


@pytest.fixture(scope="session")
def all_lakes(
    storage: servers.Storage, nessie: str, postgres: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, lakes.Lake]]:
    """Every kind, with one Spark for all."""
    kinds = {
        "sqlite": lakes.on_sqlite(tmp_path_factory.mktemp("sqlite")),
        "postgres": lakes.on_postgres(postgres, PASSWORD, storage),
        "nessie": lakes.on_nessie(nessie, storage),
    }
    folder = tmp_path_factory.mktemp("spark")
    with started_spark(folder, {name: for_spark for name, (_, for_spark) in kinds.items()}) as engine:
        yield {name: _lake(name, properties, engine) for name, (properties, _) in kinds.items()}


def _lake(name: str, properties: dict[str, str], engine: Spark) -> lakes.Lake:
    catalog = lakes.opened(name, properties)
    return lakes.Lake(name=name, catalog=catalog, spark=engine, keeps_history=name != "nessie")


@pytest.fixture(params=["sqlite", "postgres", "nessie"])
def lake(request: pytest.FixtureRequest, all_lakes: dict[str, lakes.Lake]) -> lakes.Lake:
    """Each kind in turn."""
    return all_lakes[request.param]


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test uses."""
    return f"test{next(_numbers)}"


@pytest.fixture
def source(lake: lakes.Lake, namespace: str) -> lakes.Source:
    """A table of the test's own, in each kind of catalog."""
    return lake.source(namespace)
