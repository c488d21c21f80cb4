"""The URI of a table: ``iceberg://<connection>/<namespace>/…/<table>``, with ``?branch=`` for a branch other than main.

Every table and branch of a connection has exactly one URI, and no two share one: each part is percent-encoded, so that
no character of a name can be mistaken for a separator. Case is kept, because connections and catalogs distinguish it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import MAIN_BRANCH, Source, TableIdentifier

SCHEME: Final = "iceberg"

_SHAPE: Final = "iceberg://connection/namespace/table, with ?branch=name for a branch"
_AMBIGUOUS: Final = "It would be a different asset, which would not get the events of the table"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUri:
    """A table and branch, and the connection to its catalog."""

    iceberg_conn_id: str
    table: TableIdentifier
    branch: str = MAIN_BRANCH

    @property
    def source(self) -> Source:
        return Source(str(self.table), self.branch)

    @classmethod
    def of(cls, table: object, *, iceberg_conn_id: object, branch: object = MAIN_BRANCH) -> Self:
        """Check and combine what the author of a DAG wrote."""
        for name, value in (("iceberg_conn_id", iceberg_conn_id), ("branch", branch)):
            _check_name(name, value)
        identifier = TableIdentifier.parse(table)
        _refuse_templates(str(iceberg_conn_id), str(branch), str(identifier))
        return cls(iceberg_conn_id=str(iceberg_conn_id), table=identifier, branch=str(branch))

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Parse a URI, in its normal form or in another form with the same meaning."""
        return cls.from_parts(urlsplit(uri))

    @classmethod
    def from_parts(cls, parts: SplitResult) -> Self:
        uri = urlunsplit(parts)
        if parts.scheme.lower() != SCHEME:
            raise _malformed(uri, f"its scheme is {parts.scheme!r}")
        if not parts.netloc:
            raise _malformed(uri, "it lacks a connection")
        if set(parts.netloc) & set("@:"):
            raise _malformed(
                uri, "'@' and ':' of a connection id are written %40 and %3A; a URI has neither user nor port"
            )
        names = [unquote(part) for part in parts.path.strip("/").split("/")]
        if dotted := next((name for name in names if "." in name), None):
            raise _malformed(uri, f"{dotted!r} has a dot; namespaces and table are separated by slashes")
        if "" in names or len(names) < 2:  # noqa: PLR2004 - namespace and table
            raise _malformed(uri, "it lacks a namespace or a table")
        return cls.of(".".join(names), iceberg_conn_id=unquote(parts.netloc), branch=_branch(uri, parts.query))

    @property
    def parts(self) -> SplitResult:
        path = "".join("/" + quote(part, safe="") for part in self.table.parts)
        query = "" if self.branch == MAIN_BRANCH else urlencode({"branch": self.branch})
        return SplitResult(SCHEME, quote(self.iceberg_conn_id, safe=""), path, query, "")

    def __str__(self) -> str:
        return urlunsplit(self.parts)


def sanitize_uri(parts: SplitResult) -> SplitResult:
    """Normalize an asset's URI, as Airflow has the provider of its scheme do. Airflow expects a ValueError."""
    try:
        return TableUri.from_parts(parts).parts
    except InputError as error:
        raise ValueError(str(error)) from error


def _branch(uri: str, query: str) -> str:
    given = parse_qsl(query, keep_blank_values=True)
    unknown = sorted({name for name, _ in given} - {"branch"})
    if unknown or len(given) > 1:
        raise _malformed(uri, f"parameter {unknown[0]!r} is unknown" if unknown else "it names more than one branch")
    return given[0][1] if given else MAIN_BRANCH


def _check_name(name: str, value: object) -> None:
    if isinstance(value, str) and value and value == value.strip():
        return
    raise InputError(
        f"{name}={value!r} is not a name",
        consequence="The asset would not belong to any table",
        remedy=f"set {name} to a name without spaces around it, or leave it out",
    )


def _refuse_templates(*values: str) -> None:
    for value in values:
        if "{{" in value or "{%" in value:
            raise InputError(
                f"{value!r} is a template",
                consequence="The scheduler reads assets before anything runs, and does not render templates in them",
                remedy="write the name itself",
            )


def _malformed(uri: str, problem: str) -> InputError:
    return InputError(
        f"asset URI {uri!r} is malformed: {problem}",
        consequence=_AMBIGUOUS,
        remedy=f"write {_SHAPE}, or let iceberg_asset(...) write it",
    )
