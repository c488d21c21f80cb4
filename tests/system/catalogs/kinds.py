"""Every catalog and storage of the story: how it is started, and by which properties PyIceberg opens it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from scripts.local_spark import sqlite_properties
from tests.kit import catalog_servers, object_stores, servers
from tests.kit.lakes import on_nessie, on_postgres, opened
from tests.kit.meddler import When, meddler
from tests.kit.postgres import postgres_server
from tests.kit.wire import Cutter, cutter
from tests.system.catalogs.story import Kind, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

PASSWORD: Final = "postgres-secret-4711"  # noqa: S105 - of a server that lives for minutes
ARROW: Final = "pyiceberg.io.pyarrow.PyArrowFileIO"
FSSPEC: Final = "pyiceberg.io.fsspec.FsspecFileIO"
GCS: Final = f"GCS (fake-gcs-server {object_stores.FAKE_GCS.removeprefix('v')})"
AZURE: Final = f"Azure (azurite {object_stores.AZURITE})"


@contextlib.contextmanager
def sqlite(folder: Path) -> Iterator[Kind]:
    """Names and files in one folder."""
    properties = sqlite_properties(folder)

    @contextlib.contextmanager
    def read_only() -> Iterator[dict[str, str]]:
        yield {
            **properties,
            "uri": f"sqlite:///file:{folder}/catalog.db?mode=ro&uri=true",
            "init_catalog_tables": "false",
        }

    yield Kind(name="sqlite", label="SQLite, files in a folder", properties=properties, refusing=read_only)


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[Kind]:
    """Names in PostgreSQL, files in S3."""
    with _s3(folder) as storage, postgres_server(password=PASSWORD) as address:
        host, _, database = address.partition("/")
        with cutter(host) as wire:
            properties = on_postgres(f"{wire.address}/{database}", PASSWORD, storage)[0]
            opened("lake", properties)

            @contextlib.contextmanager
            def reader() -> Iterator[dict[str, str]]:
                _give_to_a_reader(address)
                uri = f"postgresql+psycopg2://reader:{PASSWORD}@{address}"
                yield {**properties, "uri": uri, "init_catalog_tables": "false"}

            yield Kind(
                name="postgres",
                label="PostgreSQL, files in S3",
                properties=properties,
                wire=Wire(cutter=wire, after=b"INSERT INTO iceberg_tables", at=b"COMMIT"),
                refusing=reader,
            )


def _give_to_a_reader(address: str) -> None:
    import psycopg2

    connection = psycopg2.connect(f"postgresql://postgres:{PASSWORD}@{address}")
    with connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
        cursor.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    connection.close()


@contextlib.contextmanager
def rest(folder: Path) -> Iterator[Kind]:
    """Iceberg's own adapter, files in S3."""
    with (
        _s3(folder) as storage,
        catalog_servers.rest_adapter(folder, storage) as address,
        _rest_kind(
            address,
            Kind(
                name="rest",
                label=f"REST adapter of Iceberg {catalog_servers.ICEBERG}, files in S3",
                properties=on_nessie(address, storage)[0],
            ),
        ) as kind,
    ):
        yield kind


@contextlib.contextmanager
def nessie(folder: Path) -> Iterator[Kind]:
    """Nessie, which shows the newest snapshot only."""
    with (
        _s3(folder) as storage,
        servers.nessie_server(folder, storage) as address,
        _rest_kind(
            address,
            Kind(
                name="nessie",
                label="Nessie 0.99 (REST), files in S3",
                properties=on_nessie(address, storage)[0],
                keeps_history=False,
            ),
        ) as kind,
    ):
        yield kind


@contextlib.contextmanager
def _rest_kind(address: str, kind: Kind) -> Iterator[Kind]:
    with _before(address) as (wire, through):

        @contextlib.contextmanager
        def forbidding() -> Iterator[dict[str, str]]:
            body = b'{"error": {"code": 403, "type": "ForbiddenException", "message": "not yours"}}'
            with meddler(address) as proxy, proxy.meddling("POST", "/register$", When.NEVER, status=403, body=body):
                yield {**kind.properties, "uri": proxy.address}

        yield replace(
            kind,
            properties={**kind.properties, "uri": through},
            wire=Wire(cutter=wire, after=b"/register ", at=b"metadata-location"),
            refusing=forbidding,
        )


@contextlib.contextmanager
def glue(folder: Path) -> Iterator[Kind]:
    """Glue, files in S3."""
    with (
        _s3(folder) as storage,
        catalog_servers.glue_service(folder) as address,
        _before(address) as (wire, through),
    ):
        properties: dict[str, Any] = {
            "type": "glue",
            "glue.endpoint": through,
            "glue.region": servers.REGION,
            "glue.access-key-id": storage.access_key,
            "glue.secret-access-key": storage.secret_key,
            "glue.max-retries": 3,
            "warehouse": f"s3://{servers.BUCKET}/of-glue",
            **storage.properties,
        }

        @contextlib.contextmanager
        def forbidding() -> Iterator[dict[str, str]]:
            with meddler(address) as proxy:
                proxy.guard = lambda _, headers: headers.get("X-Amz-Target") != "AWSGlue.CreateTable"
                yield {**properties, "glue.endpoint": proxy.address}

        yield Kind(
            name="glue",
            label=f"Glue (moto {catalog_servers.MOTO} with Glue's check of versions), files in S3",
            properties=properties,
            nests=False,
            wire=Wire(cutter=wire, after=b"AWSGlue.CreateTable", at=b"metadata_location"),
            refusing=forbidding,
        )


@contextlib.contextmanager
def hive(folder: Path) -> Iterator[Kind]:
    """Hive's metastore, files in a folder: without Hadoop's S3 it opens no other."""
    with catalog_servers.hive_metastore(folder) as host, cutter(host) as wire:
        warehouse = f"file://{folder}/warehouse"
        properties = {"type": "hive", "uri": f"thrift://{wire.address}", "warehouse": warehouse}

        @contextlib.contextmanager
        def read_only() -> Iterator[dict[str, str]]:
            switch = folder / "read-only"
            switch.touch()
            try:
                yield properties
            finally:
                switch.unlink()

        yield Kind(
            name="hive",
            label=f"Hive Metastore {catalog_servers.HIVE}, files in a folder",
            properties=properties,
            nests=False,
            warehouse=warehouse,
            wire=Wire(cutter=wire, after=b"create_table", at=b"metadata_location"),
            refusing=read_only,
        )


def _on_storage(
    name: str,
    label: str,
    location: str,
    start: Callable[[Path], AbstractContextManager[dict[str, str]]],
    io: str,
    **more: str,
) -> Callable[[Path], AbstractContextManager[Kind]]:
    @contextlib.contextmanager
    def kind(folder: Path) -> Iterator[Kind]:
        """Names in SQLite, files in an object store, by one of PyIceberg's two FileIOs."""
        with start(folder) as properties:
            yield Kind(
                name=name,
                label=f"{label}, {io.rpartition('.')[2]}",
                properties={
                    **sqlite_properties(folder),
                    "warehouse": f"{location}/{name}",
                    "py-io-impl": io,
                    **properties,
                    **more,
                },
                why_not_refusing="tried with SQLite, above",
            )

    return kind


@contextlib.contextmanager
def _s3_properties(folder: Path) -> Iterator[dict[str, str]]:
    with _s3(folder) as storage:
        yield storage.properties


def _s3(folder: Path) -> AbstractContextManager[servers.Storage]:
    place = folder / "s3"
    place.mkdir()
    return servers.s3_server(place)


@contextlib.contextmanager
def _before(address: str) -> Iterator[tuple[Cutter, str]]:
    """A proxy before an HTTP server, and the address through it."""
    parts = urlsplit(address)
    with cutter(parts.netloc) as wire:
        yield wire, parts._replace(netloc=wire.address).geturl()


# PyArrowFileIO takes all of "container@account" for the name of the container.
_CONTAINER: Final = f"abfss://{object_stores.BUCKET}"
_OF_ACCOUNT: Final = f"{_CONTAINER}@{object_stores.ACCOUNT}.dfs.core.windows.net"
_TOKEN: Final = {"gcs.oauth2.token": "gcs-secret-4711", "gcs.oauth2.token-expires-at": "4102444800000"}
_NO_TOKEN: Final = {"gcs.oauth2.token": "anon"}
"""gcsfs has Google check every other one."""

KINDS: Final[dict[str, Callable[[Path], AbstractContextManager[Kind]]]] = {
    "sqlite": sqlite,
    "postgres": postgres,
    "rest": rest,
    "nessie": nessie,
    "glue": glue,
    "hive": hive,
    "s3-pyarrow": _on_storage("s3-pyarrow", "S3 (S3Proxy)", "s3://lake", _s3_properties, ARROW),
    "s3-fsspec": _on_storage("s3-fsspec", "S3 (S3Proxy)", "s3://lake", _s3_properties, FSSPEC),
    "gcs-pyarrow": _on_storage("gcs-pyarrow", GCS, "gs://lake", object_stores.google_storage, ARROW, **_TOKEN),
    "gcs-fsspec": _on_storage("gcs-fsspec", GCS, "gs://lake", object_stores.google_storage, FSSPEC, **_NO_TOKEN),
    "azure-pyarrow": _on_storage("azure-pyarrow", AZURE, _CONTAINER, object_stores.azure_storage, ARROW),
    "azure-fsspec": _on_storage("azure-fsspec", AZURE, _OF_ACCOUNT, object_stores.azure_storage, FSSPEC),
}
