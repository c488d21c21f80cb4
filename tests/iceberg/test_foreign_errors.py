"""Errors of the libraries behind a catalog: none leaves the ring, and each says what to do.

Their packages are not installed with this one, so the errors are rebuilt here as those packages define them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy.exc
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider_ips.core.errors import CatalogError, InputError
from airflow_provider_ips.iceberg import capture
from airflow_provider_ips.iceberg.foreign_errors import translate_errors
from airflow_provider_ips.iceberg.icdc.namespace import check_icdc_namespace
from tests.kit.local_tables import append, files_under, new_catalog, new_table, rows

if TYPE_CHECKING:
    from pathlib import Path


def foreign(module: str, name: str, base: type[Exception] = Exception, **attributes: Any) -> type[Exception]:
    """An error class of a package that is not installed."""
    return type(name, (base,), {"__module__": module, **attributes})


class _Answered(Exception):  # noqa: N818 - as botocore has it
    __module__ = "botocore.exceptions"

    def __init__(self, code: str, status: int) -> None:
        super().__init__(f"An error occurred ({code}) when calling the CreateTable operation: no")
        self.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}


class _Frozen(foreign("thrift.Thrift", "TException")):  # type: ignore[misc]
    """As Thrift generates them: nothing can be set, not even the traceback."""

    __module__ = "hive_metastore.ttypes"

    def __setattr__(self, *_: object) -> None:
        raise TypeError("can't modify immutable instance")


AWS_TIMEOUT = foreign("botocore.exceptions", "ReadTimeoutError", foreign("botocore.exceptions", "BotoCoreError"))
THRIFT_LOST = foreign("thrift.transport.TTransport", "TTransportException")
AZURE = foreign("azure.core.exceptions", "HttpResponseError", foreign("azure.core.exceptions", "AzureError"))
GOOGLE = foreign(
    "google.api_core.exceptions", "Forbidden", foreign("google.api_core.exceptions", "ClientError"), code=403
)
GOOGLE_AUTH = foreign("google.auth.exceptions", "RefreshError")
AIOHTTP = foreign("aiohttp.client_exceptions", "ClientConnectorError")


class Faulty(SqlCatalog):
    """A catalog whose calls fail as a test says, before or after they took effect."""

    load: Exception | None = None
    register: Exception | None = None
    registers_first = False

    def load_table(self, identifier: Any) -> Any:
        if self.load is not None:
            raise self.load
        return super().load_table(identifier)

    def register_table(self, *arguments: Any, **options: Any) -> Any:
        if self.register is None or self.registers_first:
            table = super().register_table(*arguments, **options)
        if self.register is not None:
            raise self.register
        return table


class Flat(SqlCatalog):
    """A catalog without nested namespaces, as Glue and Hive are."""

    def load_namespace_properties(self, namespace: Any) -> Any:
        self.identifier_to_database(namespace, __import__("pyiceberg.exceptions").exceptions.NoSuchNamespaceError)
        return super().load_namespace_properties(namespace)

    def create_namespace(self, namespace: Any, properties: Any = {}) -> None:  # noqa: B006 - as PyIceberg has it
        self.identifier_to_database(namespace)
        super().create_namespace(namespace, properties)


@pytest.fixture
def catalog(tmp_path: Path) -> Faulty:
    """With a table ``db.t`` of two rows, and a namespace for captures."""
    plain = new_catalog(tmp_path)
    append(new_table(plain), 1, 2)
    check_icdc_namespace(plain, "icdc")
    return Faulty(plain.name, **plain.properties)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (_Answered("AccessDeniedException", 400), "let the connection's user"),
        (_Answered("ThrottlingException", 400), "retry the task"),
        (_Answered("InternalServiceException", 500), "retry the task"),
        (AWS_TIMEOUT("Read timeout on endpoint URL"), "retry the task"),
        (THRIFT_LOST("TSocket read 0 bytes"), "retry the task"),
        (_Frozen("Got exception: java.net.SocketTimeoutException"), "retry the task"),
        (AZURE("The specified blob does not exist. ErrorCode:BlobNotFound"), "was deleted without"),
        (GOOGLE("403 GET: caller lacks storage.objects.get"), "allow them to read"),
        (GOOGLE_AUTH("token expired"), "allow them to read"),
        (AIOHTTP("Cannot connect to host"), "retry the task"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_each_becomes_an_error_of_ours_with_the_way_on(catalog: Faulty, error: Exception, advice: str) -> None:
    """Permissions, missing files and outages are different problems."""
    catalog.load = error
    with pytest.raises(CatalogError, match=r"loading db\.t") as raised:
        capture(catalog, "db.t", into="icdc.x")
    assert type(error).__name__ in raised.value.problem
    assert advice in raised.value.remedy


@pytest.mark.parametrize("error", [_Answered("AccessDenied", 403), GOOGLE("403 GET"), PermissionError(13, "no")])
def test_a_denied_permission_is_named_as_such(catalog: Faulty, error: Exception) -> None:
    """It does not pass by itself."""
    catalog.load = error
    with pytest.raises(CatalogError, match="permission was denied"):
        capture(catalog, "db.t", into="icdc.x")


@pytest.mark.parametrize("error", [AWS_TIMEOUT("lost"), THRIFT_LOST("lost"), _Frozen("lost")])
def test_a_register_whose_answer_was_lost_is_settled_by_looking(catalog: Faulty, error: Exception) -> None:
    """The table is there: that is success."""
    catalog.register, catalog.registers_first = error, True
    capture(catalog, "db.t", into="icdc.x")
    assert rows(catalog, "icdc.x") == [1, 2]


def test_a_register_that_was_lost_on_the_way_keeps_its_files(catalog: Faulty, tmp_path: Path) -> None:
    """The service may still carry it out. What it refused with an answer it will not."""
    before = set(files_under(str(tmp_path)))
    catalog.register = _Answered("AccessDeniedException", 400)
    with pytest.raises(CatalogError, match="did not register"):
        capture(catalog, "db.t", into="icdc.x")
    assert set(files_under(str(tmp_path))) == before
    catalog.register = AWS_TIMEOUT("lost")
    with pytest.raises(CatalogError, match="did not register"):
        capture(catalog, "db.t", into="icdc.x")
    assert set(files_under(str(tmp_path))) > before


@pytest.mark.timeout(20)
@pytest.mark.parametrize("length", [1, 2])
def test_an_error_that_is_its_own_cause_ends(catalog: Faulty, length: int) -> None:
    """Azure's client raises such errors for a missing file. What writes logs would walk them for ever, too."""
    ring = [AZURE(f"lost {i}") for i in range(length)]
    for index, link in enumerate(ring):
        link.__cause__ = ring[(index + 1) % length]
    catalog.load = ring[0]
    with pytest.raises(CatalogError, match="lost 0") as raised:
        capture(catalog, "db.t", into="icdc.x")
    assert raised.value.__cause__ is None


def test_an_error_of_the_packages_own_bug_stays_what_it_is() -> None:
    """Only what a catalog or a storage raises by design is mapped."""
    with pytest.raises(ZeroDivisionError), translate_errors("dividing"):
        _ = 1 // 0


def test_a_nested_namespace_where_the_catalog_has_none_is_refused(tmp_path: Path) -> None:
    """Glue and Hive have databases, which do not nest."""
    plain = new_catalog(tmp_path)
    with pytest.raises(InputError, match="does not nest namespaces"):
        check_icdc_namespace(Flat(plain.name, **plain.properties), "lake.icdc")
    check_icdc_namespace(plain, "lake.icdc")


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        (sqlalchemy.exc.ProgrammingError("INSERT INTO iceberg_tables", {}, Exception("permission denied")), False),
        (sqlalchemy.exc.OperationalError("INSERT INTO iceberg_tables", {}, Exception("connection lost")), True),
    ],
    ids=["a statement that the database refused", "a connection that was lost"],
)
def test_what_a_database_refused_was_not_carried_out(tmp_path: Path, error: Exception, *, unknown: bool) -> None:
    """So the files go at once; after a lost connection they stay, for the table may exist."""
    catalog = Faulty("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    for namespace in ("db", "icdc"):
        catalog.create_namespace(namespace)
    append(new_table(catalog), 1, 2)
    catalog.register = error
    with pytest.raises(CatalogError):
        capture(catalog, "db.t", into="icdc.x")
    assert bool(list(files_under(f"file://{tmp_path}/warehouse/icdc"))) is unknown
