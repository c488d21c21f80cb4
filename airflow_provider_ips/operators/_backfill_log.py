"""A planned backfill, in words for the task's log: what is asked, stage by stage, and each chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.backfill import total
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.operators._log import fact, volume

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_ips.operators._backfill_plan import Planned
    from airflow_provider_ips.operators._backfill_stages import Stage


def plan_lines(planned: Planned) -> Iterator[str]:
    """Tell the whole, then stage by stage, then every chunk, folded: there may be hundreds."""
    source = planned.wanted.source
    label = source.table if source.branch == "main" else f"{source.table} (branch {source.branch})"
    yield f"Backfill of {label}: {planned.wanted.asked}"
    if planned.from_exclusive is not None:
        yield fact("after", planned.from_exclusive)
    yield fact("up to", planned.planned_at)
    if planned.was_pinned:
        yield fact("again", "as this run has planned it before")
    if planned.column is not None:
        yield fact("cut by", planned.column)
    yield fact("writes", ", ".join(planned.wanted.targets))
    yield f"Stage 1, {label}: {_partitions(sum(unit.partitions for unit in planned.units))}{_all(planned)}"
    for number, stage in enumerate(planned.stages, start=2):
        yield f"Stage {number}, {stage.table}: {stage_told(stage)}"
    if planned.stages:
        yield fact("note", "stages behind capture what really changed there, be it less, or more where they lack rows")
    yield from _chunks(planned)


def stage_told(stage: Stage) -> str:
    """What it holds now is no bound: what it lacks will be new there."""
    if stage.unknown:
        return f"unknown, because {stage.unknown}"
    if not stage.files:
        return "holds none of these partitions now: all that comes is new"
    amount = Volume(files=stage.files, records=stage.records, size_bytes=stage.size_bytes)
    return f"holds now {_partitions(stage.partitions or 0)}{volume(amount)}"


def _chunks(planned: Planned) -> Iterator[str]:
    if not planned.chunks:
        return
    yield f"::group::Chunks: {len(planned.chunks)}"
    for chunk in planned.chunks:
        amount = Volume(files=chunk.files, records=chunk.records, size_bytes=chunk.size_bytes)
        count = _partitions(chunk.partitions) if chunk.partitions > 1 else ""
        yield f"{chunk.number}: {chunk.label} ({count}{volume(amount)})"
    yield "::endgroup::"


def _all(planned: Planned) -> str:
    units = planned.units
    return volume(
        Volume(
            files=total(unit.files for unit in units),
            records=total(unit.records for unit in units),
            size_bytes=total(unit.size_bytes for unit in units),
        )
    )


def _partitions(count: int) -> str:
    """Nothing of a range of snapshots: it is not made of partitions."""
    return "" if not count else f"{count:,} partition{'' if count == 1 else 's'}, "
