"""The second of the two tasks that make a DAG incremental."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.dag_checks.arguments import check_choice, check_target, parse_capture, parse_require
from airflow_provider_ips.dag_checks.attachment import depend_on_capture
from airflow_provider_ips.dag_checks.completion import complete_read_dag, complete_running_dag
from airflow_provider_ips.dag_graph import CommitTask
from airflow_provider_ips.retries import at_once
from airflow_provider_ips.runs import events, evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow.providers.openlineage.extractors.base import OperatorLineage
    from airflow.sdk import Asset, Context

    from airflow_provider_ips.core.results.capture_record import CaptureRecord


ICDC_RETENTION = ("next_commit", "drop", "keep")


class IpCommitOperator(CommitTask):
    """
    Move the consumer's checkpoint to the end of the captured range, in all sources at once.

    Demands evidence first: every task between capture and commit must have succeeded in this run, whatever the trigger
    rules say. Pushes the XCom ``commit``, a small record of what it did.

    :param capture: The :class:`~airflow_provider_ips.operators.capture.IpCaptureOperator`, or its task id. Also sets
        the dependency.
    :param icdc_retention: When ICDC tables are dropped: ``"next_commit"``, when the consumer commits again, so that the
        job alone can be cleared and run again until then; ``"drop"``, by this commit; ``"keep"``, never.
    :param verify_target: A table that must carry this capture's stamp: a snapshot that the job made with the property
        ``ips-capture-id``. Reached through the capture's connection. (templated)
    :param target_evidence: ``"stamp"``, or ``"moved_head"`` for a job that cannot stamp its snapshots: at least some
        job must have written to the target since the capture began.
    :param require: The tasks, or their ids, that must have succeeded, in place of all between capture and commit. An
        entry that is a tuple or list names alternatives: one of them must have succeeded.
    :param target_changes: The job changes or deletes rows of its targets, as ``MERGE`` does. A stage of the same DAG
        file that captures only the targets' appends is then refused, and ``airflow ips doctor`` finds those of other
        files.
    :param target_assets: The assets that the job writes, such as ``iceberg_asset("db.t")``. Each gets an event when
        something was processed, and none otherwise; ``outlets`` get one in any case.
    :param partition_events: One event for each partition that the job wrote, with the partition as its key, in place of
        one event. The targets' snapshots must carry the capture's stamp.
    """

    template_fields: Sequence[str] = ("verify_target",)
    ui_color = "#cfe6d4"

    def __init__(
        self,
        *,
        capture: object,
        icdc_retention: str = "next_commit",
        require: Iterable[object] | str | None = None,
        verify_target: str | None = None,
        target_evidence: str = evidence.STAMP,
        target_changes: bool = False,
        target_assets: Asset | Sequence[Asset] = (),
        partition_events: bool = False,
        **kwargs: Any,
    ) -> None:
        outlets = events.as_list(kwargs.pop("outlets", None))
        targets = events.parse_targets(target_assets, outlets=outlets, partition_events=partition_events)
        emitting = events.outlets_of(targets, partition_events=partition_events)
        super().__init__(outlets=[*outlets, *emitting], **kwargs)
        self.target_assets = targets
        self.partition_events = partition_events
        self.capture = capture
        self.icdc_retention = icdc_retention
        self.require = require
        self.verify_target = verify_target
        self.target_evidence = target_evidence
        self.target_changes = target_changes
        self.capture_task_id = parse_capture(capture)
        self.required = parse_require(require)
        check_choice("icdc_retention", icdc_retention, ICDC_RETENTION)
        check_choice("target_changes", target_changes, (True, False))
        check_target(self)
        depend_on_capture(self)

    _committed: CaptureRecord | None = None

    def resolve_template_files(self) -> None:
        """Attach and check, too: Airflow calls this once it has read the DAG file, so that the graph is complete."""
        super().resolve_template_files()
        complete_read_dag(self.dag)

    @classmethod
    def get_serialized_fields(cls) -> frozenset[str]:
        """Have Airflow store this parameter with the DAG, where `airflow ips doctor` reads it."""
        usual: frozenset[str] = super().get_serialized_fields()  # type: ignore[no-untyped-call]
        return usual | {"target_changes"}

    @at_once()
    def execute(self, context: Context) -> None:
        """Demand evidence, move the checkpoint, drop ICDC tables, and emit events of the targets."""
        from airflow_provider_ips.runs.commit import commit_capture
        from airflow_provider_ips.runs.environment import now_ms
        from airflow_provider_ips.runs.measures import measure_commit, measure_refusal
        from airflow_provider_ips.runs.reports import commit_lines, event_lines

        complete_running_dag(context["dag"])
        try:
            report = commit_capture(
                context, self, icdc_retention=self.icdc_retention, partition_events=self.partition_events
            )
        except IpsError:
            measure_refusal(context, self.capture_task_id)
            raise
        measure_commit(report, now_ms=now_ms())
        self._committed = report.record
        for line in (*commit_lines(report), *event_lines(report, self.target_assets)):
            self.log.info("%s", line)
        context["ti"].xcom_push(key="commit", value=report.to_json())

    def get_openlineage_facets_on_complete(self, _task_instance: object) -> OperatorLineage | None:
        """Report the sources and the targets, if Airflow's OpenLineage provider is installed: it calls this."""
        from airflow_provider_ips.assets.openlineage import commit_lineage

        if self._committed is None:
            return None
        return commit_lineage(self._committed, self.target_assets, self.verify_target)
