"""Keeps what was seen of consumers and tables in Airflow Variables, one for each, for pages and commands.

Variables have no compare-and-set: of two who look at the same moment, the later one's sighting stays. That is good
enough for people, and nothing else reads them. Whatever goes wrong here is logged once, and never fails a run.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from airflow_provider_ips.core.json_fields import PARSE_ERRORS
from airflow_provider_ips.core.sightings.consumer_sighting import ConsumerSighting, consumer_sighting_key
from airflow_provider_ips.core.sightings.table_sighting import TableSighting, table_sighting_key
from airflow_provider_ips.redaction import redacted_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_ips.core.identifiers import Source

log = logging.getLogger(__name__)

S = TypeVar("S", ConsumerSighting, TableSighting)

_PREFIXES: Final = {ConsumerSighting: "ips_seen_", TableSighting: "ips_table_"}
_KEY: Final = re.compile(r"ips_(?:seen|table)_(?:[a-z0-9_]+_)?[0-9a-f]{16}")
_DESCRIPTION: Final = (
    "What was seen of {}, for the pages and commands of airflow-provider-ips. It may be deleted at any time."
)


class Variables(Protocol):
    """The operations on Variables that sightings need, in a task, a trigger or a command."""

    def get(self, key: str) -> str | None: ...

    def set(self, key: str, value: str, *, description: str) -> None: ...


def read_consumer(variables: Variables, consumer: str) -> ConsumerSighting | None:
    """Return what was seen of a consumer; None if nothing was, or if it cannot be read."""
    return _read(variables, consumer_sighting_key(consumer), ConsumerSighting.parse)


def read_table(variables: Variables, iceberg_conn_id: str, source: Source) -> TableSighting | None:
    """Return what was seen of a table; None if nothing was, or if it cannot be read."""
    return _read(variables, table_sighting_key(iceberg_conn_id, source), TableSighting.parse)


def write(variables: Variables, sighting: ConsumerSighting | TableSighting) -> bool:
    """Store a sighting in place of the one before; tell whether it worked."""
    of = sighting.consumer if isinstance(sighting, ConsumerSighting) else sighting.source.label
    try:
        variables.set(sighting.key, sighting.to_text(), description=_DESCRIPTION.format(repr(of)))
    except Exception as error:  # noqa: BLE001 - a run must not fail because people cannot look at it
        log.warning("What was seen of %s was not stored: %s", of, redacted_message(error))
        return False
    return True


def read_all(kind: type[S]) -> Iterator[S]:
    """Read all sightings of a kind by one query, in a process that reaches the metadata database."""
    from airflow.models import Variable
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        wanted = Variable.key.startswith(_PREFIXES[kind], autoescape=True)
        for stored in session.scalars(select(Variable).where(wanted).order_by(Variable.key)):
            if _KEY.fullmatch(stored.key) and (read := _parsed(stored.val, kind.parse)) is not None:
                yield read


def _read(variables: Variables, key: str, parse: Callable[[str], S]) -> S | None:
    try:
        return _parsed(variables.get(key), parse)
    except Exception as error:  # noqa: BLE001 - likewise
        log.warning("Variable %s was not read: %s", key, redacted_message(error))
        return None


def _parsed(text: object, parse: Callable[[str], S]) -> S | None:
    """A sighting that is damaged, masked or of another release is as good as none: the next one takes its place."""
    try:
        return parse(text) if isinstance(text, str) else None
    except PARSE_ERRORS:
        return None
