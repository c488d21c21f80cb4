"""Google's and Azure's storage on loopback: fake-gcs-server and azurite."""

from __future__ import annotations

import base64
import contextlib
import json
import urllib.request
from typing import TYPE_CHECKING, Final

from scripts.loopback import HOST, free_port
from tests.kit.packages import program_of_go, program_of_npm
from tests.kit.processes import server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FAKE_GCS: Final = "v1.56.1"
AZURITE: Final = "3.37.0"
ACCOUNT: Final = "ipstests"
ACCOUNT_KEY: Final = base64.b64encode(b"azure-secret-4711-of-a-server-that-lives-for-two-minutes").decode()
BUCKET: Final = "lake"


@contextlib.contextmanager
def google_storage(folder: Path) -> Iterator[dict[str, str]]:
    """A server with one bucket; gives the properties by which PyIceberg reaches it."""
    program = program_of_go("github.com/fsouza/fake-gcs-server", FAKE_GCS)
    port = free_port()
    address = f"http://{HOST}:{port}"
    options = (
        "-scheme",
        "http",
        "-host",
        HOST,
        "-port",
        str(port),
        "-backend",
        "memory",
        "-public-host",
        f"{HOST}:{port}",
    )
    with server(folder / "gcs.log", str(program), *options, "-external-url", address) as running:
        running.said("(server started)")
        _posts(f"{address}/storage/v1/b?project=tests", {"name": BUCKET})
        yield {"gcs.service.host": address, "gcs.project-id": "tests"}


@contextlib.contextmanager
def azure_storage(folder: Path) -> Iterator[dict[str, str]]:
    """A server with one container; gives the properties by which PyIceberg reaches it."""
    program = program_of_npm("azurite", AZURITE, "azurite-blob")
    port = free_port()
    options = ("--blobHost", HOST, "--blobPort", str(port), "--location", str(folder), "--skipApiVersionCheck")
    environment = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
    with server(folder / "azurite.log", str(program), *options, environment=_with(environment)) as running:
        running.said("(successfully listens)")
        endpoint = f"http://{HOST}:{port}/{ACCOUNT}"
        connection = (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};BlobEndpoint={endpoint};"
        )
        _make_container(connection)
        yield {
            "adls.account-name": ACCOUNT,
            "adls.account-key": ACCOUNT_KEY,
            "adls.connection-string": connection,
            "adls.blob-storage-authority": f"{HOST}:{port}",
            "adls.blob-storage-scheme": "http",
            "adls.dfs-storage-authority": f"{HOST}:{port}",
            "adls.dfs-storage-scheme": "http",
        }


def _with(environment: dict[str, str]) -> dict[str, str]:
    import os

    return {**os.environ, **environment}


def _posts(address: str, body: dict[str, str]) -> None:
    request = urllib.request.Request(  # noqa: S310 - our own server's
        address, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310
        pass


def _make_container(connection: str) -> None:
    from azure.storage.blob import BlobServiceClient

    with BlobServiceClient.from_connection_string(connection) as service:
        service.create_container(BUCKET)
