"""A consumer: the runs of one DAG, each of a capture, its job and its commit, and how they may fail."""

from __future__ import annotations

import json
from collections import Counter
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from airflow_provider_ips.core.checkpoint.manual_changes import reset
from airflow_provider_ips.core.checkpoint.resolution import resolve_capture
from airflow_provider_ips.core.checkpoint.store import InMemoryStore
from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.core.positions import RunIdentity
from airflow_provider_ips.core.requests.request import RunKind, RunRequest
from airflow_provider_ips.core.results.capture_record import CaptureRecord
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.runs.commit import CommitRun
from airflow_provider_ips.runs.detached import DetachedRange
from airflow_provider_ips.runs.pending import PendingRun
from airflow_provider_ips.runs.request import CaptureRequest
from tests.model.catalog import Crash
from tests.model.jobs import INSERTS, Input, JobRefusedError, Target, run_job
from tests.model.law import Attempt, Run, broken, keep_law, keep_replay, takes_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog as PyIcebergCatalog

    from airflow_provider_ips.core.results.capture_record import SourceRecord
    from tests.model.catalog import Catalog
    from tests.model.table import Table

NAME: Final = "dag.capture"

BEFORE_THE_JOB: Final = ("begun", "one table", "captured")
CRASHES: Final = (*BEFORE_THE_JOB, "half", "wrote", "committed")
"""After which step a run may die: the pending capture is written, one ICDC table is made, all of them are, the job has
run its first statement, all of them, the checkpoint has moved."""


@dataclass(slots=True)
class Consumer:
    """One DAG and its checkpoint."""

    catalog: Catalog
    tables: list[Table]
    settings: CaptureSettings
    job: str
    merges_full: bool = False
    """All live rows are merged like others, and the target is emptied before if a warning says so."""

    skip_if_empty: bool = True
    store: InMemoryStore = field(default_factory=InMemoryStore)
    targets: dict[str, Target] = field(init=False)
    runs: list[Run] = field(default_factory=list)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    stamps: set[tuple[str, str]] = field(default_factory=set)
    """The jobs that have inserted the rows of a capture."""

    commits: int = 0
    is_refreshed: bool = False
    """A full refresh that moves no checkpoint has written to the target since the last commit."""

    def __post_init__(self) -> None:
        self.targets = {table.name: Target(table) for table in self.tables}

    @property
    def is_dirty(self) -> bool:
        """A run wrote to the target and has not committed."""
        return self.is_refreshed or any(a.has_begun and not a.is_committed for a in self.attempts.values())

    # what may happen

    def run(self, crash: str = "") -> str:
        """A new run."""
        return self._execute(self._new_run(RunRequest()), crash)

    def full(self, how: str, crash: str = "") -> str:
        """A new run with ips_run='full', which "moves" the checkpoint or stays "beside" it."""
        return self._execute(self._new_run(RunRequest(kind=RunKind.FULL, move_checkpoint=how == "moves")), crash)

    def clear(self, back: int = 0, crash: str = "") -> str:
        """Clear a run: its capture, job and commit run again, with the settings of now."""
        return self._execute(self.runs[-1 - back % len(self.runs)], crash) if self.runs else "no run to clear"

    def late_commit(self, which: int) -> str:
        """The commit of an earlier capture comes only now; its job had succeeded."""
        waiting = [a for a in self.attempts.values() if a.has_written and not a.is_committed]
        return _reported(lambda: self._commit(waiting[which % len(waiting)])) if waiting else "no commit to come"

    def reset(self) -> str:
        """`airflow ips reset`, with the target emptied."""
        checkpoint = self.store.read(NAME)
        if checkpoint is None:
            return "nothing to reset"
        self.store.write(reset(checkpoint), expected_revision=checkpoint.revision)
        self.targets = {table.name: Target(table) for table in self.tables}
        self.attempts, self.is_refreshed = {}, False
        return ""

    def correct(self, job: str, changed: dict[str, Any]) -> str:
        """The DAG's author changes settings, and perhaps the job with them.

        What another job has left half done is no concern of this one: with it the target is set back to its last
        commit.
        """
        if job not in ("", self.job) and self.is_dirty:
            for target in self.targets.values():
                target.rows = Counter(target.expected)
            self.stamps -= {(a.job, id_) for id_, a in self.attempts.items() if not a.is_committed}
            self._forget_unfinished()
        self.job = job or self.job
        others = {"on_other_operation": "fail", "full_refresh_above": None, "on_superset": "fail"}
        fallback = others if "data_operations" in changed else {}
        self.settings = replace(self.settings, **{**fallback, **changed})
        return ""

    # one run

    def _new_run(self, request: RunRequest) -> Run:
        number = len(self.runs)
        run_after = f"2026-01-{1 + number % 28:02}T00:00:00+00:00"
        identity = RunIdentity(dag_id="dag", run_id=f"run{number}", map_index=-1, run_after=run_after)
        self.runs.append(Run(identity, request, self.commits))
        return self.runs[-1]

    def _execute(self, run: Run, crash: str) -> str:
        self.catalog.registers_until_crash = {"begun": 0, "one table": 1}.get(crash)
        try:
            return _reported(lambda: (self._refresh if run.request.is_detached else self._follow)(run, crash))
        except Crash:
            return "dies in the capture"
        finally:
            self.catalog.registers_until_crash = None

    def _follow(self, run: Run, crash: str) -> str:
        """Capture, job and commit."""
        attempt = self._capture(run)
        captured = _in_short(attempt.record)
        if attempt.record.context.settled:
            self._moved(attempt)
            return f"{captured}, settled"
        if attempt.record.is_empty and self.skip_if_empty:
            if not attempt.record.context.replayed:
                self._check(attempt)
            return f"{captured}, skipped"
        if crash in BEFORE_THE_JOB:
            return f"{captured}, dies before its job"
        self._write(attempt, halfway=crash == "half")
        if crash == "half":
            return f"{captured}, dies in its job"
        attempt.has_written = True
        return f"{captured}, " + ("dies before its commit" if crash == "wrote" else self._commit(attempt))

    def _capture(self, run: Run) -> Attempt:
        checkpoint = self.store.read(NAME)
        capture = PendingRun(
            request=self._request(run),
            catalog=cast("PyIcebergCatalog", self.catalog),
            store=self.store,
            checkpoint=checkpoint,
            resolution=resolve_capture(checkpoint, run.identity),
            now_ms=self._now_ms,
        )
        record = _as_xcom(capture.execute())
        is_again = record.capture_id in self.attempts
        attempt = self._attempt(run, record)
        for source in () if is_again else record.sources:  # a retry begins where the first attempt did
            if checkpoint is None or checkpoint.position_of(source.source) is None:
                self._seed(attempt, source)
        return attempt

    def _attempt(self, run: Run, record: CaptureRecord) -> Attempt:
        is_resync = any("resync" in warning for source in record.sources for warning in source.warnings)
        attempt = Attempt(run, record, self.settings, self.job, self.merges_full, is_resync=is_resync)
        before = self.attempts.get(record.capture_id)
        if before is not None:
            attempt.is_resync = is_resync or before.is_resync
            attempt.has_begun, attempt.is_committed = before.has_begun, before.is_committed
            attempt.inserted, attempt.was, attempt.committed_by = before.inserted, before.was, before.committed_by
        self.attempts[record.capture_id] = attempt
        return attempt

    def _request(self, run: Run) -> CaptureRequest:
        return CaptureRequest(
            consumer=NAME,
            run=run.identity,
            sources=tuple((SourceTable(table.name), self.settings) for table in self.tables),
            mode="ICDC",
            icdc_namespace="icdc",
            icdc_location=None,
            skip_if_empty=self.skip_if_empty,
            history_length=50,
            iceberg_conn_id="model",
            run_request=run.request,
        )

    @property
    def _now_ms(self) -> int:
        return max(table.now_ms for table in self.tables)

    def _seed(self, attempt: Attempt, source: SourceRecord) -> None:
        """Where a consumer does not begin with the whole table, its target is right up to where it begins."""
        target, initial = self.targets[source.source.table], self.settings.start
        if takes_all(attempt, source) or initial.kind == "full":
            return
        table, head = target.table, source.to_inclusive.snapshot_id
        if initial.kind == "latest":
            at = head
        elif initial.kind == "snapshot":
            at = initial.snapshot_id
        else:
            line = table.line_of(head)
            at = next((s for s in table.line_of(table.shown_at(initial.time_ms or 0)) if s in line), None)
        if not target.is_seeded or target.at != at:
            target.is_seeded, target.at, target.rows = True, at, table.rows_at(at)
            target.expected = Counter(target.rows)

    def _write(self, attempt: Attempt, *, halfway: bool) -> None:
        record, stamp = attempt.record, (attempt.job, attempt.record.capture_id)
        if attempt.job in INSERTS and record.context.replayed:
            for name, rows in attempt.was.items():
                self.targets[name].rows = Counter(rows)  # people remove what a run inserted before they clear it
            self.stamps.discard(stamp)
        if attempt.job in INSERTS and stamp in self.stamps:
            return
        attempt.has_begun = True
        attempt.was = {name: Counter(target.rows) for name, target in self.targets.items()}
        for source in record.sources:
            target = self.targets[source.source.table]
            given = Input(
                source=source,
                rows=self.catalog.read(source.icdc_table, target.table),
                before=self.catalog.read(source.before_table, target.table),
                truth=target.table.rows_at(source.to_inclusive.snapshot_id),
            )
            new = run_job(attempt.job, given, target, merges_full=attempt.merges_full, halfway=halfway)
            attempt.inserted[source.source.table] = new
        if not halfway:
            self.stamps.add(stamp)

    def _commit(self, attempt: Attempt) -> str:
        record = attempt.record
        report = CommitRun(
            record=record,
            open_store=lambda: self.store,
            open_catalog=lambda: cast("PyIcebergCatalog", self.catalog),
            run=attempt.run.identity,
            icdc_retention="next_commit",
            history_length=50,
            now_ms=self._now_ms,
        ).execute()
        if report.outcome == "advanced":
            attempt.is_committed, attempt.committed_by = True, attempt.job
            self.commits += 1
            self._moved(attempt)
        elif report.outcome == "replayed" and not self.is_dirty:
            for source in record.sources:
                keep_replay(attempt, source, self.targets[source.source.table])
        return report.outcome

    def _check(self, attempt: Attempt) -> None:
        """There is nothing to process, and the run is green: the target must be as right as after a commit."""
        for source in attempt.record.sources:
            keep_law(attempt, source, copy(self.targets[source.source.table]))

    def _moved(self, attempt: Attempt) -> None:
        """The checkpoint has moved."""
        for source in attempt.record.sources:
            keep_law(attempt, source, self.targets[source.source.table])
        self._forget_unfinished()

    def _forget_unfinished(self) -> None:
        self.is_refreshed = False
        for attempt in self.attempts.values():
            attempt.has_begun = False

    def _refresh(self, run: Run, crash: str) -> str:
        """Empty the target and insert all live rows, beside the checkpoint. Cleared, it writes the same rows again.

        If a run has committed since, it is refused by the clock of Airflow, which the model does not have.
        """
        if run.commits_before != self.commits:
            return "refused: another run has committed since"
        capture = DetachedRange(
            request=self._request(run),
            catalog=cast("PyIcebergCatalog", self.catalog),
            checkpoint=self.store.read(NAME),
            refuse_conflict=lambda _: None,
            store=self.store,
        )
        record = _as_xcom(capture.execute())
        attempt = Attempt(run, record, self.settings, self.job, self.merges_full)
        captured = f"{_in_short(record)}, detached"
        if crash in BEFORE_THE_JOB:
            return f"{captured}, dies before its job"
        self.is_refreshed = True
        for source in record.sources:
            target = self.targets[source.source.table]
            if source.icdc_table is not None:
                target.rows = Counter()
                if crash == "half":
                    continue
                target.rows = Counter(read.row for read in self.catalog.read(source.icdc_table, target.table))
                truth = target.table.rows_at(source.to_inclusive.snapshot_id)
                if target.rows != truth:
                    raise broken(attempt, target, truth, "a full refresh")
        if crash in ("half", "wrote"):
            return f"{captured}, dies {'in its job' if crash == 'half' else 'before its commit'}"
        return f"{captured}, {self._commit(attempt)}"


def _as_xcom(record: CaptureRecord) -> CaptureRecord:
    """The record as later tasks read it."""
    return CaptureRecord.from_json(json.loads(json.dumps(record.to_json())))


def _reported(step: Callable[[], str]) -> str:
    """What a step says, or the error by which it reports that it cannot go on."""
    try:
        return step()
    except IpsError as error:
        return f"reports {type(error).__name__}: {error.problem}"
    except (JobRefusedError, FileNotFoundError) as error:
        return f"the job fails: {error}"


def _in_short(record: CaptureRecord) -> str:
    return " and ".join(
        f"{source.kind} {source.from_exclusive and source.from_exclusive.snapshot_id}"
        f"→{source.to_inclusive.snapshot_id}{' (superset)' if source.superset else ''}"
        f"{' again' if record.context.replayed else ''}"
        for source in record.sources
    )
