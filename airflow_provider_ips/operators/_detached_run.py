"""One execution of a capture that is detached from the checkpoint, which is read at most and never written.

The ICDC tables of an earlier attempt say where its range ended; before the first of them is there, nobody has seen any
range, and a retry may take another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.asked import Run
from airflow_provider_ips.core.attempts import Attempts
from airflow_provider_ips.core.checkpoint import SourceRange
from airflow_provider_ips.core.detached import plan_detached
from airflow_provider_ips.operators._preparing import Opened, Outcome, prepare_all, record_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.checkpoint import Checkpoint
    from airflow_provider_ips.core.detached import Detached
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.record import SourceRecord
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
    from airflow_provider_ips.iceberg import IcebergSource
    from airflow_provider_ips.operators._preparing import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachedRun:
    """A request, and the checkpoint as it stands: only a dry run of the usual range starts there."""

    request: Request
    detached: Detached
    catalog: Catalog
    checkpoint: Checkpoint | None
    claim: Callable[[Sequence[Opened]], Sequence[str]]
    """Notes down what is going to be written, and returns where; raises if another backfill is at work there."""

    def execute(self) -> Outcome:
        """Open and plan all sources, then count or build."""
        sources = self._open()
        prepared = prepare_all(
            self.request, self.catalog, sources, self._ranges(sources), identity=self.detached.identity
        )
        if self.request.asked.dry_run:
            return self._outcome([ready.survey() for ready in prepared])
        notes = self.claim(sources)
        return self._outcome([ready.publish() for ready in prepared], notes)

    def _outcome(self, records: Sequence[SourceRecord], notes: Sequence[str] = ()) -> Outcome:
        requested = {**self.request.requested, **({"notes": list(notes)} if notes else {})}
        request = replace(self.request, requested=requested)
        return Outcome(record=record_of(request, records, self.detached.capture_id), settled=False)

    def _open(self) -> list[Opened]:
        """Pin every source before any is narrowed: what is filtered is fixed first."""
        from airflow_provider_ips.iceberg import open_source

        histories = [open_source(self.catalog, table.table, table.branch) for table, _ in self.request.sources]
        opened = [
            self._planned(history, table, settings)
            for history, (table, settings) in zip(histories, self.request.sources, strict=True)
        ]
        return _narrowed(opened, self.request)

    def _planned(self, history: IcebergSource, table: SourceTable, settings: CaptureSettings) -> Opened:
        committed = None if self.checkpoint is None else self.checkpoint.position_of(table.table, table.branch)
        plan = plan_detached(
            history,
            self.request.asked,
            settings,
            committed=committed,
            attempts=Attempts.pending(self.checkpoint, table.table, table.branch),
            pinned=self._pinned(history, table),
        )
        return Opened(table=table, settings=settings, history=history, plan=plan, committed=plan.from_exclusive)

    def _pinned(self, history: IcebergSource, table: SourceTable) -> Position | None:
        """The rows' origin is made first, so an attempt that died in between has left that alone."""
        from airflow_provider_ips.iceberg.pinned import pinned_end

        if self.request.asked.dry_run:
            return None
        names = [self.detached.table_name(table.table, table.branch, role) for role in ("", "before")]
        ends = (pinned_end(self.catalog, history, name, capture_id=self.detached.capture_id) for name in names)
        found = next((end for end in ends if end is not None), None)
        chunk = self.request.chunk
        return found if found is not None or chunk is None or chunk.as_of is None else _at(history, chunk.as_of)

    def _ranges(self, sources: Sequence[Opened]) -> list[SourceRange]:
        gained = any(not source.plan.is_empty for source in sources)
        has_tables = not self.request.asked.dry_run and (gained or not self.request.skip_if_empty)
        return [self._range(source, has_tables=has_tables) for source in sources]

    def _range(self, source: Opened, *, has_tables: bool) -> SourceRange:
        table, branch = source.table.table, source.table.branch
        has_before = has_tables and source.settings.captures_changes
        return SourceRange(
            source=table,
            branch=branch,
            kind=source.plan.kind,
            from_exclusive=source.plan.from_exclusive,
            to_inclusive=source.plan.to_inclusive,
            icdc_table=self.detached.table_name(table, branch) if has_tables else None,
            before_table=self.detached.table_name(table, branch, "before") if has_before else None,
        )


def _at(history: IcebergSource, snapshot_id: str) -> Position:
    from airflow_provider_ips.iceberg import position_at

    return position_at(history, snapshot_id=int(snapshot_id))


def _narrowed(sources: list[Opened], request: Request) -> list[Opened]:
    """Every source must be able to tell. Ask back if all that there was is passed over, or nothing is.

    Not where a plan has asked already, and not where nobody has: a run of Airflow's backfill has its interval.
    """
    from airflow_provider_ips.iceberg import narrowing

    condition, chunk = request.asked.partitions, request.chunk
    if chunk is not None and chunk.is_of_partitions:
        return [
            replace(source, plan=narrowing.narrow_to_chunk(source.history, source.plan, chunk)) for source in sources
        ]
    if condition is None:
        return sources
    narrowed = [replace(source, plan=narrowing.narrow(source.history, source.plan, condition)) for source in sources]
    had = next((source for source in sources if not source.plan.is_empty), None)
    if had is None or request.takes_anew is not None or chunk is not None:
        return narrowed
    if all(source.plan.is_empty for source in narrowed):
        raise narrowing.selects_nothing(had.history, had.plan, condition)
    if request.asked.run is Run.PARTITIONS and not request.asked.everything:
        _ask_if_everything(sources, narrowed, condition)
    return narrowed


def _ask_if_everything(sources: list[Opened], narrowed: list[Opened], condition: str) -> None:
    from airflow_provider_ips.iceberg.narrowing import passes_over_nothing, selects_everything

    if all(passes_over_nothing(one.plan, other.plan) for one, other in zip(sources, narrowed, strict=True)):
        raise selects_everything(narrowed[0].history, narrowed[0].plan, condition)
