"""The second of the two tasks that make a DAG incremental."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_provider_ips.checkpoints.opening import open_store
from airflow_provider_ips.core.errors import EvidenceError, InputError
from airflow_provider_ips.core.identifiers import TableIdentifier
from airflow_provider_ips.operators import _context, _events, _evidence, _target, _wiring
from airflow_provider_ips.operators._demands import parse_required, parse_task_id
from airflow_provider_ips.operators._parameters import check_choice
from airflow_provider_ips.operators._target import EVIDENCE, STAMPED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow.sdk import Asset, Context
    from airflow.sdk.types import Operator

    from airflow_provider_ips.core.positions import RunIdentity
    from airflow_provider_ips.core.store import CheckpointStore
    from airflow_provider_ips.operators._commit_run import CommitRun

ICDC_RETENTION = ("next_commit", "drop", "keep")


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What a commit must know of a capture, as its record tells."""

    capture_id: str
    consumer: str
    run: RunIdentity
    iceberg_conn_id: str
    icdc_tables: tuple[str, ...]
    told: Mapping[str, Any]
    """What events of the target assets say of it."""

    settled: bool
    replayed: bool
    target_heads: Mapping[str, str | None] = field(default_factory=dict)
    """Where the targets stood when it began."""

    detached: bool = False
    """In no checkpoint: the work is asked for its evidence as always, and nothing moves."""

    notes: tuple[str, ...] = ()
    """Where a detached capture has said what its run is at work on."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Captured:
        """Read the XCom ``capture``."""
        from airflow_provider_ips.core.positions import RunIdentity

        requested = record["requested"]
        return cls(
            capture_id=record["capture_id"],
            consumer=record["consumer"],
            run=RunIdentity.from_json(requested["run"]),
            iceberg_conn_id=requested["iceberg_conn_id"],
            icdc_tables=tuple(
                table for s in record["sources"] for table in (s["icdc_table"], s["before_table"]) if table is not None
            ),
            told=_events.told_of(record),
            settled=requested["settled"],
            replayed=requested["replayed"],
            detached=requested.get("detached", False),
            notes=tuple(requested.get("notes", ())),
            target_heads=_target.heads_of(requested),
        )


class IpCommitOperator(BaseOperator):
    """
    Move the consumer's checkpoint to the end of what its capture took, in all sources at once.

    Asks for evidence first: every task between capture and commit must have succeeded in this run, whatever the trigger
    rules say. Pushes the XCom ``commit``, a small record of what it did.

    :param capture: The :class:`~airflow_provider_ips.operators.capture.IpCaptureOperator`, or its task id. Also sets
        the dependency.
    :param icdc_retention: What becomes of the ICDC tables: ``"next_commit"`` keeps them until the consumer commits
        again, so that the job alone can be cleared and run again; ``"drop"`` drops them now; ``"keep"`` leaves them for
        good.
    :param verify_target: A table that must carry this capture's stamp: a snapshot that the job made with the property
        ``ips-capture-id``. Reached through the capture's connection. (templated)
    :param target_evidence: ``"stamp"``, or ``"moved_head"`` for a job that cannot stamp: at least something must have
        been written to the target since the capture began, by whomever.
    :param require: The tasks, or their ids, whose success is demanded, in place of all between capture and commit. An
        entry that is a tuple or list names tasks that stand for each other: one of them must have succeeded.
    :param target_changes: The job changes or deletes rows of the targets that are named here, as ``MERGE`` does: a
        stage of the same file that captures only their appends is refused, and ``airflow ips doctor`` tells it of other
        files.
    :param target_assets: The assets that the job writes, such as ``iceberg_asset("db.t")``. Each gets an event when
        something was processed, and none otherwise; ``outlets`` get one in any case.
    :param partition_events: One event for each partition that the job wrote, with the partition as its key, in place of
        one event. The targets' snapshots must carry the capture's stamp.
    """

    template_fields: Sequence[str] = ("verify_target",)
    ui_color = "#cfe6d4"
    _ips_commit: ClassVar[bool] = True

    def __init__(
        self,
        *,
        capture: object,
        icdc_retention: str = "next_commit",
        require: Iterable[object] | str | None = None,
        verify_target: str | None = None,
        target_evidence: str = STAMPED,
        target_changes: bool = False,
        target_assets: Asset | Sequence[Asset] = (),
        partition_events: bool = False,
        **kwargs: Any,
    ) -> None:
        outlets = _events.as_list(kwargs.pop("outlets", None))
        targets = _events.parse_targets(target_assets, outlets=outlets, partition_events=partition_events)
        told = _events.outlets_of(targets, partition_events=partition_events)
        super().__init__(outlets=[*outlets, *told], **kwargs)
        self.target_assets = targets
        self.partition_events = partition_events
        self.capture = capture
        self.icdc_retention = icdc_retention
        self.require = require
        self.verify_target = verify_target
        self.target_evidence = target_evidence
        self.target_changes = target_changes
        self.capture_task_id = parse_task_id(capture, what="capture")
        self.required = parse_required(require)
        if icdc_retention not in ICDC_RETENTION:
            raise InputError(
                f"icdc_retention={icdc_retention!r} is unknown",
                consequence="ICDC tables would be kept, or dropped, against what was meant",
                remedy=f"use one of {', '.join(map(repr, ICDC_RETENTION))}",
            )
        if target_evidence not in EVIDENCE or (target_evidence != STAMPED and verify_target is None):
            raise InputError(
                f"target_evidence={target_evidence!r} "
                + ("has no target" if target_evidence in EVIDENCE else "is unknown"),
                consequence="The checkpoint would move without what was meant to be seen",
                remedy=f"use one of {', '.join(map(repr, EVIDENCE))}, and name the job's target by verify_target=",
            )
        check_choice("target_changes", target_changes, (True, False))
        if target_changes and verify_target is None and not targets:
            raise InputError(
                "target_changes=True has no target",
                consequence="Nobody could tell which stages read what the job changes",
                remedy="name the job's target by target_assets= or verify_target=",
            )
        if verify_target is not None and "{{" not in verify_target:
            TableIdentifier.parse(verify_target)
        self.depend_on_capture()

    def resolve_template_files(self) -> None:
        """Check the wiring too: Airflow calls this when the DAG file was read and the graph is complete."""
        super().resolve_template_files()
        _wiring.complete_dag(self.dag, self)

    @classmethod
    def get_serialized_fields(cls) -> frozenset[str]:
        """What Airflow stores of it beside the usual: `airflow ips doctor` reads stored DAGs."""
        usual: frozenset[str] = super().get_serialized_fields()  # type: ignore[no-untyped-call]
        return usual | {"target_changes"}

    def execute(self, context: Context) -> None:
        """Ask for evidence, move the checkpoint, and let ICDC tables go."""
        _wiring.check_dag(context["dag"])
        captured = self._captured(context)
        self._demand_evidence(context, captured)
        telling = self._telling(captured)
        results = [self._commit(each, context) for each in captured]
        self._tell(telling, context)
        context["ti"].xcom_push(key="commit", value=results if len(results) > 1 else results[0])

    @property
    def required_task_ids(self) -> tuple[str, ...]:
        """All tasks that ``require`` names, those that stand for each other included."""
        return tuple(task_id for group in self.required for task_id in group)

    def depend_on_capture(self) -> None:
        """Lie behind the capture. One named by its id may be defined later in the file."""
        if self._dag is None:
            return
        self.capture_task_id = _wiring.sibling_id(self.capture_task_id, self)
        task = self.dag.task_dict.get(self.capture_task_id)
        if task is not None and self.capture_task_id not in self.upstream_task_ids:
            self.set_upstream(task)

    def _captured(self, context: Context) -> list[Captured]:
        """Pull the records of all captures that this commit stands for."""
        ti = context["ti"]
        task = context["dag"].task_dict[self.capture_task_id]
        which: dict[str, Any] = (
            {} if task.is_mapped else {"map_indexes": ti.map_index if self._is_grouped(task) else -1}
        )
        records = ti.xcom_pull(task_ids=[self.capture_task_id], key="capture", **which)
        found = [Captured.from_record(record) for record in records if record is not None]
        if not found:
            raise EvidenceError(
                f"task {self.capture_task_id!r} has captured nothing in run {context['run_id']}",
                consequence="There is nothing that could be committed",
                remedy="let the capture succeed first, then clear the tasks behind it",
            )
        return found

    def _is_grouped(self, capture: Operator) -> bool:
        group = self.get_closest_mapped_task_group()
        return group is not None and group is capture.get_closest_mapped_task_group()

    def _demand_evidence(self, context: Context, captured: Sequence[Captured]) -> None:
        dag, ti, run_id = context["dag"], context["ti"], context["run_id"]
        working = [each for each in captured if not each.settled]
        if not working:
            return
        capture = dag.task_dict[self.capture_task_id]
        wanted = self.required_task_ids or _wiring.tasks_between(capture, self)
        if not wanted:
            self.log.warning(
                "No task lies between %s and this commit: nothing shows that the rows were processed.", capture.task_id
            )
        states = _evidence.states_of(
            ti,
            dag,
            [self.capture_task_id, *wanted],
            run_id=run_id,
            map_index=ti.map_index if self._is_grouped(capture) else None,
            excused=[each.run.map_index for each in captured if each.settled],
        )
        states = _evidence.with_stand_ins(states, self.required)
        _evidence.demand_success(states, run_id=run_id, commit=self.task_id)
        if self.verify_target is not None:
            for each in working:
                _target.demand(
                    self.verify_target,
                    evidence=self.target_evidence,
                    capture_id=each.capture_id,
                    heads=each.target_heads,
                    conn_id=each.iceberg_conn_id,
                )

    def _commit(self, captured: Captured, context: Context) -> dict[str, Any]:
        outcome, dropped = "settled", []
        if not captured.settled:
            run = self._run(captured, context)
            result = None if captured.detached else run.move()
            outcome = "detached" if result is None else result.outcome.value
            dropped = run.drop(result, lambda: _context.open_catalog(captured.iceberg_conn_id))
            if captured.notes:
                from airflow_provider_ips.operators._claims import let_go

                let_go(captured.notes)
        self._tell_outcome(captured, outcome, dropped)
        return {
            "consumer": captured.consumer,
            "capture_id": captured.capture_id,
            "outcome": outcome,
            "dropped": dropped,
        }

    def _tell_outcome(self, captured: Captured, outcome: str, dropped: Sequence[str]) -> None:
        from airflow_provider_ips.operators._log import commit_lines

        for line in commit_lines(
            outcome,
            consumer=captured.consumer,
            capture_id=captured.capture_id,
            sources=captured.told["sources"],
            dropped=dropped,
        ):
            self.log.info("%s", line)

    def _telling(self, captured: Sequence[Captured]) -> _events.Telling:
        processed = [
            each.told for each in captured if each.icdc_tables and _events.has_rows(each.told) and not each.settled
        ]
        return _events.Telling.prepare(self.target_assets, processed, partition_events=self.partition_events)

    def _tell(self, telling: _events.Telling, context: Context) -> None:
        names = telling.emit(context, self)
        if names:
            self.log.info("Events of %s say what was processed.", ", ".join(names))
        elif self.target_assets:
            self.log.info("Nothing was processed, so no event of %s.", ", ".join(a.name for a in self.target_assets))

    def _run(self, captured: Captured, context: Context) -> CommitRun:
        from airflow_provider_ips.operators._commit_run import CommitRun

        return CommitRun(
            store=self._store(captured, context),
            consumer=captured.consumer,
            capture_id=captured.capture_id,
            run=_context.run_identity(context, map_index=captured.run.map_index),
            icdc_tables=captured.icdc_tables,
            icdc_retention=self.icdc_retention,
            replayed=captured.replayed,
            history_length=_context.configured_history_length(),
            now_ms=_context.now_ms(),
        )

    def _store(self, captured: Captured, context: Context) -> CheckpointStore:
        """Open the store of the capture itself: a commit elsewhere would find nothing to commit."""
        store: Any = _wiring.argument(context["dag"].task_dict[self.capture_task_id], "checkpoint_store")
        return open_store(store, iceberg_conn_id=captured.iceberg_conn_id)
