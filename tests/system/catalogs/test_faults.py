"""Real catalogs and storage, reached through a proxy that loses, delays or forges answers."""

from __future__ import annotations

import json
import traceback
from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.errors import CatalogError
from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.iceberg.icdc.namespace import check_icdc_namespace
from tests.kit.lakes import files_below, on_nessie, on_postgres, opened
from tests.kit.local_tables import append, new_table, rows
from tests.kit.meddler import Meddler, When, meddler
from tests.kit.wire import cutter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog

    from tests.kit.servers import Storage

pytestmark = [pytest.mark.postgres, pytest.mark.xdist_group("catalogs")]

PASSWORD = "postgres-secret-4711"  # noqa: S105 - as in conftest
TOKEN = "bearer-secret-4711"  # noqa: S105 - no server checks it
REGISTER = ("POST", r"/register$")


@pytest.fixture
def rest(nessie: str) -> Iterator[Meddler]:
    """Between the client and the catalog."""
    with meddler(nessie) as proxy:
        yield proxy


@pytest.fixture
def catalog(rest: Meddler, storage: Storage, namespace: str) -> Catalog:
    """A REST catalog, reached through the proxy, with a table of two rows."""
    catalog = opened("nessie", on_nessie(rest.address, storage)[0])
    return with_table(catalog, namespace)


def with_table(catalog: Catalog, namespace: str) -> Catalog:
    """A table ``events`` of two rows, and a namespace for captures."""
    catalog.create_namespace_if_not_exists(namespace)
    append(new_table(catalog, f"{namespace}.events"), 1, 2)
    check_icdc_namespace(catalog, f"{namespace}_icdc")
    return catalog


def capture_of(catalog: Catalog, namespace: str) -> None:
    capture(catalog, f"{namespace}.events", into=f"{namespace}_icdc.x")


def captured_files(catalog: Catalog, namespace: str, storage: Storage) -> dict[str, int]:
    """Everything below the ICDC namespace."""
    location = catalog.load_namespace_properties(f"{namespace}_icdc")["location"]
    return files_below(storage.properties, location)


def error_of(status: int, kind: str, message: str = "as a test says") -> bytes:
    """An error as the REST protocol has it."""
    return json.dumps({"error": {"code": status, "type": kind, "message": message}}).encode()


class TestRegister:
    """A register whose outcome is unknown is settled by looking, and nothing is deleted before it is certain."""

    @pytest.mark.parametrize("status", [None, 500, 502, 503, 504])
    def test_one_that_succeeded_without_saying_so_has_succeeded(
        self, rest: Meddler, catalog: Catalog, namespace: str, status: int | None
    ) -> None:
        """Whatever came instead of the answer."""
        with rest.meddling(*REGISTER, When.BEFORE, status=status):
            capture_of(catalog, namespace)
        assert rows(catalog, f"{namespace}_icdc.x") == [1, 2]

    @pytest.mark.parametrize(
        ("status", "advice"), [(500, "the catalog's log"), (403, "create and drop tables"), (400, "path")]
    )
    def test_one_that_was_answered_with_an_error_and_did_not_happen_leaves_nothing(
        self, rest: Meddler, catalog: Catalog, namespace: str, storage: Storage, status: int, advice: str
    ) -> None:
        """The error says what to do about it."""
        body = error_of(status, "SomeException")
        with (
            rest.meddling(*REGISTER, When.NEVER, status=status, body=body),
            pytest.raises(CatalogError, match="did not register") as failure,
        ):
            capture_of(catalog, namespace)
        assert "as a test says" in failure.value.problem
        assert "no checkpoint moved" in failure.value.consequence
        assert not captured_files(catalog, namespace, storage)
        capture_of(catalog, namespace)
        assert rows(catalog, f"{namespace}_icdc.x") == [1, 2]

    @pytest.mark.parametrize("status", [None, 504])
    def test_one_that_happens_after_the_capture_gave_up_is_taken_by_the_retry(
        self, rest: Meddler, catalog: Catalog, namespace: str, storage: Storage, status: int | None
    ) -> None:
        """Had the capture cleaned up, the catalog would have registered a table without files."""
        with (
            rest.meddling(*REGISTER, When.LATER, status=status),
            pytest.raises(CatalogError, match="did not register") as failure,
        ):
            capture_of(catalog, namespace)
        assert "A retry uses the table if it exists by then" in failure.value.remedy
        written = captured_files(catalog, namespace, storage)
        rest.release()
        assert rows(catalog, f"{namespace}_icdc.x") == [1, 2]
        capture_of(catalog, namespace)
        assert captured_files(catalog, namespace, storage) == written
        assert drop_icdc(catalog, f"{namespace}_icdc.x")
        assert not captured_files(catalog, namespace, storage)

    def test_where_the_catalog_is_gone_afterwards_nothing_is_deleted(
        self, rest: Meddler, catalog: Catalog, namespace: str
    ) -> None:
        """Neither the answer nor a second look."""
        with (
            rest.meddling(*REGISTER, When.BEFORE),
            rest.meddling("GET", r"/tables/x$", When.NEVER),
            pytest.raises(CatalogError, match="unknown whether the catalog has registered") as failure,
        ):
            capture_of(catalog, namespace)
        assert "are kept" in failure.value.consequence
        capture_of(catalog, namespace)
        assert rows(catalog, f"{namespace}_icdc.x") == [1, 2]

    def test_a_commit_of_postgresql_whose_answer_was_lost_has_happened(
        self, postgres: str, storage: Storage, namespace: str
    ) -> None:
        """The connection breaks between the server's commit and its word."""
        host, _, database = postgres.partition("/")
        with cutter(host) as wire:
            address = f"{wire.address}/{database}"
            catalog = with_table(opened("cut", on_postgres(address, PASSWORD, storage)[0]), namespace)
            with wire.cutting(after=b"INSERT INTO iceberg_tables", at=b"COMMIT"):
                capture_of(catalog, namespace)
            assert wire.cuts == 1
            assert rows(catalog, f"{namespace}_icdc.x") == [1, 2]


def secrets_of(storage: Storage) -> set[str]:
    """What must never be seen."""
    return {storage.access_key, storage.secret_key, PASSWORD, TOKEN}


def seen_by_people(error: BaseException) -> str:
    """As Airflow's log shows a failed task: every message of the chain, without the source lines of this file."""
    links = traceback.TracebackException.from_exception(error).format(chain=True)
    return "".join(line for line in links if not line.startswith("  File"))


class TestErrors:
    """What a catalog or a storage refuses is described in our words, with a fitting remedy and without secrets."""

    @pytest.mark.parametrize(
        ("status", "kind", "advice"),
        [
            (400, "BadRequestException", "its path"),
            (401, "NotAuthorizedException", "check the credential or token"),
            (403, "ForbiddenException", "let the connection's user read the source"),
            (409, "ConflictException", "retry the task"),
            (500, "InternalServerError", "retry the task"),
            (503, "ServiceUnavailable", "retry the task"),
            (None, "", "retry the task"),
        ],
    )
    def test_of_a_rest_catalog(
        self,
        rest: Meddler,
        storage: Storage,
        namespace: str,
        status: int | None,
        kind: str,
        advice: str,
    ) -> None:
        """A server may quote what it was sent."""
        catalog = with_table(opened("nessie", {**on_nessie(rest.address, storage)[0], "token": TOKEN}), namespace)
        quoted = f"token={TOKEN} s3.secret-access-key: '{storage.secret_key}' s3.access-key-id={storage.access_key}"
        body = error_of(status or 0, kind, f"not so: {quoted}; Authorization: Bearer {TOKEN}")
        with (
            rest.meddling("GET", r"/tables/events$", When.NEVER, status=status, body=body),
            pytest.raises(CatalogError, match=rf"loading {namespace}\.events failed") as failure,
        ):
            capture_of(catalog, namespace)
        assert advice in failure.value.remedy
        assert not [secret for secret in secrets_of(storage) if secret in seen_by_people(failure.value)]
        assert not catalog.table_exists(f"{namespace}_icdc.x")

    def test_of_a_catalog_that_is_not_there_any_more(self, nessie: str, storage: Storage, namespace: str) -> None:
        """No server listens there."""
        with meddler(nessie) as proxy:
            catalog = with_table(opened("nessie", on_nessie(proxy.address, storage)[0]), namespace)
        with pytest.raises(CatalogError, match="refused") as failure:
            capture_of(catalog, namespace)
        assert "check that tasks can reach its address" in failure.value.remedy

    def test_of_a_database_that_does_not_let_us_in(self, postgres: str, storage: Storage, namespace: str) -> None:
        """Its address carries the password."""
        with_table(opened("locked", on_postgres(postgres, PASSWORD, storage)[0]), namespace)
        wrong = on_postgres(postgres, f"not-{PASSWORD}", storage)[0]
        catalog = opened("locked", {**wrong, "init_catalog_tables": "false"})
        with pytest.raises(CatalogError, match="password authentication failed") as failure:
            capture_of(catalog, namespace)
        assert not [secret for secret in secrets_of(storage) if secret in seen_by_people(failure.value)]

    @pytest.mark.parametrize(
        ("method", "path", "status", "advice"),
        [
            ("HEAD", "/db/events/metadata/snap", 403, "allow them to read the source's metadata"),
            ("GET", "/db/events/metadata/snap", 403, "allow them to read the source's metadata"),
            ("GET", "/db/events/metadata/snap", 503, "retry the task"),
            ("HEAD", "/db/events/metadata/snap", 404, "was deleted without the catalog's knowledge"),
            ("PUT", "/icdc/x/metadata", 403, "write to the ICDC table's location"),
            ("PUT", "/icdc/x/metadata", 503, "retry the task"),
            ("PUT", "/icdc/x/metadata", 404, "bucket and endpoint"),
        ],
    )
    def test_of_the_storage(
        self, storage: Storage, tmp_path: Path, method: str, path: str, status: int, advice: str
    ) -> None:
        """The file is named, nothing is registered, and once the storage answers the capture succeeds."""
        with meddler(storage.endpoint) as s3:
            catalog = in_s3(s3.address, storage, tmp_path)
            before = files_below(storage.properties, "s3://lake/faulty/icdc")
            with (
                s3.meddling(method, path, When.NEVER, status=status, body=S3_ERRORS[status]),
                pytest.raises(CatalogError) as failure,
            ):
                capture(catalog, "db.events", into="icdc.x")
            assert advice in failure.value.remedy
            assert "/metadata/" in failure.value.problem
            assert not [secret for secret in secrets_of(storage) if secret in seen_by_people(failure.value)]
            assert not catalog.table_exists("icdc.x")
            assert files_below(storage.properties, "s3://lake/faulty/icdc") == before
            capture(catalog, "db.events", into="icdc.x")
            assert rows(catalog, "icdc.x") == [1, 2]
            assert drop_icdc(catalog, "icdc.x")

    def test_of_storage_that_knows_no_trailing_checksums(
        self, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As S3Proxy does, unless its clients leave checksums out: the remedy is the variable for that."""
        catalog = in_s3(storage.endpoint, storage, tmp_path)
        monkeypatch.delenv("AWS_REQUEST_CHECKSUM_CALCULATION")
        with pytest.raises(CatalogError, match="HTTP status 400") as failure:
            capture(opened("faulty", dict(catalog.properties)), "db.events", into="icdc.x")
        assert "AWS_REQUEST_CHECKSUM_CALCULATION=when_required" in failure.value.remedy


S3_ERRORS = {
    403: b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
    404: b"<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>",
    503: b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
}


def in_s3(endpoint: str, storage: Storage, folder: Path) -> Catalog:
    """Names in SQLite, files in S3, through a proxy or not."""
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": "s3://lake/faulty",
        **storage.properties,
        "s3.endpoint": endpoint,
    }
    catalog = opened("faulty", properties)
    catalog.create_namespace("db")
    check_icdc_namespace(catalog, "icdc")
    append(new_table(catalog, "db.events", location=f"s3://lake/faulty/{folder.name}/db/events"), 1, 2)
    return catalog


def test_nothing_secret_is_written_into_an_icdc_table(catalog: Catalog, namespace: str, storage: Storage) -> None:
    """Neither into its properties nor into any other of its files."""
    capture_of(catalog, namespace)
    icdc = catalog.load_table(f"{namespace}_icdc.x")
    written = icdc.metadata.model_dump_json().encode()
    for path in captured_files(catalog, namespace, storage):
        with icdc.io.new_input(f"s3://{path}").open() as file:
            written += file.read()
    assert b"ips.identity" in written
    assert not [secret for secret in secrets_of(storage) if secret.encode() in written]
