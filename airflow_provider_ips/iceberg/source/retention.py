"""How long a source keeps its snapshots, by its properties and those of the branch."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ips.core.advice.retention import MAX_AGE, MAX_REF_AGE, MIN_KEPT, RetentionFacts
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, ancestors
from airflow_provider_ips.core.lineage.expired_history import is_probably_first_snapshot
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource


def retention_of(source: IcebergSource, *, back_to_ms: int) -> RetentionFacts:
    """Read the rules of the branch, or else of the table, and the times of its snapshots back to ``back_to_ms``.

    Reads no file.
    """
    properties = source.metadata.properties
    ref = source.metadata.refs.get(source.branch)
    chain = _newest(source, back_to_ms)
    own_age = ref.max_snapshot_age_ms if ref else None
    own_kept = ref.min_snapshots_to_keep if ref else None
    own_ref_age = ref.max_ref_age_ms if ref else None
    is_main = source.branch == "main"  # Iceberg never expires it
    return RetentionFacts(
        source=source.name,
        max_age_ms=_number(properties, MAX_AGE) if own_age is None else own_age,
        min_kept=(_number(properties, MIN_KEPT) or 1) if own_kept is None else own_kept,
        max_ref_age_ms=None if is_main else (_number(properties, MAX_REF_AGE) if own_ref_age is None else own_ref_age),
        committed_at_ms=tuple(snapshot.committed_at_ms for snapshot in chain),
        is_cut_off=bool(chain)
        and chain[-1].committed_at_ms > back_to_ms
        and not is_probably_first_snapshot(source, chain[-1]),
    )


def _newest(source: IcebergSource, back_to_ms: int) -> list[SnapshotFacts]:
    """The snapshots back to a time, and one older. The whole history may be a hundred thousand of them."""
    chain: list[SnapshotFacts] = []
    for snapshot in ancestors(source, source.head):
        chain.append(snapshot)
        if snapshot.committed_at_ms <= back_to_ms:
            break
    return chain


def _number(properties: Mapping[str, str], name: str) -> int | None:
    raw = properties.get(name, "")
    return int(raw) if raw.isascii() and raw.isdigit() else None
