"""Requests that a catalog signs one by one, by PyIceberg's own client: who has no key, and S3 that lets in no other."""

from __future__ import annotations

import contextlib
import json
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from pyiceberg.io.pyarrow import PyArrowFileIO

from airflow_provider_ips.core.errors import CatalogError
from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.iceberg.icdc.namespace import check_icdc_namespace
from tests.iceberg.test_remote_signing import TOKEN, SigningCatalog
from tests.kit.http import Handler, http_server
from tests.kit.lakes import files_below
from tests.kit.local_tables import append, new_catalog, new_table, rows
from tests.kit.servers import BUCKET, REGION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog

    from tests.kit.servers import Storage

pytestmark = pytest.mark.xdist_group("catalogs")


class _UnsignedPayload(S3SigV4Auth):  # type: ignore[misc]  # botocore has no types
    def payload(self, _: AWSRequest) -> str:
        return "UNSIGNED-PAYLOAD"  # who signs does not see it


class _Signer(Handler):
    """The endpoint `v1/sign` of a REST catalog."""

    def handle_request(self) -> None:
        wanted = json.loads(self.read_body())
        server = self.server
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self.answer(HTTPStatus.FORBIDDEN)
            return
        headers = {name: values[0] for name, values in wanted["headers"].items()}
        request = AWSRequest(method=wanted["method"], url=wanted["uri"], headers=headers)
        keys = Credentials(server.storage.access_key, server.storage.secret_key)  # type: ignore[attr-defined]
        _UnsignedPayload(keys, "s3", REGION).add_auth(request)
        server.signed.append((wanted["method"], urlsplit(wanted["uri"]).path))  # type: ignore[attr-defined]
        added = {name: [value] for name, value in request.headers.items() if name not in headers}
        self.answer(HTTPStatus.OK, json.dumps({"headers": added, "uri": wanted["uri"]}).encode())


@contextlib.contextmanager
def signer(storage: Storage) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Its address, and what it has signed."""
    with http_server(_Signer) as listening:
        listening.storage, listening.signed = storage, []  # type: ignore[attr-defined]
        yield f"http://127.0.0.1:{listening.server_port}", listening.signed  # type: ignore[attr-defined]


@pytest.fixture
def plain(tmp_path: Path, storage: Storage) -> SqlCatalog:
    """The catalog itself, which has the keys."""
    keys = {**storage.properties, "py-io-impl": f"{PyArrowFileIO.__module__}.PyArrowFileIO"}
    return new_catalog(tmp_path, **{**keys, "warehouse": f"s3://{BUCKET}/signed/{tmp_path.name}"})


@pytest.mark.parametrize("take", ["whole", "part"])
def test_a_capture_without_any_key_has_each_request_signed(plain: SqlCatalog, storage: Storage, take: str) -> None:
    """What it reads of the source, copies or splices, publishes, and deletes when the table is dropped."""
    table = new_table(plain)
    since = append(table, 1, 2)
    append(table, 3)
    check_icdc_namespace(plain, "icdc")
    with signer(storage) as (address, signed):
        config = {
            "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
            "s3.remote-signing-enabled": "true",
            "s3.signer": "S3V4RestSigner",
            "s3.signer.uri": address,
            "s3.signer.endpoint": "v1/sign",
            "s3.endpoint": storage.endpoint,
            "s3.region": REGION,
        }
        catalog = SigningCatalog(plain, config, uri=plain.properties["uri"], warehouse=plain.properties["warehouse"])

        capture(catalog, "db.t", into="icdc.x", since=None if take == "whole" else since, range_columns=["id"])

        location = plain.load_table("icdc.x").location()
        written = {path for method, path in signed if method in ("PUT", "POST")}
        assert files_below(storage.properties, location)
        assert all(path.startswith(urlsplit(location).path.join((f"/{BUCKET}", ""))) for path in written), written
        assert any(method == "GET" for method, _ in signed)
        assert rows(plain, "icdc.x") == ([1, 2, 3] if take == "whole" else [3])
        assert drop_icdc(catalog, "icdc.x")
    assert not files_below(storage.properties, location)


def test_a_signer_that_refuses_is_a_clear_error(plain: SqlCatalog, storage: Storage) -> None:
    """Nothing is registered, and the request, which may hold a token, is not shown."""
    append(new_table(plain), 1)
    check_icdc_namespace(plain, "icdc")
    with signer(storage) as (address, signed):
        config = {
            "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
            "s3.signer": "S3V4RestSigner",
            "s3.signer.uri": address,
            "s3.endpoint": storage.endpoint,
            "s3.region": REGION,
            "token": "of-somebody-else-4711",
        }
        catalog = SigningCatalog(plain, config, uri=plain.properties["uri"], warehouse=plain.properties["warehouse"])
        catalog.token = config["token"]
        with pytest.raises(CatalogError) as raised:
            capture(catalog, "db.t", into="icdc.x")
    assert not signed
    assert "of-somebody-else" not in str(raised.value)
    assert not plain.table_exists("icdc.x")
