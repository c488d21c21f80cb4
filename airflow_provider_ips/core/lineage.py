"""The walk that proves a range: from its end back to its start, without a hole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.gaps import gap_error
from airflow_provider_ips.core.history import ancestors
from airflow_provider_ips.core.roots import follows_directly, is_proven_root

if TYPE_CHECKING:
    from airflow_provider_ips.core.history import SnapshotFacts, TableHistory
    from airflow_provider_ips.core.positions import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The snapshots of a range, oldest first, proven to follow on ``from`` without a hole."""

    snapshots: tuple[SnapshotFacts, ...]


def prove_lineage(history: TableHistory, *, after: Position, to: SnapshotFacts | None) -> Lineage:
    """Walk from ``to`` until ``after`` is reached, or raise :class:`GapError` saying why it never was.

    Walking until parents run out is not enough: after a rollback the walk passes ``after`` by and returns everything,
    after expiry it stops early and returns too little.
    """
    _same_table(history, after)
    chain: list[SnapshotFacts] = []
    for snapshot in ancestors(history, to):
        if snapshot.snapshot_id == after.snapshot_id:
            return _oldest_first(chain)
        chain.append(snapshot)
    if _begins_behind(history, chain, after):
        return _oldest_first(chain)
    raise gap_error(history, after, chain)


def _begins_behind(history: TableHistory, chain: list[SnapshotFacts], after: Position) -> bool:
    """Whether the last snapshot that the walk found was committed right behind ``after``."""
    if after.snapshot_id is None:
        return not chain or is_proven_root(history, chain[-1])
    return bool(chain) and follows_directly(history, chain[-1], after.snapshot_id)


def _oldest_first(chain: list[SnapshotFacts]) -> Lineage:
    return Lineage(snapshots=tuple(reversed(chain)))


def _same_table(history: TableHistory, position: Position) -> None:
    if position.table_uuid != history.table_uuid:
        raise GapError(
            f"{history.name} is another table now: the checkpoint belongs to uuid {position.table_uuid}, "
            f"the catalog has {history.table_uuid}",
            consequence="It was dropped and created again, or replaced, so no range connects the two",
            remedy="if the new table continues the old one, start again from it: on_gap='full' for one run, "
            "or `airflow ips reset` and then `airflow ips seed`",
        )
