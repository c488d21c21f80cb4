"""The range of an earlier capture, planned once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.plan import replan
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.starting import starting_position

if TYPE_CHECKING:
    from airflow_provider_ips.core.checkpoint import SourceRange
    from airflow_provider_ips.core.history import TableHistory
    from airflow_provider_ips.core.selection import CapturePlan
    from airflow_provider_ips.core.settings import CaptureSettings


def plan_again(history: TableHistory, taken: SourceRange, settings: CaptureSettings) -> CapturePlan:
    """Plan the same range. A first run that began at a snapshot or a time had no committed position to start from."""
    start = taken.from_exclusive
    if start is None and taken.kind is Kind.RANGE and settings.start.kind in ("snapshot", "time"):
        initial = settings.start
        start = starting_position(history, snapshot_id=initial.snapshot_id, time_ms=initial.time_ms)
    return replan(
        history,
        kind=taken.kind,
        from_exclusive=start,
        to_inclusive=taken.to_inclusive,
        settings=settings,
        attempted=taken.attempted,
    )
