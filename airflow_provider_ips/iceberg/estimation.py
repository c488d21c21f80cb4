"""What a table would save, from metadata alone: daily runs of the past, as a lookback and as captures."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.advice.checks import check_retention
from airflow_provider_ips.core.advice.estimate import CANDIDATES, DayEstimate, Estimate, RowsBetween, parse_days
from airflow_provider_ips.core.errors import IpsError, RefusedOperationError
from airflow_provider_ips.core.history.files import DATA
from airflow_provider_ips.core.history.selections import CapturePlan, Take
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, ancestors, position_of
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.lineage.expired_history import is_probably_first_snapshot
from airflow_provider_ips.core.planning.plan import plan_between
from airflow_provider_ips.core.record import Kind, Volume
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.iceberg.gc_pause import gc_paused
from airflow_provider_ips.iceberg.partitions.file_days import NO_DAY, DateColumn, DayTally, Span
from airflow_provider_ips.iceberg.partitions.partition_fields import EPOCH_DAY
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource, open_source
from airflow_provider_ips.iceberg.source.retention import retention_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.history.files import ManifestFacts

DAY_MS: Final = 24 * 3600 * 1000
MANIFESTS_AT_ONCE: Final = 4
"""Read at a time: on object stores the requests overlap."""

Counts = Sequence[tuple[Span | None, Sequence[int]]]
"""Files, rows and bytes by span."""


def estimate(
    catalog: Catalog,
    table: str,
    *,
    lookback: str | int = "14d",
    column: str | None = None,
    runs: str | int = "30d",
    branch: str = "main",
    now_ms: int | None = None,
) -> Estimate:
    """Compare a daily job that reads a lookback with one that reads captures, for a table that is not captured yet.

    Opens the table's metadata, manifest lists and manifests; no data file, and nothing is written.

    :param catalog: a PyIceberg catalog
    :param table: the table, as ``namespace.table``
    :param lookback: the days that the job reads again in every run, counted by ``column``, such as ``"14d"``
    :param column: the column that the job filters by; by default the one that the table is partitioned by in time
    :param runs: how many days back the runs go, such as ``"30d"``
    :param now_ms: the end of today's run, in milliseconds since 1970; by default now
    """
    window, days = parse_days("lookback", lookback), parse_days("runs", runs)
    now = int(time.time() * 1000) if now_ms is None else now_ms
    with gc_paused():
        source = open_source(catalog, Source(table, branch))
    study = _Study(source, DateColumn(source, column), window)
    moments = [*((now // DAY_MS - ago) * DAY_MS for ago in reversed(range(days))), now]
    estimated, settings = study.days(moments)
    retention = check_retention(retention_of(source, back_to_ms=now - DAY_MS), source.name, gap_ms=DAY_MS, now_ms=now)
    return Estimate(
        table=table,
        branch=branch,
        column=study.column.name,
        column_known_by=study.column.known_by,
        lookback_days=window,
        days=tuple(estimated),
        settings=settings,
        retention=retention,
        notes=tuple(study.notes(days, estimated)),
    )


@dataclass(slots=True)
class _Study:
    """One table. Every manifest is read once, whichever days list it."""

    source: IcebergSource
    column: DateColumn
    window: int
    _tallies: dict[str, DayTally] = field(default_factory=dict)
    _chain: list[SnapshotFacts] = field(default_factory=list)
    """The retained lineage, oldest first."""

    def days(self, moments: Sequence[int]) -> tuple[list[DayEstimate], CaptureSettings]:
        """Estimate the runs between each two moments, with the first settings that refuse none of them."""
        self._chain = list(ancestors(self.source, self.source.head))[::-1]
        for settings in CANDIDATES[:-1]:
            try:
                return list(self._runs(moments, settings, refuses=True)), settings
            except RefusedOperationError:
                continue
        return list(self._runs(moments, CANDIDATES[-1], refuses=False)), CANDIDATES[-1]

    def _runs(self, moments: Sequence[int], settings: CaptureSettings, *, refuses: bool) -> Iterator[DayEstimate]:
        for start_ms, end_ms in pairwise(moments):
            end = self._head_at(end_ms)
            if end is None and self._is_complete:
                continue  # the table did not exist yet
            yield self._run(start_ms, end_ms, end, settings, refuses=refuses)

    def _run(
        self, start_ms: int, end_ms: int, end: SnapshotFacts | None, settings: CaptureSettings, *, refuses: bool
    ) -> DayEstimate:
        day = start_ms // DAY_MS
        snapshots = [s for s in self._chain if start_ms < s.committed_at_ms <= end_ms]
        is_over = end_ms % DAY_MS == 0
        run = DayEstimate(
            day=(EPOCH_DAY + timedelta(days=day)).isoformat(),
            lookback=None if end is None else self._lookback(end, day),
            capture=None,
            operations=Counter(s.operation or "unknown" for s in snapshots),
            is_over=is_over,
        )
        begin = self._head_at(start_ms)
        if end is None or (begin is None and not self._is_complete):
            return replace(run, note="unknown: snapshots of this day have expired")
        after, to = position_of(self.source, begin), position_of(self.source, end)
        try:
            plan = plan_between(self.source, kind=Kind.RANGE, from_exclusive=after, to_inclusive=to, settings=settings)
        except IpsError as error:
            if refuses and isinstance(error, RefusedOperationError):
                raise
            return replace(run, note=f"unknown: {error.problem}")
        return self._captured(run, plan, day, note="" if is_over else "so far")

    def _captured(self, run: DayEstimate, plan: CapturePlan, day: int, *, note: str) -> DayEstimate:
        if plan.before or any(s.take not in (Take.WHOLE, Take.ADDED) for s in plan.selections):
            words = "late rows are not known, because rewritten files hold older rows as well"
            return replace(run, capture=self._changed(plan), note="; ".join(filter(None, (note, words))))
        taken = [s for s in plan.selections if s.manifest.content == DATA]
        tallies = self._read([s.manifest for s in taken])
        counts = [
            counted
            for s, tally in zip(taken, tallies, strict=True)
            for counted in tally.live(only_added=s.take is Take.ADDED)
        ]
        return replace(
            run,
            capture=_volume(counts),
            late=_older_than(counts, day),
            missed=_older_than(counts, day - self.window + 1),
            note=note,
        )

    def _changed(self, plan: CapturePlan) -> Volume:
        """What a capture of changes reads, in both of its tables."""
        selected = [s for s in (*plan.selections, *plan.before) if s.manifest.content == DATA]
        files = [file for selection in selected for file in self.source.reads_selected(selection)]
        records, size_bytes = sum(file.records for file in files), sum(file.size_bytes for file in files)
        return Volume(files=len(files), records=records, size_bytes=size_bytes)

    def _lookback(self, head: SnapshotFacts, day: int) -> Volume:
        """What a condition on the column selects of the files that were live, with those whose days are unknown."""
        since = day - self.window + 1
        listed = self.source.reads_manifests(head.snapshot_id)
        manifests = [m for m in listed if m.content == DATA and m.may_have_live_files]
        counts = [counted for tally in self._read(manifests) for counted in tally.live()]
        return _volume([(span, count) for span, count in counts if span is None or span[1] >= since])

    def _read(self, manifests: Sequence[ManifestFacts]) -> list[DayTally]:
        """Tallies of manifests, in order. Those that were not read before are read several at a time."""
        new = [m for m in {m.path: m for m in manifests}.values() if m.path not in self._tallies]
        with ThreadPoolExecutor(max_workers=MANIFESTS_AT_ONCE) as pool:
            found = pool.map(lambda manifest: self.column.tally(self.source, manifest), new)
            self._tallies.update(zip((m.path for m in new), found, strict=True))
        return [self._tallies[manifest.path] for manifest in manifests]

    def _head_at(self, moment_ms: int) -> SnapshotFacts | None:
        return next((s for s in reversed(self._chain) if s.committed_at_ms <= moment_ms), None)

    @property
    def _is_complete(self) -> bool:
        """Whether the retained lineage seems to begin with the table itself. A plan proves it."""
        return not self._chain or is_probably_first_snapshot(self.source, self._chain[0])

    def notes(self, wanted: int, days: Sequence[DayEstimate]) -> Iterator[str]:
        """Say what the figures do not show."""
        counts = [counted for tally in self._tallies.values() for counted in tally.live(only_added=True)]
        unknown = sum(count[0] for span, count in counts if span is None)
        without = sum(count[1] for span, count in counts if span == NO_DAY)
        if unknown:
            yield (
                f"{unknown} files have no bounds of {self.column.name}: an engine cannot leave them out, so they count "
                "as read by every lookback, and their rows as perhaps late"
            )
        if without:
            yield f"{without} rows have no {self.column.name}: no lookback reads them, and a capture does"
        if not self._is_complete:
            yield "older snapshots have expired, so days before them are unknown"
        elif len(days) < wanted:
            yield f"the table has {len(days)} of the {wanted} days"
        if self.source.head is not None and self.source.head.count("total-delete-files"):
            yield "delete files are not counted, on either side"


def _volume(counts: Counts) -> Volume:
    files, rows, size = (sum(count[place] for _, count in counts) for place in range(3))
    return Volume(files=files, records=rows, size_bytes=size)


def _older_than(counts: Counts, day: int) -> RowsBetween:
    """How many rows are of earlier days: those of files that end before ``day``, and of files that begin before it."""
    least = sum(count[1] for span, count in counts if span is not None and span[1] < day)
    most = sum(count[1] for span, count in counts if span is None or span[0] < day)
    return RowsBetween(least=least, most=most)
