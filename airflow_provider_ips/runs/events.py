"""The asset events of a commit: one for each target that the captured rows have reached, none if nothing was processed.

Airflow emits an event for every plain outlet of a successful task. An asset alias emits only what the task adds to it,
so the outlets are aliases of the targets. Airflow drops partition keys in an alias, so for events with partitions the
targets are the outlets, and are removed when nothing was processed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Asset, AssetAlias

from airflow_provider_ips import compat
from airflow_provider_ips.assets.uris import SCHEME, TableUri
from airflow_provider_ips.core.errors import EvidenceError, InputError
from airflow_provider_ips.runs import environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import BaseOperator, Context

    from airflow_provider_ips.core.results.capture_record import CaptureRecord


MAX_LISTED_PARTITIONS: Final = 50
"""How many partitions an event lists. Each has an event of its own, and the event has the number of all."""

MAX_KEY_LENGTH: Final = 250
"""The size of Airflow's column for partition keys."""

_IN_EVENTS: Final = ("source", "branch", "kind", "from", "to", "files", "records", "bytes", "partitions")
"""The fields of a source's record that an event repeats. All of them are short."""


def parse_targets(value: object, *, outlets: Sequence[object], partition_events: bool) -> tuple[Asset, ...]:
    """Read ``target_assets`` of a commit."""
    if partition_events:
        compat.refuse_partition_events()
    targets = as_list(value)
    for target in targets:
        if not isinstance(target, Asset):
            raise InputError(
                f"target_assets: {target!r} is not an Asset",
                consequence="Airflow would not know which DAGs to start",
                remedy='pass iceberg_asset("db.t", iceberg_conn_id="…"), or a list of assets',
            )
        if target in outlets or targets.count(target) > 1:
            raise InputError(
                f"asset {target.name!r} is a target twice, or an outlet as well",
                consequence="Every run would emit it twice, or even when nothing was processed",
                remedy="name it in target_assets once, and leave it out of outlets",
            )
        if partition_events and not target.uri.startswith(f"{SCHEME}://"):
            raise InputError(
                f"partition_events=True, and asset {target.name!r} is not an Iceberg table",
                consequence="It is not known which of its partitions were written",
                remedy='make it with iceberg_asset("db.t", …), or leave partition_events out',
            )
    return tuple(targets)


def as_list(value: object) -> list[Any]:
    """Return a list of one value or of several."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def outlets_of(targets: Sequence[Asset], *, partition_events: bool) -> list[Asset | AssetAlias]:
    """Return the outlets of the commit, which Airflow reads at parse."""
    return list(targets) if partition_events else [_alias(target) for target in targets]


def _alias(target: Asset) -> AssetAlias:
    """Name one alias for each asset, so that only events of this asset are emitted through it."""
    return AssetAlias(f"ips:{target.name}")


def _event_of(record: CaptureRecord) -> dict[str, Any]:
    """Return what an event repeats of a capture's record. ``replay`` means that the checkpoint does not move."""
    return {
        "capture_id": record.capture_id,
        "consumer": record.consumer,
        "replay": record.context.replayed or record.context.is_detached,
        "sources": [
            {name: value for name, value in source.to_json().items() if name in _IN_EVENTS} for source in record.sources
        ],
    }


def _has_rows(record: CaptureRecord) -> bool:
    """Tell whether a job had anything to process: with ``skip_if_empty=False`` it runs over empty tables, too."""
    from airflow_provider_ips.core.record import Kind  # parsing a DAG file does not need it

    return (
        not record.context.settled
        and bool(record.icdc_tables)
        and any(source.kind is not Kind.EMPTY for source in record.sources)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEvents:
    """The events of a commit's target assets. Prepared before the checkpoint moves, because reading may fail."""

    targets: tuple[Asset, ...]
    capture: Mapping[str, Any] | None
    """What the events say of the capture; None if it had no rows, and there is no event."""

    partitions: Mapping[str, tuple[str, ...]] | None
    """By the target's URI, the keys of the partitions that the job wrote; None for events without partitions."""

    @classmethod
    def prepare(cls, targets: tuple[Asset, ...], record: CaptureRecord, *, partition_events: bool) -> TargetEvents:
        """Look up the partitions that the job wrote, if events name them."""
        if not _has_rows(record):
            return cls(targets=targets, capture=None, partitions=None)
        read = {target.uri: _partitions(target, record.capture_id) for target in targets} if partition_events else None
        return cls(targets=targets, capture=_event_of(record), partitions=read)

    def emit(self, context: Context, task: BaseOperator) -> list[str]:
        """Hand the events to Airflow, which sends them once the task has succeeded. Returns the assets' names."""
        emitted = [target for target in self.targets if self._was_written(target)]
        # Airflow reads a task's outlets when it has succeeded, and emits an event for each plain one.
        task.outlets = [outlet for outlet in task.outlets if outlet not in self.targets or outlet in emitted]
        for target in emitted:
            self._emit(target, context)
        return [target.name for target in emitted]

    def _was_written(self, target: Asset) -> bool:
        """A job may find that none of the captured rows concern it: then it writes no partition."""
        return self.capture is not None and (self.partitions is None or bool(self.partitions[target.uri]))

    def _emit(self, target: Asset, context: Context) -> None:
        extra: dict[str, Any] = {"schema_version": 1, "captures": [self.capture]}
        if self.partitions is None:
            context["outlet_events"][_alias(target)].add(target, extra=extra)
            return
        keys = self.partitions[target.uri]
        extra |= {"partitions": list(keys[:MAX_LISTED_PARTITIONS]), "partition_count": len(keys)}
        accessor = context["outlet_events"][target]
        accessor.extra = extra
        accessor.add_partitions(list(keys))


def _partitions(target: Asset, capture_id: str) -> tuple[str, ...]:
    """List the partitions of a target that the snapshots with the capture's stamp wrote or deleted from."""
    from airflow_provider_ips.core.advice.target_evidence import STAMP
    from airflow_provider_ips.iceberg.partitions.partition_sets import written_partitions
    from airflow_provider_ips.iceberg.source.iceberg_source import open_source

    uri = TableUri.parse(target.uri)
    table = open_source(environment.open_catalog(uri.iceberg_conn_id), uri.source)
    written = written_partitions(table, capture_id)
    if written is None:
        raise EvidenceError(
            f"no snapshot of {uri.table} has the stamp of capture {capture_id}",
            consequence="It is not known which partitions the job wrote, and their events would be missing",
            remedy=f"let the job set the snapshot property {STAMP!r} and clear it, or leave partition_events out",
        )
    if too_long := next((key for key in written if len(key) > MAX_KEY_LENGTH), None):
        raise InputError(
            f"the partition {too_long[:80]!r}… of {uri.table} makes a key of {len(too_long)} characters",
            consequence=f"Airflow takes at most {MAX_KEY_LENGTH}, and the event of this partition would be missing",
            remedy="leave partition_events out for this target",
        )
    return tuple(sorted(written))
