"""The task before a mapped task group: it plans a backfill in chunks, one for each instance of the group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import SkipMixin

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable, parse_sources
from airflow_provider_ips.dag_checks.arguments import check_choice, read_source_dicts
from airflow_provider_ips.dag_graph import BackfillTask, is_template
from airflow_provider_ips.operators.capture import ON_ACTIVE_RUN
from airflow_provider_ips.retries import at_once
from airflow_provider_ips.runs import environment
from airflow_provider_ips.runs.backfill.request import RANGE_ARGUMENTS, RUNS, check_arguments, read_backfill_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


AS_OF: Final = ("capture", "plan")


class IpBackfillOperator(BackfillTask, SkipMixin):
    """
    Plan a backfill of one table in bounded chunks, for a task group that is expanded over them.

    Every instance of the group captures one chunk, detached from the live checkpoint, processes and commits it. So the
    grid shows the progress, a chunk that failed can be cleared alone, and live runs continue meanwhile.

    Returns the chunks, and pushes the XCom ``backfill``: the request, and for each chunk and stage the partitions,
    files and bytes.

    The request comes from the trigger form (:func:`~airflow_provider_ips.params.ips_params`), or else from the
    arguments.

    :param source_table: ``"db.t"``, a :class:`SourceTable`, or a dict of its arguments. (templated)
    :param iceberg_conn_id: The :ref:`Iceberg connection id<howto/connection:iceberg>` of the catalog. (templated)
    :param partitions: A filter on partition columns: all live rows of these partitions, or of a range only the rows
        that were added to them. (templated)
    :param since_snapshot: A snapshot id, as a string: the range begins after it. (templated)
    :param since_time: An ISO timestamp with its zone: the range begins after the snapshot that was current then.
        (templated)
    :param until_snapshot: The last snapshot of the range; the default is the newest. (templated)
    :param until_time: An ISO timestamp with its zone: the range ends with the snapshot that was current then.
        (templated)
    :param everything: Confirms a filter that selects the whole table; without a filter and a range, requests the whole
        table.
    :param runs: Which kinds of backfills the job of the group can process: ``"partitions"``, ``"full"``,
        ``"snapshot"``, ``"time"``; others are refused. A job that replaces whole days can process the first two only: a
        range contains the rows that were added to a day, and not those that it had before.
    :param chunk_by: The partition column whose values are not split; the default is a column of days or moments that
        the filter compares or the table is partitioned by, or else another one of these. (templated)
    :param max_partitions: The most values of that column in one chunk.
    :param max_snapshots: The most snapshots in one chunk of a range.
    :param max_files: The most files in one chunk; a single value or snapshot may have more.
    :param max_bytes: The most bytes in one chunk; a single value or snapshot may have more.
    :param as_of: Which rows of partitions a chunk takes: those that are live at its ``"capture"``, or at the
        ``"plan"``. (templated)
    :param target_tables: What the group writes: no two backfills write the same part of one of them at the same time.
        The default is what the downstream commits name. (templated)
    :param stages: Tables of later stages, for the dry run: what the same filter selects there. (templated)
    :param on_active_backfill: What to do while another backfill writes the same part of a target: ``"fail"``, or
        ``"wait"``.
    :param dry_run: Only report what would be done, in the log and in the XCom ``backfill``, and skip all downstream
        tasks.
    :param follow_params: Follow the run's params.
    """

    template_fields: Sequence[str] = (
        "source_table",
        "iceberg_conn_id",
        *RANGE_ARGUMENTS,
        "chunk_by",
        "as_of",
        "target_tables",
        "stages",
    )
    ui_color = "#e6dff0"
    inherits_from_skipmixin = True

    def __init__(
        self,
        *,
        source_table: object,
        iceberg_conn_id: str = "iceberg_default",
        partitions: str | None = None,
        since_snapshot: str | None = None,
        since_time: str | None = None,
        until_snapshot: str | None = None,
        until_time: str | None = None,
        everything: bool = False,
        runs: str | Sequence[str] = RUNS,
        chunk_by: str | None = None,
        max_partitions: int | None = None,
        max_snapshots: int | None = None,
        max_files: int | None = None,
        max_bytes: int | None = None,
        as_of: str = "capture",
        target_tables: str | Sequence[str] = (),
        stages: str | Sequence[str] = (),
        on_active_backfill: str = "fail",
        dry_run: bool = False,
        follow_params: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source_table = source_table
        self.iceberg_conn_id = iceberg_conn_id
        self.partitions = partitions
        self.since_snapshot = since_snapshot
        self.since_time = since_time
        self.until_snapshot = until_snapshot
        self.until_time = until_time
        self.everything = everything
        self.runs = runs
        self.chunk_by = chunk_by
        self.max_partitions = max_partitions
        self.max_snapshots = max_snapshots
        self.max_files = max_files
        self.max_bytes = max_bytes
        self.as_of = as_of
        self.target_tables = target_tables
        self.stages = stages
        self.on_active_backfill = on_active_backfill
        # BaseOperator has a method of this name.
        self.is_dry_run = dry_run
        self.follow_params = follow_params
        check_choice("on_active_backfill", on_active_backfill, ON_ACTIVE_RUN)
        if not is_template(as_of):
            check_choice("as_of", as_of, AS_OF)
        for name, value in (("everything", everything), ("dry_run", dry_run), ("follow_params", follow_params)):
            check_choice(name, value, (True, False))
        check_arguments(self)
        self.checked_sources()

    def checked_sources(self) -> tuple[tuple[SourceTable, CaptureSettings], ...]:
        """Return the one table, unless it is a template that is not rendered yet."""
        if is_template(self.source_table):
            return ()
        sources = parse_sources(read_source_dicts(self.source_table), CaptureSettings())
        if len(sources) != 1:
            raise InputError(
                f"source_table names {len(sources)} tables",
                consequence="Chunks of several tables need not fit together",
                remedy="backfill one table; a job that joins others reads them in full",
            )
        return ((sources[0], sources[0].settings(CaptureSettings())),)

    @at_once()
    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Plan, claim the targets, and return the chunks; or report them in a dry run, and skip downstream tasks."""
        from airflow_provider_ips.core.backfill.claims import plan_conflict_error
        from airflow_provider_ips.runs.backfill.plan import next_step_line, plan_lines
        from airflow_provider_ips.runs.backfill.planner import BackfillPlanner
        from airflow_provider_ips.runs.claims import fail_or_wait, open_claims

        ti = context["ti"]
        ((table, settings),) = self.checked_sources()
        request = read_backfill_request(context, self, table, settings)
        catalog = environment.open_catalog(self.iceberg_conn_id)
        planner = BackfillPlanner(
            request=request,
            catalog=catalog,
            claims=open_claims(context, self.iceberg_conn_id),
            now_ms=environment.now_ms(),
        )
        plan = planner.plan()
        for line in plan_lines(plan):
            self.log.info("%s", line)
        for warning in plan.warnings:
            self.log.warning("%s", warning)
        ti.xcom_push(key="backfill", value=plan.to_json())
        is_dry = request.run_request.dry_run
        if not is_dry and (conflict := planner.claim_targets(plan)) is not None:
            mine, other = conflict
            fail_or_wait(context, other, plan_conflict_error(mine, other), waits=self.on_active_backfill == "wait")
        self.log.info("%s", next_step_line(plan))
        if is_dry:
            # Tasks that are mapped over the chunks are skipped because there are none, the others by name.
            ti.xcom_push(key="return_value", value=[])
            relatives = context["task"].get_flat_relatives(upstream=False)
            self.skip(ti=ti, tasks=[task for task in relatives if not task.is_teardown])
        return [] if is_dry else [chunk.to_json() for chunk in plan.chunks]
