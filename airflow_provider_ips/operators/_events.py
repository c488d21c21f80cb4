"""What a commit tells of its target assets: which capture reached them, and no event where nothing was processed.

Airflow emits an event of every plain outlet of a successful task. An asset alias emits only what the task adds to it,
so targets stand behind aliases. Events with partition keys cannot pass through an alias (Airflow drops the keys there):
those targets are outlets, taken back where nothing was processed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Asset, AssetAlias

from airflow_provider_ips.assets.uris import SCHEME, TableUri
from airflow_provider_ips.core.errors import EvidenceError, InputError
from airflow_provider_ips.operators import _context

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import BaseOperator, Context

MAX_LISTED_PARTITIONS: Final = 50
"""How many partitions an event lists by itself; each has an event of its own, and the count is always told."""

MAX_KEY_LENGTH: Final = 250
"""Airflow's column for partition keys."""

_TOLD: Final = ("source", "branch", "kind", "from", "to", "files", "records", "bytes", "partitions")
"""What an event tells of each source: all of it is in the record as well, and none of it is long."""


def parse_targets(value: object, *, outlets: Sequence[object], partition_events: bool) -> tuple[Asset, ...]:
    """Read the targets of a commit."""
    targets = as_list(value)
    for target in targets:
        if not isinstance(target, Asset):
            raise InputError(
                f"target_assets: {target!r} is no Asset",
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
                f"partition_events=True, and asset {target.name!r} is no Iceberg table",
                consequence="Nothing tells which of its partitions were written",
                remedy='make it with iceberg_asset("db.t", …), or leave partition_events out',
            )
    return tuple(targets)


def as_list(value: object) -> list[Any]:
    """One thing or several."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def outlets_of(targets: Sequence[Asset], *, partition_events: bool) -> list[Asset | AssetAlias]:
    """What Airflow is told at parse."""
    return list(targets) if partition_events else [_alias(target) for target in targets]


def _alias(target: Asset) -> AssetAlias:
    """One alias per asset, whoever writes it: what is emitted through it is that asset and no other."""
    return AssetAlias(f"ips:{target.name}")


def told_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """What an event repeats of a capture's record. A replay is whatever moves no checkpoint."""
    requested = record["requested"]
    return {
        "capture_id": record["capture_id"],
        "consumer": record["consumer"],
        "replay": bool(requested["replayed"] or requested.get("detached")),
        "sources": [{name: source[name] for name in _TOLD} for source in record["sources"]],
    }


def has_rows(told: Mapping[str, Any]) -> bool:
    """Whether a capture took anything; with ``skip_if_empty=False`` a job runs over tables without rows."""
    from airflow_provider_ips.core.record import Kind  # a DAG that is parsed has no record

    return any(source["kind"] != Kind.EMPTY.value for source in told["sources"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What one run of a commit has to tell of its targets. Read before the checkpoint moves: reading may fail."""

    targets: tuple[Asset, ...]
    captures: tuple[Mapping[str, Any], ...]
    partitions: Mapping[str, tuple[str, ...]] | None

    @classmethod
    def prepare(
        cls, targets: tuple[Asset, ...], captures: Sequence[Mapping[str, Any]], *, partition_events: bool
    ) -> Telling:
        """Look up the partitions that the job wrote, if they are to be told."""
        ids = [capture["capture_id"] for capture in captures]
        read = {target.uri: _partitions(target, ids) for target in targets} if partition_events and ids else {}
        return cls(targets=targets, captures=tuple(captures), partitions=read if partition_events else None)

    def emit(self, context: Context, task: BaseOperator) -> list[str]:
        """Give Airflow the events; it sends them once the task has succeeded. Returns the assets' names."""
        told = [target for target in self.targets if self._has_news(target)]
        # Airflow reads a task's outlets when it has succeeded, and emits an event of each plain one.
        task.outlets = [outlet for outlet in task.outlets if outlet not in self.targets or outlet in told]
        for target in told:
            self._emit(target, context)
        return [target.name for target in told]

    def _has_news(self, target: Asset) -> bool:
        """Nothing was captured, or with partitions nothing written: a job may find that none of the rows concern it."""
        return bool(self.captures) and (self.partitions is None or bool(self.partitions[target.uri]))

    def _emit(self, target: Asset, context: Context) -> None:
        extra: dict[str, Any] = {"schema_version": 1, "captures": list(self.captures)}
        if self.partitions is None:
            context["outlet_events"][_alias(target)].add(target, extra=extra)
            return
        keys = self.partitions[target.uri]
        extra |= {"partitions": list(keys[:MAX_LISTED_PARTITIONS]), "partition_count": len(keys)}
        accessor = context["outlet_events"][target]
        accessor.extra = extra
        accessor.add_partitions(list(keys))


def _partitions(target: Asset, capture_ids: Sequence[str]) -> tuple[str, ...]:
    """Which partitions of a target the snapshots stamped by these captures wrote or deleted from."""
    from airflow_provider_ips.core.stamps import STAMP
    from airflow_provider_ips.iceberg import open_source
    from airflow_provider_ips.iceberg.touched import touched_partitions

    uri = TableUri.parse(target.uri)
    table = open_source(_context.open_catalog(uri.iceberg_conn_id), str(uri.table), uri.branch)
    touched = [touched_partitions(table, capture_id) for capture_id in capture_ids]
    if None in touched:
        raise EvidenceError(
            f"no snapshot of {uri.table} carries the stamp of capture {capture_ids[touched.index(None)]}",
            consequence="Nothing tells which partitions the job wrote, and their events would be missing",
            remedy=f"let the job set the snapshot property {STAMP!r} and clear it, or leave partition_events out",
        )
    keys = sorted({key for keys in touched if keys is not None for key in keys})
    if too_long := next((key for key in keys if len(key) > MAX_KEY_LENGTH), None):
        raise InputError(
            f"the partition {too_long[:80]!r}… of {uri.table} makes a key of {len(too_long)} characters",
            consequence=f"Airflow takes at most {MAX_KEY_LENGTH}, and the event of this partition would be missing",
            remedy="leave partition_events out for this target",
        )
    return tuple(keys)
