"""A catalog that vends credentials table by table, each for its own folder only, to a client that has none."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.errors import CatalogError
from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.iceberg.icdc.namespace import check_icdc_namespace
from tests.kit import servers
from tests.kit.keys import Sessions, token_service
from tests.kit.lakes import files_below, opened
from tests.kit.local_tables import append, new_table, rows
from tests.kit.meddler import meddler
from tests.system.catalogs.test_faults import seen_by_people

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog

pytestmark = pytest.mark.xdist_group("catalogs")

_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vending:
    """A Nessie that vends credentials."""

    address: str
    sessions: Sessions

    def catalog(self, **keys: str) -> Catalog:
        """Open it, with keys of the client's own or without."""
        catalog = opened("vending", {"type": "rest", "uri": self.address, **keys})
        check_icdc_namespace(catalog, "icdc")
        catalog.create_namespace_if_not_exists("db")
        return catalog


@pytest.fixture(scope="module")
def vending(storage: servers.Storage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vending]:
    """Clients reach S3 only through a guard that knows what each session may open."""
    s3 = "nessie.catalog.service.s3.default-options"
    with token_service(storage) as sessions, meddler(storage.endpoint) as gate:
        gate.guard = sessions.allow
        settings = {
            f"{s3}.external-endpoint": gate.address,
            f"{s3}.sts-endpoint": sessions.address,
            f"{s3}.client-iam.enabled": "true",
            f"{s3}.client-iam.assume-role": "arn:aws:iam::1:role/tests",
            # Beside the other Nessie's: both know a namespace `icdc`.
            f"nessie.catalog.warehouses.{servers.BUCKET}.location": f"s3://{servers.BUCKET}/vending/",
        }
        with servers.nessie_server(tmp_path_factory.mktemp("vending"), storage, **settings) as address:
            yield Vending(address=address, sessions=sessions)


@pytest.fixture
def table(vending: Vending) -> str:
    """A source of two rows."""
    name = f"db.events{next(_numbers)}"
    append(new_table(vending.catalog(), name), 1, 2)
    return name


def test_source_and_icdc_table_are_each_opened_with_their_own(
    vending: Vending, table: str, storage: servers.Storage
) -> None:
    """Captured, retried and dropped without any key but those handed out, and none of them is seen anywhere."""
    catalog = vending.catalog()
    into = f"icdc.{table[3:]}"
    record = capture(catalog, table, into=into)
    assert record.captured.files == 1
    assert capture(catalog, table, into=into) == record
    icdc = catalog.load_table(into)
    written = icdc.metadata.model_dump_json() + str(record)
    assert not [token for token in {*vending.sessions.tokens, storage.secret_key} if token in written]
    assert files_below(storage.properties, icdc.location())
    assert drop_icdc(catalog, into)
    assert not files_below(storage.properties, icdc.location())


def test_the_record_warns_that_the_icdc_tables_keys_end_at_its_own_folder(vending: Vending, table: str) -> None:
    """Its data files are the source's: an engine that has nothing but these keys cannot read them."""
    catalog = vending.catalog()
    record = capture(catalog, table, into=f"icdc.{table[3:]}")
    assert "hands out credentials table by table" in record.warnings[-1]
    assert table in record.warnings[-1]
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        rows(catalog, f"icdc.{table[3:]}")


def test_with_keys_of_the_connections_own_those_open_both(
    vending: Vending, table: str, storage: servers.Storage
) -> None:
    """The connection says what opens the ICDC table; nothing is requested, and there is nothing to warn of."""
    catalog = vending.catalog(**storage.properties)
    record = capture(catalog, table, into=f"icdc.{table[3:]}")
    assert not record.warnings


def test_keys_that_do_not_open_the_place_are_a_clear_error(
    vending: Vending, table: str, storage: servers.Storage
) -> None:
    """The file is named, and what to set; nothing is registered."""
    catalog = vending.catalog()
    with vending.sessions.opening_nothing(), pytest.raises(CatalogError, match="/metadata/") as failure:
        capture(catalog, table, into=f"icdc.{table[3:]}")
    assert "in the connection's extra" in failure.value.remedy
    secrets = {*vending.sessions.tokens, storage.secret_key}
    assert not [secret for secret in secrets if secret in seen_by_people(failure.value)]
    assert not catalog.table_exists(f"icdc.{table[3:]}")
