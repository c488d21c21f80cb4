"""Keeps what was seen of consumers and tables in Airflow Variables, one for each, for pages and commands.

Variables have no compare-and-set: of two who look at the same moment, the later one's sighting stays. That is good
enough for people, and nothing else reads them. Whatever goes wrong here is logged once, and never fails a run.
"""

from __future__ import annotations

import logging
import re
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.core.json_fields import PARSE_ERRORS
from airflow_provider_ips.core.sightings import lag
from airflow_provider_ips.core.sightings.consumer_sighting import (
    ConsumerSighting,
    PendingSighting,
    SourceSighting,
    consumer_sighting_key,
)
from airflow_provider_ips.core.sightings.table_sighting import TableSighting, table_sighting_key
from airflow_provider_ips.metrics import Measurement, send
from airflow_provider_ips.redaction import redacted_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_ips.checkpoints.variable import VariableAccess
    from airflow_provider_ips.core.checkpoint.document import Checkpoint
    from airflow_provider_ips.core.checkpoint.entries import PendingCapture
    from airflow_provider_ips.core.identifiers import Source
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.record import Volume
    from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource

log = logging.getLogger(__name__)

S = TypeVar("S", ConsumerSighting, TableSighting)

_PREFIXES: Final = {ConsumerSighting: "ips_seen_", TableSighting: "ips_table_"}
_KEY: Final = re.compile(r"ips_(?:seen|table)_(?:[a-z0-9_]+_)?[0-9a-f]{16}")
_DESCRIPTION: Final = (
    "What was seen of {}, for the pages and commands of airflow-provider-ips. It may be deleted at any time."
)


def shown(error: Exception) -> str:
    """Describe an error in short, without secrets."""
    return error.problem if isinstance(error, IpsError) else redacted_message(error)


def task_variables() -> VariableAccess:
    """Return how a task or a trigger reaches Variables."""
    from airflow_provider_ips.checkpoints.variable import TaskVariables

    return TaskVariables()


def read_consumer(variables: VariableAccess, consumer: str) -> ConsumerSighting | None:
    """Return what was seen of a consumer; None if nothing was, or if it cannot be read."""
    return _read(variables, consumer_sighting_key(consumer), ConsumerSighting.parse)


def read_table(variables: VariableAccess, iceberg_conn_id: str, source: Source) -> TableSighting | None:
    """Return what was seen of a table; None if nothing was, or if it cannot be read."""
    return _read(variables, table_sighting_key(iceberg_conn_id, source), TableSighting.parse)


def write(variables: VariableAccess, sighting: ConsumerSighting | TableSighting) -> bool:
    """Store a sighting in place of the one before; tell whether it worked."""
    of = sighting.consumer if isinstance(sighting, ConsumerSighting) else sighting.source.label
    try:
        variables.set(sighting.key, sighting.to_text(), description=_DESCRIPTION.format(repr(of)))
    except Exception as error:  # noqa: BLE001 - a run must not fail because people cannot look at it
        log.warning("What was seen of %s was not stored: %s", of, shown(error))
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


def read_seen(variables: VariableAccess, consumer: str | None = None) -> list[ConsumerSighting]:
    """Read what was seen of one consumer or of all, in a command or, from Airflow 3.3 on, in a task."""
    prefix = _PREFIXES[ConsumerSighting]
    keys = (
        [key for key in variables.keys(prefix=prefix) if _KEY.fullmatch(key)]
        if consumer is None
        else [consumer_sighting_key(consumer)]
    )
    found = (_read(variables, key, ConsumerSighting.parse) for key in keys)
    return [sighting for sighting in found if sighting is not None]


def _read(variables: VariableAccess, key: str, parse: Callable[[str], S]) -> S | None:
    try:
        return _parsed(variables.get(key), parse)
    except Exception as error:  # noqa: BLE001 - likewise
        log.warning("Variable %s was not read: %s", key, shown(error))
        return None


def _parsed(text: object, parse: Callable[[str], S]) -> S | None:
    """A sighting that is damaged, masked or of another release counts as none: the next one replaces it."""
    try:
        return parse(text) if isinstance(text, str) else None
    except PARSE_ERRORS:
        return None


def see_source(
    history: IcebergSource,
    look: lag.Look,
    *,
    committed: Position | None,
    pending: tuple[Position, Volume] | None = None,
) -> SourceSighting:
    """See how far a checkpoint is from the head of a loaded source, and for how long the table keeps what proves it.

    :param pending: where the pending capture ends, and what it captured
    """
    from airflow_provider_ips.iceberg.source.retention import retention_of

    since = look.at_ms if committed is None else committed.committed_at_ms
    retention = partial(retention_of, history, back_to_ms=since)
    seen = lag.see_source(history, look, committed=committed, retention=retention)
    if pending is None:
        return seen
    to, captured = pending
    return lag.with_pending(seen, history, look, to=to, captured=captured, retention=retention)


def note_change_by_hand(variables: VariableAccess, checkpoint: Checkpoint, *, now_ms: int) -> None:
    """Have pages and commands show nothing that was seen of positions which a person has moved since."""
    before = read_consumer(variables, checkpoint.consumer)
    if before is not None:
        positions = {each.source: each.position for each in checkpoint.positions}
        is_pending = checkpoint.pending is not None
        write(
            variables,
            lag.after_change_by_hand(before, positions=positions, is_pending=is_pending, now_ms=now_ms),
        )


def in_short(pending: PendingCapture) -> PendingSighting:
    """Describe the pending capture of a checkpoint."""
    return PendingSighting(capture_id=pending.capture_id, run=pending.run, started_at_ms=pending.started_at_ms)


def measure_lag(sighting: ConsumerSighting, *, pending_since_ms: int | None = None) -> None:
    """Send the lag of each source, whether the target is kept, and for how long a capture is pending, as metrics.

    :param pending_since_ms: now, if none is; None to send no age
    """
    send(_lag(sighting, pending_since_ms))


def _lag(sighting: ConsumerSighting, pending_since_ms: int | None) -> Iterator[Measurement]:
    now_ms, consumer = sighting.seen_at_ms, sighting.consumer
    if pending_since_ms is not None:
        yield Measurement("ips.pending.age", max(now_ms - pending_since_ms, 0) / 1000, consumer)
    for seen in sighting.sources:
        volume = seen.lag.volume
        values = {
            "ips.lag.seconds": seen.lag_s(now_ms),
            "ips.lag.commits": seen.lag.commits,
            "ips.lag.records": volume.records,
            "ips.lag.bytes": volume.size_bytes,
            "ips.runway.seconds": seen.runway_s(now_ms),
        }
        yield from (Measurement(name, value, consumer, seen.source.label) for name, value in values.items())
    is_kept = sighting.is_kept(now_ms)
    yield Measurement("ips.target.breached", None if is_kept is None else int(not is_kept), consumer)
