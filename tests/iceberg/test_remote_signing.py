"""Storage that opens nothing by itself: each request is signed for a table, as the catalog configures it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO

from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.iceberg.icdc.namespace import check_icdc_namespace
from tests.kit.local_tables import append, new_catalog, new_table, rows

if TYPE_CHECKING:
    from pathlib import Path

SIGNED = {
    "py-io-impl": f"{__name__}.SignedFileIO",
    "s3.signer": "S3V4RestSigner",
    "s3.signer.uri": "https://catalog/",
    "s3.signer.endpoint": "v1/sign/db/t",
}
TOKEN = "token-of-the-catalog"  # noqa: S105 - nothing checks it


class SignedFileIO(PyArrowFileIO):
    """Opens a file only if it knows who signs for it, and has the token that the signer checks."""

    def _check(self) -> None:
        if not self.properties.items() >= {**SIGNED, "token": TOKEN}.items():
            raise PermissionError("an unsigned request")

    def new_input(self, location: str) -> Any:
        self._check()
        return super().new_input(location)

    def new_output(self, location: str) -> Any:
        self._check()
        return super().new_output(location)

    def delete(self, location: Any) -> None:
        self._check()
        super().delete(location)


class SigningCatalog(SqlCatalog):
    """Sends the configuration with each table, as a REST catalog does, and keeps its token to itself."""

    def __init__(self, plain: SqlCatalog, signed: dict[str, str], **properties: str) -> None:
        super().__init__(plain.name, **(properties or plain.properties), **{"py-io-impl": signed["py-io-impl"]})
        self.plain = plain  # what the catalog reads of its own needs no signature
        self.signed = signed
        self.token = TOKEN

    def _load_file_io(self, properties: Any = {}, location: str | None = None) -> Any:  # noqa: B006 - as PyIceberg
        return super()._load_file_io({**properties, "token": self.token}, location)

    def load_table(self, identifier: Any) -> Any:
        table = self.plain.load_table(identifier)
        table.io = self._load_file_io(self.signed)
        return table

    def register_table(self, *arguments: Any, **options: Any) -> Any:
        return self.plain.register_table(*arguments, **options)

    def create_table_transaction(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("take", ["whole", "part"])
def test_what_a_capture_reads_and_writes_is_signed(tmp_path: Path, take: str) -> None:
    """Whether manifests are copied or spliced; and dropping the table deletes its files by the same way."""
    plain = new_catalog(tmp_path)
    table = new_table(plain)
    since = append(table, 1, 2)
    append(table, 3)
    check_icdc_namespace(plain, "icdc")
    catalog = SigningCatalog(plain, SIGNED)

    capture(catalog, "db.t", into="icdc.x", since=None if take == "whole" else since, range_columns=["id"])

    assert rows(plain, "icdc.x") == ([1, 2, 3] if take == "whole" else [3])
    assert drop_icdc(catalog, "icdc.x")
