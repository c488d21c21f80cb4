"""The first of the two tasks that make a DAG incremental."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from airflow.sdk import SkipMixin

from airflow_provider_ips import config, dag_graph
from airflow_provider_ips.core.settings import CaptureSettings, parse_sources, parse_target_lag
from airflow_provider_ips.dag_checks.arguments import (
    check_choice,
    check_mode,
    check_names,
    check_range,
    read_source_dicts,
    refuse_stable_name,
)
from airflow_provider_ips.dag_checks.completion import complete_read_dag, complete_running_dag
from airflow_provider_ips.dag_checks.stages import refuse_no_chunk
from airflow_provider_ips.dag_checks.trigger_rules import refuse_to_skip_in_part
from airflow_provider_ips.dag_graph import CaptureTask, is_template
from airflow_provider_ips.retries import at_once

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime, timedelta

    from airflow.providers.openlineage.extractors.base import OperatorLineage
    from airflow.sdk import Context
    from airflow.sdk.definitions.xcom_arg import PlainXComArg

    from airflow_provider_ips.core.checkpoint.store import CheckpointStore
    from airflow_provider_ips.core.results.capture_record import CaptureRecord
    from airflow_provider_ips.core.settings import SourceTable


ON_ACTIVE_RUN = ("fail", "wait")
SETTINGS = tuple(field.name for field in fields(CaptureSettings))


class IpCaptureOperator(CaptureTask, SkipMixin):
    """
    Capture what Iceberg tables gained since the last commit, as tables that an unchanged job can read instead.

    Finds in the metadata which data files were added since the consumer's checkpoint, and creates one zero-copy table
    for each source that references just these, the ICDC table. ``capture.output["db.playback"]`` is its name. The
    checkpoint moves when :class:`~airflow_provider_ips.operators.commit.IpCommitOperator` succeeds.

    Pushes XComs under these keys: the source's name (the ICDC table), ``<source>.before`` (with all three operations,
    the table of what changed rows were before), ``<source>.from`` and ``<source>.to`` (the snapshots between which the
    captured rows were added), ``<source>.lower.<column>`` and ``<source>.upper.<column>`` (bounds of ``range_columns``
    and partitions), ``capture_id``, ``capture`` (the record).

    Once the DAG file is read, two things are added to other tasks of the DAG, whose own callbacks and hooks are called
    as before. A task that pulls XComs of the capture, and is not expanded, gets one more ``on_failure_callback``: it
    logs captured files that are missing. A task between capture and commit that resumes its job, as
    ``KubernetesPodOperator`` does, and ``SparkSubmitOperator`` in cluster mode, gets a ``pre_execute`` hook: it has a
    new job submitted for a new capture.

    .. seealso::
        :class:`airflow_provider_ips.core.settings.SourceTable` for settings of one table among several.

    :param source_tables: ``"db.t"``, a :class:`SourceTable`, a dict of its arguments, or a list of these. (templated)
    :param iceberg_conn_id: The :ref:`Iceberg connection id<howto/connection:iceberg>` of the catalog. (templated)
    :param consumer: The name of the checkpoint. The default, ``<dag_id>.<task_id>``, belongs to this task alone; a
        mapped capture adds its sources. A name that is given explicitly survives renaming. (templated)
    :param capture_mode: How the captured files are handed over: ``"ICDC"``, as tables of their own; ``"BRANCH"``
        (experimental), as branches of their sources, which hold the files until the commit, and need the right to
        commit to the source; or ``"RANGE"`` (experimental), as ranges that Spark reads directly from the sources,
        refused where it would read them otherwise. The default is ``[ips] capture_mode``, which is ``"ICDC"``.
    :param lease: How long branches hold files of the source at most; the default is ``[ips] lease``.
    :param hold_source: With ``"ICDC"``, have a branch of each source hold the captured files until the commit, or the
        end of the lease, whatever compaction and expiry do. Needs the right to commit to the source.
    :param data_operations: Which operations are captured: ``("append",)``, the log of appends; or all three,
        ``("append", "overwrite", "delete")``, the net change, with what the rows were before in ``<source>.before``.
    :param on_other_operation: What to do about a snapshot that removes or changes rows: ``"fail"``;
        ``"skip_retention"``, to skip deletes of whole files in partitions that gained nothing; ``"skip"``, to capture
        the log of appends whatever else happens. (templated)
    :param on_superset: With all three operations, what to do when files that were rewritten by changes have unchanged
        rows, too: ``"fail"``; ``"allow"``, for jobs that merge by key or filter by the captured keys; ``"complete"``,
        to capture also the rows that deletes left in the files they reached, for jobs that delete all captured keys and
        insert. (templated)
    :param equality_deletes: What to do about equality deletes, which streaming jobs write: ``"fail"``; or ``"carry"``,
        if the engine applies them. (templated)
    :param initial: Where a first run starts: ``"full"``, ``"latest"``, a snapshot id as a string, or an ISO timestamp
        with its zone. (templated)
    :param on_gap: What to do when the checkpoint is no longer in the table's lineage: ``"fail"``, ``"resync"`` or
        ``"full"``. (templated)
    :param max_snapshots: End the range early, after this many captured snapshots.
    :param max_files: End the range early, before a snapshot that would exceed this many files. The range has one
        snapshot at least.
    :param max_bytes: End the range early, before a snapshot that would exceed this many bytes. The range has one
        snapshot at least.
    :param full_refresh_above: Capture all live rows when the range has more than this share of the table's bytes, for
        example 0.6. Only for jobs whose result stays the same when they read rows again.
    :param range_columns: Columns whose lowest and highest captured values are pushed. (templated)
    :param icdc_namespace: Where ICDC tables are created; the default is ``[ips] icdc_namespace``. (templated)
    :param icdc_location: Folder for the metadata of ICDC tables; the default is the namespace's own. (templated)
    :param engine_catalog: The catalog's name in the engine, put before the ICDC table's name. (templated)
    :param skip_if_empty: Skip downstream tasks when there is nothing to process.
    :param ignore_downstream_trigger_rules: When skipping, skip all downstream tasks, whatever their trigger rule;
        otherwise only the direct ones.
    :param on_active_run: What to do while another run of this consumer has captured and is still active, or while a
        backfill in chunks overlaps a detached run: ``"fail"``, or ``"wait"``.
    :param checkpoint_store: Where the checkpoint is: ``"variable"``, ``"iceberg"``, or a store object; the default is
        ``[ips] checkpoint_store``.
    :param follow_params: Follow the run's params, those of :func:`~airflow_provider_ips.params.ips_params`, in the
        trigger form or in the run's conf.
    :param chunk: The part of a backfill that this instance of a mapped task group takes: what the group is expanded
        over, the output of an :class:`~airflow_provider_ips.operators.backfill.IpBackfillOperator`. (templated)
    :param backfill_partitions: What a run of Airflow's own ``airflow backfill create`` captures in place of the usual
        range: all live rows of the partitions that this filter selects, detached from the checkpoint, such as
        ``"day = '{{ data_interval_start | ds }}'"``. Rendered in these runs only.
    :param target_lag: For how long the oldest unprocessed commit of any source may wait. More is a breach: a metric, a
        state that pages and ``airflow ips lag`` show, and a notification by the DAG ``ips_watch``. Captures do not
        depend on it.
    :param max_active_tis_per_dag: One at a time, because a consumer has one pending capture. A mapped capture has one
        consumer for each instance, and is not limited.
    """

    template_fields: Sequence[str] = (
        "source_tables",
        "iceberg_conn_id",
        "consumer",
        "on_other_operation",
        "on_superset",
        "equality_deletes",
        "initial",
        "on_gap",
        "range_columns",
        "icdc_namespace",
        "icdc_location",
        "engine_catalog",
        "chunk",
    )
    ui_color = "#d6f0ef"
    inherits_from_skipmixin = True

    def __init__(
        self,
        *,
        source_tables: object,
        iceberg_conn_id: str = "iceberg_default",
        consumer: str | None = None,
        capture_mode: str | None = None,
        lease: timedelta | None = None,
        hold_source: bool = False,
        data_operations: str | Collection[str] = ("append",),
        on_other_operation: str = "fail",
        on_superset: str = "fail",
        equality_deletes: str = "fail",
        initial: str | datetime = "full",
        on_gap: str = "fail",
        max_snapshots: int | None = None,
        max_files: int | None = None,
        max_bytes: int | None = None,
        full_refresh_above: float | None = None,
        range_columns: str | Sequence[str] = (),
        icdc_namespace: str | None = None,
        icdc_location: str | None = None,
        engine_catalog: str | None = None,
        skip_if_empty: bool = True,
        ignore_downstream_trigger_rules: bool = True,
        on_active_run: str = "fail",
        checkpoint_store: CheckpointStore | str | None = None,
        follow_params: bool = True,
        chunk: object = None,
        backfill_partitions: str | None = None,
        target_lag: timedelta | None = None,
        max_active_tis_per_dag: int | None = 1,
        **kwargs: Any,
    ) -> None:
        if chunk is not None:
            # The label of the instances of a backfill in the grid, which would be numbers otherwise.
            kwargs.setdefault("map_index_template", "{{ task.chunk.label }}")
        refuse_stable_name(kwargs)
        super().__init__(max_active_tis_per_dag=max_active_tis_per_dag, **kwargs)
        self.source_tables = source_tables
        self.iceberg_conn_id = iceberg_conn_id
        self.consumer = consumer
        self.capture_mode = capture_mode
        self.lease = lease
        self.hold_source = hold_source
        self.data_operations = data_operations
        self.on_other_operation = on_other_operation
        self.on_superset = on_superset
        self.equality_deletes = equality_deletes
        self.initial = initial
        self.on_gap = on_gap
        self.max_snapshots = max_snapshots
        self.max_files = max_files
        self.max_bytes = max_bytes
        self.full_refresh_above = full_refresh_above
        self.range_columns = range_columns
        self.icdc_namespace = icdc_namespace
        self.icdc_location = icdc_location
        self.engine_catalog = engine_catalog
        self.skip_if_empty = skip_if_empty
        self.ignore_downstream_trigger_rules = ignore_downstream_trigger_rules
        self.on_active_run = on_active_run
        self.checkpoint_store = checkpoint_store
        self.follow_params = follow_params
        self.chunk = chunk
        self.takes_chunk = chunk is not None
        self.backfill_partitions = backfill_partitions
        self.target_lag = target_lag
        self.target_lag_s = parse_target_lag(target_lag)
        self.checked_sources()

    _captured: CaptureRecord | None = None

    if TYPE_CHECKING:
        # Airflow's own type of `output` has no `[...]`, though what it returns has.
        @property
        def output(self) -> PlainXComArg: ...

    def resolve_template_files(self) -> None:
        """Attach and check, too: Airflow calls this once it has read the DAG file, so that the graph is complete."""
        super().resolve_template_files()
        complete_read_dag(self.dag)

    def checked_sources(self) -> tuple[tuple[SourceTable, CaptureSettings], ...]:
        """Check all parameters, and return the sources. Templates are skipped until they are rendered for a run."""
        check_choice("on_active_run", self.on_active_run, ON_ACTIVE_RUN)
        config.check_store(self.checkpoint_store)
        for name in ("hold_source", "skip_if_empty", "ignore_downstream_trigger_rules", "follow_params"):
            check_choice(name, getattr(self, name), (True, False))
        check_mode(self)
        check_names(self)
        given = {name: getattr(self, name) for name in SETTINGS}
        defaults = CaptureSettings(**{name: value for name, value in given.items() if not is_template(value)})
        if is_template(self.source_tables):
            return ()
        sources = parse_sources(read_source_dicts(self.source_tables), defaults)
        settings = tuple((source, source.settings(defaults)) for source in sources)
        check_range(self, [each for _, each in settings])
        return settings

    @at_once()
    def execute(self, context: Context) -> None:
        """Capture, push the XComs, and skip downstream tasks if there is nothing to process."""
        from airflow_provider_ips.runs.capture import CaptureRun, skip_downstream
        from airflow_provider_ips.runs.measures import CaptureTimer
        from airflow_provider_ips.runs.reports import capture_lines, xcoms_of

        dag = context["dag"]
        is_committed = dag_graph.commit_of(self.task_id, dag) is not None
        if self.chunk is None:
            refuse_no_chunk(dag.task_dict[self.task_id])
        complete_running_dag(dag)
        timer = CaptureTimer()
        record = self._captured = CaptureRun(context=context, task=self).execute()
        timer.measure(record)
        for line in capture_lines(record, is_committed=is_committed):
            self.log.info("%s", line)
        for key, value in xcoms_of(record, self.checked_sources()):
            context["ti"].xcom_push(key=key, value=value)
        if record.context.request.dry_run:
            refuse_to_skip_in_part(context)
            skip_downstream(context, self)
        elif record.is_empty and self.skip_if_empty:
            skip_downstream(context, self, direct_only=not self.ignore_downstream_trigger_rules)

    def get_openlineage_facets_on_complete(self, _task_instance: object) -> OperatorLineage | None:
        """Report the sources and the captured tables, if Airflow's OpenLineage provider is installed: it calls this."""
        from airflow_provider_ips.assets.openlineage import capture_lineage

        return None if self._captured is None else capture_lineage(self._captured)
