"""The URI of a table: ``iceberg://<connection>/<namespace>/…/<table>``, with ``?branch=`` for another than main.

One table and branch behind one connection has exactly one URI, and no two share one: every part is percent-encoded,
so that no character in a name can be taken for a separator. Case is kept, for connections and catalogs tell it apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import TableIdentifier

SCHEME: Final = "iceberg"
MAIN: Final = "main"

_SHAPE: Final = "iceberg://connection/namespace/table, with ?branch=name for a branch"
_AMBIGUOUS: Final = "It would be an asset of its own, and events of the table would not be its events"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUri:
    """A table and branch, and the connection that leads to it."""

    iceberg_conn_id: str
    table: TableIdentifier
    branch: str = MAIN

    @classmethod
    def of(cls, table: object, *, iceberg_conn_id: object, branch: object = MAIN) -> Self:
        """Check what an author wrote."""
        for name, value in (("iceberg_conn_id", iceberg_conn_id), ("branch", branch)):
            _check_name(name, value)
        identifier = TableIdentifier.parse(table)
        _refuse_templates(str(iceberg_conn_id), str(branch), str(identifier))
        return cls(iceberg_conn_id=str(iceberg_conn_id), table=identifier, branch=str(branch))

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Read a URI, in its normal form or any other that means the same."""
        return cls.from_parts(urlsplit(uri))

    @classmethod
    def from_parts(cls, parts: SplitResult) -> Self:
        """Read a URI that was taken apart."""
        uri = urlunsplit(parts)
        if parts.scheme.lower() != SCHEME:
            raise _malformed(uri, f"its scheme is {parts.scheme!r}")
        if not parts.netloc:
            raise _malformed(uri, "it names no connection")
        if set(parts.netloc) & set("@:"):
            raise _malformed(
                uri, "'@' and ':' of a connection id are written %40 and %3A; users and ports do not belong"
            )
        names = [unquote(part) for part in parts.path.strip("/").split("/")]
        if dotted := next((name for name in names if "." in name), None):
            raise _malformed(uri, f"{dotted!r} has a dot; namespaces and table are separated by slashes")
        if "" in names or len(names) < 2:  # noqa: PLR2004 - namespace and table
            raise _malformed(uri, "it names no namespace, or no table")
        return cls.of(".".join(names), iceberg_conn_id=unquote(parts.netloc), branch=_branch(uri, parts.query))

    @property
    def parts(self) -> SplitResult:
        """The normal form, taken apart."""
        path = "".join("/" + quote(part, safe="") for part in self.table.parts)
        query = "" if self.branch == MAIN else urlencode({"branch": self.branch})
        return SplitResult(SCHEME, quote(self.iceberg_conn_id, safe=""), path, query, "")

    def __str__(self) -> str:
        """The normal form."""
        return urlunsplit(self.parts)


def sanitize_uri(parts: SplitResult) -> SplitResult:
    """Normalize an asset's URI, as Airflow asks the owner of its scheme to. Airflow expects a ValueError."""
    try:
        return TableUri.from_parts(parts).parts
    except InputError as error:
        raise ValueError(str(error)) from error


def _branch(uri: str, query: str) -> str:
    given = parse_qsl(query, keep_blank_values=True)
    unknown = sorted({name for name, _ in given} - {"branch"})
    if unknown or len(given) > 1:
        raise _malformed(uri, f"it asks for {unknown[0]!r}" if unknown else "it names more than one branch")
    return given[0][1] if given else MAIN


def _check_name(name: str, value: object) -> None:
    if isinstance(value, str) and value and value == value.strip():
        return
    raise InputError(
        f"{name}={value!r} is no name",
        consequence="The asset would belong to no table",
        remedy=f"set {name} to a name without spaces around it, or leave it out",
    )


def _refuse_templates(*values: str) -> None:
    for value in values:
        if "{{" in value or "{%" in value:
            raise InputError(
                f"{value!r} is a template",
                consequence="The scheduler knows an asset before anything runs, and renders no template in it",
                remedy="write the name itself",
            )


def _malformed(uri: str, problem: str) -> InputError:
    return InputError(
        f"asset URI {uri!r} is malformed: {problem}",
        consequence=_AMBIGUOUS,
        remedy=f"write {_SHAPE}, or let iceberg_asset(...) write it",
    )
