"""The first of the two tasks that make a DAG incremental."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator, SkipMixin
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowSkipException

from airflow_provider_ips.checkpoints.opening import check_store, open_store
from airflow_provider_ips.core.errors import CheckpointConflictError
from airflow_provider_ips.core.settings import CaptureSettings, parse_sources
from airflow_provider_ips.operators import _context, _wiring
from airflow_provider_ips.operators._parameters import check_choice, check_texts, entries_of, is_template

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from airflow.sdk import Context
    from airflow.sdk.definitions.xcom_arg import PlainXComArg
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.checkpoint import Checkpoint
    from airflow_provider_ips.core.positions import RunIdentity
    from airflow_provider_ips.core.settings import SourceTable
    from airflow_provider_ips.core.store import CheckpointStore
    from airflow_provider_ips.operators._asking import Wish
    from airflow_provider_ips.operators._preparing import Outcome, Request

CAPTURE_MODES = ("ICDC",)
ON_ACTIVE_RUN = ("fail", "wait")

_SETTINGS = tuple(field.name for field in fields(CaptureSettings))


class IpCaptureOperator(BaseOperator, SkipMixin):
    """
    Capture what Iceberg tables gained since the last commit, as tables that an unchanged job can read instead.

    Finds in the metadata which data files were added since the consumer's checkpoint, and makes one zero-copy table
    (the ICDC table) per source that references just these. ``capture.output["db.playback"]`` is its name. The
    checkpoint moves when :class:`~airflow_provider_ips.operators.commit.IpCommitOperator` succeeds.

    Pushes XComs under these keys: the source's name (the ICDC table), ``<source>.before`` (with all three operations,
    the table of what changed rows were before), ``<source>.from`` and ``<source>.to`` (the snapshots between which the
    captured rows came), ``<source>.lower.<column>`` and ``<source>.upper.<column>`` (bounds of ``range_columns`` and
    partitions), ``capture_id``, ``capture`` (the record).

    .. seealso::
        :class:`airflow_provider_ips.core.settings.SourceTable` for settings of one table among several.

    :param source_tables: ``"db.t"``, a :class:`SourceTable`, a dict of its arguments, or a list of these. (templated)
    :param iceberg_conn_id: The :ref:`Iceberg connection id<howto/connection:iceberg>` of the catalog. (templated)
    :param consumer: Who owns the checkpoint. The default, ``<dag_id>.<task_id>``, belongs to this task alone; a mapped
        capture adds its sources. A name given here survives renames. (templated)
    :param capture_mode: How the captured files are handed over. Only ``"ICDC"`` is known.
    :param data_operations: Which operations are captured: ``("append",)``, the log of appends; or all three,
        ``("append", "overwrite", "delete")``, the net change, with the rows' origin in ``<source>.before``.
    :param on_other_operation: What to do about a snapshot that removes or changes rows: ``"fail"``;
        ``"skip_retention"``, to pass over deletes of whole files in partitions that gained nothing; ``"skip"``, to
        capture the log of appends whatever else happens. (templated)
    :param on_superset: With all three operations, what to do when files that changes rewrote carry unchanged rows
        along: ``"fail"``; ``"allow"``, right for jobs that merge by key or filter by the captured keys; ``"complete"``,
        to have also what deletes left of the files they reached, right for jobs that drop all captured keys and insert.
        (templated)
    :param equality_deletes: What to do about equality deletes, as streaming writers leave them: ``"fail"``; or
        ``"carry"``, where the engine applies them. (templated)
    :param initial: Where a first run starts: ``"full"``, ``"latest"``, a snapshot id as a string, or an ISO timestamp
        with its zone. (templated)
    :param on_gap: What to do when the checkpoint is no longer in the table's lineage: ``"fail"``, ``"resync"`` or
        ``"full"``. (templated)
    :param max_snapshots: End the range early, after so many captured snapshots.
    :param max_files: End the range early, before a snapshot that would exceed so many files; at least one is taken.
    :param max_bytes: End the range early, before a snapshot that would exceed so many bytes; at least one is taken.
    :param full_refresh_above: Capture all live rows when the range has more than this share of the table's bytes, for
        example 0.6. Right only for jobs that come out the same when they are given rows again.
    :param range_columns: Columns whose captured lower and upper bounds are wanted. (templated)
    :param icdc_namespace: Where ICDC tables are made; the default is ``[ips] icdc_namespace``. (templated)
    :param icdc_location: Folder for the metadata of ICDC tables; the default is the namespace's own. (templated)
    :param engine_catalog: The catalog's name in the engine, put before the ICDC table's name. (templated)
    :param skip_if_empty: Skip downstream tasks when there is nothing to process.
    :param ignore_downstream_trigger_rules: When skipping, skip all downstream tasks, whatever their trigger rule; else
        only those directly behind this task.
    :param on_active_run: When another run of this consumer has captured and is still active, or one whose backfill
        overlaps what this run was asked for: ``"fail"``, or ``"wait"`` until it is not.
    :param checkpoint_store: Where the checkpoint lives: ``"variable"``, ``"iceberg"``, or a store of your own; the
        default is ``[ips] checkpoint_store``.
    :param follow_params: Do what the run's params ask for: those of
        :func:`~airflow_provider_ips.params.ips_params`, in the trigger form or in the run's conf.
    :param chunk: The part of a backfill that this instance of a mapped task group takes: what the group is expanded
        over, the output of an :class:`~airflow_provider_ips.operators.backfill.IpBackfillOperator`. (templated)
    :param backfill_partitions: What a run of Airflow's own ``airflow backfill create`` captures in place of the usual
        range: all live rows of the partitions that this filter selects, detached from the checkpoint, such as
        ``"day = '{{ data_interval_start | ds }}'"``. Rendered in these runs only.
    :param max_active_tis_per_dag: One at a time, for one consumer has one pending capture. A mapped capture has one
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
    _ips_capture: ClassVar[bool] = True

    def __init__(
        self,
        *,
        source_tables: object,
        iceberg_conn_id: str = "iceberg_default",
        consumer: str | None = None,
        capture_mode: str = "ICDC",
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
        max_active_tis_per_dag: int | None = 1,
        **kwargs: Any,
    ) -> None:
        if chunk is not None:
            # What the grid calls the instances of a backfill; without it they are numbers.
            kwargs.setdefault("map_index_template", "{{ task.chunk.label }}")
        super().__init__(max_active_tis_per_dag=max_active_tis_per_dag, **kwargs)
        self.source_tables = source_tables
        self.iceberg_conn_id = iceberg_conn_id
        self.consumer = consumer
        self.capture_mode = capture_mode
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
        self._takes_chunk = chunk is not None
        self.backfill_partitions = backfill_partitions
        self._checked_sources()

    if TYPE_CHECKING:
        # Airflow's own type of `output` has no `[...]`, though what it returns has.
        @property
        def output(self) -> PlainXComArg: ...

    def resolve_template_files(self) -> None:
        """Check the wiring too: Airflow calls this when the DAG file was read and the graph is complete."""
        super().resolve_template_files()
        _wiring.complete_dag(self.dag, self)

    def execute(self, context: Context) -> None:
        """Capture, push the XComs, and skip what has nothing to process."""
        from airflow_provider_ips.operators._asking import check_sources, wish_of
        from airflow_provider_ips.operators._backfill_wiring import refuse_no_chunk
        from airflow_provider_ips.operators._target import heads_at_capture

        if self.chunk is None:
            refuse_no_chunk(context["dag"].task_dict[self.task_id])
        wish = wish_of(
            context,
            follow_params=self.follow_params,
            chunk=self.chunk,
            # Rendered for such runs only: others may have no interval, and then its template cannot be rendered.
            backfill_partitions=lambda: self.render_template(self.backfill_partitions, context),
        )
        _wiring.check_dag(context["dag"])
        request = self._request(_context.run_identity(context), wish)
        check_sources(request)
        self._keep_claim(context, request)
        store = open_store(self.checkpoint_store, iceberg_conn_id=self.iceberg_conn_id)
        catalog = _context.open_catalog(self.iceberg_conn_id)
        heads = heads_at_capture(context, self.task_id, catalog)
        checkpoint = store.read(request.consumer)
        started = [] if request.asked.is_detached else self._started(request, checkpoint)
        request = replace(request, requested={**request.requested, "target_heads": heads, "started": started})
        run = self._run_detached if request.asked.is_detached else self._run_from_checkpoint
        outcome = run(context, request, catalog, store, checkpoint)
        self._tell(outcome, request, is_committed=_wiring.is_committed(self.task_id, context["dag"]))
        self._push(context, request, outcome)
        if request.asked.dry_run or (outcome.record.is_empty and self.skip_if_empty):
            self._skip_downstream(context)

    def _run_from_checkpoint(
        self,
        context: Context,
        request: Request,
        catalog: Catalog,
        store: CheckpointStore,
        checkpoint: Checkpoint | None,
    ) -> Outcome:
        from airflow_provider_ips.core.transitions import resolve_capture
        from airflow_provider_ips.operators._capture_run import CaptureRun

        if checkpoint is None:
            self._ask_if_new(context, request, store)
        resolution = resolve_capture(checkpoint, request.run)
        self._leave_active_runs_alone(context, request, checkpoint)
        if note := getattr(resolution, "note", ""):
            self.log.info("%s", note)
        return CaptureRun(
            request=request,
            catalog=catalog,
            store=store,
            checkpoint=checkpoint,
            resolution=resolution,
            now_ms=_context.now_ms(),
            before_new_range=lambda: self._before_new_range(context, request, checkpoint),
        ).execute()

    def _run_detached(
        self,
        context: Context,
        request: Request,
        catalog: Catalog,
        store: CheckpointStore,  # noqa: ARG002 - what is detached writes to none
        checkpoint: Checkpoint | None,
    ) -> Outcome:
        from airflow_provider_ips.operators._asking import detached_of, refuse_if_overtaken
        from airflow_provider_ips.operators._detached_claims import claim_single
        from airflow_provider_ips.operators._detached_run import DetachedRun

        refuse_if_overtaken(context, request, checkpoint)
        return DetachedRun(
            request=request,
            detached=detached_of(request),
            catalog=catalog,
            checkpoint=checkpoint,
            claim=lambda sources: claim_single(context, request, sources, waits=self.on_active_run == "wait"),
        ).execute()

    def _started(self, request: Request, checkpoint: Checkpoint | None) -> list[dict[str, str]]:
        """Sources that this consumer has never committed: `initial` says where they start."""
        return [
            {"source": table.table, "initial": str(settings.initial)}
            for table, settings in request.sources
            if checkpoint is None or checkpoint.position_of(table.table, table.branch) is None
        ]

    def _keep_claim(self, context: Context, request: Request) -> None:
        """A chunk may be cleared long after its backfill ended, and another be at work where it was."""
        if request.chunk is None:
            return
        from airflow_provider_ips.operators._claims import keep

        self.log.info("This is %s of the backfill.", request.chunk)
        keep(context["ti"], request.run, request.chunk, now_ms=_context.now_ms())

    def _checked_sources(self) -> tuple[tuple[SourceTable, CaptureSettings], ...]:
        """Refuse what cannot be right. What is still a template is passed over here, and met again in ``execute``."""
        check_choice("capture_mode", self.capture_mode, CAPTURE_MODES)
        check_choice("on_active_run", self.on_active_run, ON_ACTIVE_RUN)
        check_store(self.checkpoint_store)
        for name in ("skip_if_empty", "ignore_downstream_trigger_rules", "follow_params"):
            check_choice(name, getattr(self, name), (True, False))
        check_texts(self)
        given = {name: getattr(self, name) for name in _SETTINGS}
        defaults = CaptureSettings(**{name: value for name, value in given.items() if not is_template(value)})
        if is_template(self.source_tables):
            return ()
        sources = parse_sources(entries_of(self.source_tables), defaults)
        return tuple((source, source.settings(defaults)) for source in sources)

    def _request(self, run: RunIdentity, wish: Wish) -> Request:
        from airflow_provider_ips.operators._preparing import Request

        sources = self._checked_sources()
        return Request(
            consumer=self.consumer or self._default_consumer(run, [source for source, _ in sources]),
            run=run,
            sources=sources,
            mode=self.capture_mode,
            icdc_namespace=self.icdc_namespace or _context.configured_namespace(),
            icdc_location=self.icdc_location,
            skip_if_empty=self.skip_if_empty,
            history_length=_context.configured_history_length(),
            asked=wish.asked,
            chunk=wish.chunk,
            takes_anew=wish.takes_anew,
            requested={
                "run": run.to_json(),
                "iceberg_conn_id": self.iceberg_conn_id,
                "engine_catalog": self.engine_catalog,
            },
        )

    def _default_consumer(self, run: RunIdentity, sources: list[SourceTable]) -> str:
        """A mapped task captures different tables under one task id, and each needs a checkpoint of its own."""
        name = f"{self.dag_id}.{self.task_id}"
        if run.map_index < 0:
            return name
        tables = (s.table if s.branch == "main" else f"{s.table}@{s.branch}" for s in sources)
        return f"{name}.{'+'.join(tables)}"

    def _ask_if_new(self, context: Context, request: Request, store: CheckpointStore) -> None:
        from airflow_provider_ips.checkpoints.elsewhere import refuse_if_kept_elsewhere
        from airflow_provider_ips.operators._renamed import refuse_if_renamed

        refuse_if_kept_elsewhere(store, request.consumer, iceberg_conn_id=self.iceberg_conn_id)
        if self.consumer is None:
            refuse_if_renamed(
                store, dag=context["dag"], task_id=self.task_id, consumer=request.consumer, sources=request.sources
            )

    def _leave_active_runs_alone(self, context: Context, request: Request, checkpoint: Checkpoint | None) -> None:
        """Never supersede a capture whose run may still commit it, or write what it captured."""
        pending = None if checkpoint is None else checkpoint.pending
        if pending is None or pending.run == request.run:
            return
        if pending.run.is_of_run(request.run):
            raise CheckpointConflictError(
                f"another task instance of run {request.run} has captured for consumer {request.consumer!r} and not "
                "committed",
                consequence="Both would process the same rows, and one commit would stand for the other's work",
                remedy="give each capture, and each instance of a mapped one, a consumer of its own; leaving consumer "
                "out does",
            )
        if not _context.is_active(context["ti"], pending.run, mine=request.run):
            return
        if self.on_active_run == "wait":
            self.log.info("Run %s captured for %s and is still active: waiting for it.", pending.run, request.consumer)
            raise AirflowRescheduleException(datetime.now(tz=UTC) + _context.WAIT)  # type: ignore[no-untyped-call]
        raise CheckpointConflictError(
            f"run {pending.run} has captured for consumer {request.consumer!r}, has not committed, and is still active",
            consequence="Both runs would process the same rows",
            remedy="let it end, or mark it failed; set on_active_run='wait' to wait for it, or max_active_runs=1 on "
            "the DAG to never have two",
        )

    def _before_new_range(self, context: Context, request: Request, checkpoint: Checkpoint | None) -> None:
        from airflow_provider_ips.operators._asking import refuse_if_overtaken
        from airflow_provider_ips.operators._evidence import refuse_earlier_work

        refuse_if_overtaken(context, request, checkpoint)
        dag = context["dag"]
        refuse_earlier_work(context["ti"], dag, dag.task_dict[self.task_id], run_id=context["run_id"])

    def _push(self, context: Context, request: Request, outcome: Outcome) -> None:
        from airflow_provider_ips.operators._xcoms import xcoms_of

        columns = {source.xcom_key: settings.range_columns for source, settings in request.sources}
        changing = [source.xcom_key for source, settings in request.sources if settings.captures_changes]
        for key, value in xcoms_of(outcome.record, columns, engine_catalog=self.engine_catalog, with_before=changing):
            context["ti"].xcom_push(key=key, value=value)

    def _tell(self, outcome: Outcome, request: Request, *, is_committed: bool) -> None:
        from airflow_provider_ips.operators._log import next_line, source_lines
        from airflow_provider_ips.operators._xcoms import engine_name

        record = outcome.record
        self.log.info("Capture %s for consumer %s", record.capture_id, record.consumer)
        for source in record.sources:
            for line in source_lines(source, engine_name(source.icdc_table, self.engine_catalog)):
                self.log.info("%s", line)
        for first in record.requested["started"]:
            self.log.info("First run over %s: it starts by initial=%r.", first["source"], first["initial"])
        if record.requested["replayed"]:
            self.log.info(
                "This run has committed before: its range was captured again, and its commit will move nothing."
            )
        if request.asked.is_detached:
            self.log.info("Detached: this run was asked for %s. The checkpoint stays where it is.", request.asked)
        elif not is_committed:
            self.log.warning("No IpCommitOperator of this DAG commits this capture: its range will come again.")
        if outcome.settled:
            self.log.info("Nothing to process. The checkpoint stands at the head of every source.")
        self.log.info("%s", next_line(record, is_dry=request.asked.dry_run, is_committed=is_committed))

    def _skip_downstream(self, context: Context) -> None:
        """Skip as ShortCircuitOperator does."""
        from airflow.sdk.definitions.mappedoperator import MappedOperator

        from airflow_provider_ips.operators._log import skip_lines

        ti, task = context["ti"], context["task"]
        relatives = task.get_flat_relatives if self.ignore_downstream_trigger_rules else task.get_direct_relatives
        tasks = [relative for relative in relatives(upstream=False) if not relative.is_teardown]
        for line in skip_lines(sorted(relative.task_id for relative in tasks if _wiring.is_capture(relative))):
            self.log.info("%s", line)
        if (
            ti.map_index is not None
            and ti.map_index >= 0
            and not isinstance(context["dag"].task_dict[self.task_id], MappedOperator)
        ):
            # Airflow looks for skip marks by map index only where the task itself is mapped, not where its group is.
            raise AirflowSkipException("Nothing to process.")
        self.skip(ti=ti, tasks=tasks)
