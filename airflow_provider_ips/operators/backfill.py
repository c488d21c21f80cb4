"""The task before a mapped task group: it plans a backfill in chunks, one for each instance of the group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk import BaseOperator, SkipMixin

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable, parse_sources
from airflow_provider_ips.operators import _context
from airflow_provider_ips.operators._backfill_asked import RUNS, WISHES, asked_of, bounds_of, check_arguments, names_of
from airflow_provider_ips.operators._parameters import check_choice, entries_of, is_template
from airflow_provider_ips.operators.capture import ON_ACTIVE_RUN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_provider_ips.operators._backfill_plan import Planned, Wanted

AS_OF: Final = ("capture", "plan")


class IpBackfillOperator(BaseOperator, SkipMixin):
    """
    Plan a backfill of one table in bounded chunks, for a task group that is expanded over them.

    Every instance of the group captures one chunk, detached from the live checkpoint, processes and commits it. So the
    grid shows how far it is, a chunk that failed is cleared by itself, and live runs go on meanwhile.

    Returns the chunks, and pushes the XCom ``backfill``: what was asked for, and per chunk and stage the partitions,
    files and bytes.

    What is asked for is said by the arguments, or by the trigger form
    (:func:`~airflow_provider_ips.params.ips_params`), which goes first.

    :param source_table: ``"db.t"``, a :class:`SourceTable`, or a dict of its arguments. (templated)
    :param iceberg_conn_id: The :ref:`Iceberg connection id<howto/connection:iceberg>` of the catalog. (templated)
    :param partitions: A filter on partition columns: all live rows of these partitions. With a range, what of it lies
        there. (templated)
    :param since_snapshot: A snapshot id, as text: a range that begins behind it. (templated)
    :param since_time: An ISO timestamp with its zone: a range that begins behind what the table showed then.
        (templated)
    :param until_snapshot: The last snapshot of the range; nothing: the newest. (templated)
    :param until_time: The same by time. (templated)
    :param everything: A filter that selects the whole table is meant so; without a filter and a range: the whole table.
    :param runs: Which kinds of backfills the job of the group stands: ``"partitions"``, ``"full"``, ``"snapshot"``,
        ``"time"``; others are refused. A job that replaces whole days stands the first two only: a range hands over the
        rows that were added, and not those that the day had before.
    :param chunk_by: The partition column whose values are kept together; the default is one of days or moments that the
        filter compares or the table is partitioned by, else another one of these. (templated)
    :param max_partitions: How many values of that column one chunk takes at most.
    :param max_snapshots: How many snapshots one chunk of a range takes at most.
    :param max_files: How many files one chunk takes at most; a single value or snapshot may have more.
    :param max_bytes: How many bytes one chunk takes at most; a single value or snapshot may have more.
    :param as_of: Of which moment the rows of partitions are: ``"capture"``, when their chunk is captured, or
        ``"plan"``. (templated)
    :param target_tables: What the group writes: no two backfills write the same part of one of them at the same time.
        The default is what the commits behind say. (templated)
    :param stages: Tables further down, for the dry run: what the same filter selects there. (templated)
    :param on_active_backfill: When another backfill is at work on the same part of a target: ``"fail"``, or ``"wait"``
        until it is not.
    :param dry_run: Say what would be done, in the log and in the XCom ``backfill``, and skip all that is behind.
    :param follow_params: Do what the run's params ask for.
    """

    template_fields: Sequence[str] = (
        "source_table",
        "iceberg_conn_id",
        *WISHES,
        "chunk_by",
        "as_of",
        "target_tables",
        "stages",
    )
    ui_color = "#e6dff0"
    inherits_from_skipmixin = True
    _ips_backfill: ClassVar[bool] = True

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
        self._check()

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Plan, claim the targets, and return the chunks; or say what they would be, and skip the rest."""
        from airflow_provider_ips.operators import _claims
        from airflow_provider_ips.operators._backfill_run import BackfillRun

        wanted = self._wanted(context)
        catalog = _context.open_catalog(self.iceberg_conn_id)
        run = BackfillRun(wanted=wanted, catalog=catalog, ti=context["ti"], now_ms=_context.now_ms())
        planned = run.plan()
        self._tell(planned)
        context["ti"].xcom_push(key="backfill", value=planned.to_json())
        if wanted.asked.dry_run:
            self._skip_the_rest(context)
            return []
        if (other := run.claim(planned)) is not None:
            mine = next(claim for claim in run.claims_of(planned) if claim.target == other.target)
            _claims.give_way(context, mine, other, waits=self.on_active_backfill == "wait")
        self._say_next(planned)
        return [chunk.to_json() for chunk in planned.chunks]

    def _check(self) -> None:
        check_choice("on_active_backfill", self.on_active_backfill, ON_ACTIVE_RUN)
        if not is_template(self.as_of):
            check_choice("as_of", self.as_of, AS_OF)
        for name, value in (("everything", self.everything), ("dry_run", self.is_dry_run)):
            check_choice(name, value, (True, False))
        check_choice("follow_params", self.follow_params, (True, False))
        check_arguments(self)
        self.checked_sources()

    def checked_sources(self) -> tuple[tuple[SourceTable, CaptureSettings], ...]:
        """The one table, as far as it is known when the DAG file is read."""
        return () if is_template(self.source_table) else (self._source(),)

    def _source(self) -> tuple[SourceTable, CaptureSettings]:
        sources = parse_sources(entries_of(self.source_table), CaptureSettings())
        if len(sources) != 1:
            raise InputError(
                f"source_table names {len(sources)} tables",
                consequence="Chunks of several tables need not fit together",
                remedy="backfill one table; a job that joins others reads them in full",
            )
        return sources[0], sources[0].settings(CaptureSettings())

    def _wanted(self, context: Context) -> Wanted:
        from airflow_provider_ips.operators._asking import asked_in_chunks
        from airflow_provider_ips.operators._backfill_plan import Wanted
        from airflow_provider_ips.operators._claims import unnamed

        form, limits = asked_in_chunks(context, follow_params=self.follow_params)
        asked = asked_of(self, form)
        source, settings = self._source()
        bounds, notes = bounds_of(self, limits, asked)
        targets = self._targets(context)
        return Wanted(
            run=_context.run_identity(context),
            task_id=self.task_id,
            source=source,
            settings=settings,
            asked=asked,
            chunk_by=self.chunk_by,
            bounds=bounds,
            as_of_plan=self.as_of == "plan",
            targets=targets or (unnamed(self.dag_id),),
            stages=names_of(self.stages),
            max_chunks=_max_chunks(),
            notes=notes if targets else (*notes, _NO_TARGET),
        )

    def _targets(self, context: Context) -> tuple[str, ...]:
        """Of commits behind it, unless it is said."""
        from airflow_provider_ips.operators import _wiring
        from airflow_provider_ips.operators._claims import targets_of

        named = tuple(name if "@" in name else f"{name}@main" for name in names_of(self.target_tables))
        task = context["dag"].task_dict[self.task_id]
        behind: list[Any] = [t for t in task.get_flat_relatives(upstream=False) if _wiring.is_commit(t)]
        return named or targets_of(behind)

    def _tell(self, planned: Planned) -> None:
        from airflow_provider_ips.operators._backfill_log import plan_lines

        for line in plan_lines(planned):
            self.log.info("%s", line)
        for warning in planned.warnings:
            self.log.warning("%s", warning)

    def _say_next(self, planned: Planned) -> None:
        chunks = len(planned.chunks)
        self.log.info(
            "Next: %s",
            f"the task group behind takes {chunks} chunk{'' if chunks == 1 else 's'}, one an instance. The checkpoint "
            "stays where it is."
            if chunks
            else "nothing to do.",
        )

    def _skip_the_rest(self, context: Context) -> None:
        """What is mapped over the chunks is skipped because there are none; what is not, is skipped by name."""
        task, ti = context["task"], context["ti"]
        self.log.info("Next: nothing was made or moved. Trigger the DAG without the dry run to do this.")
        ti.xcom_push(key="return_value", value=[])
        self.skip(ti=ti, tasks=[t for t in task.get_flat_relatives(upstream=False) if not t.is_teardown])


_NO_TARGET: Final = (
    "no target is known: backfills by other DAGs that write the same table at the same time will not be noticed. Say "
    "target_tables here, or verify_target or target_assets at the commit"
)


def _max_chunks() -> int:
    """As many instances as Airflow maps."""
    from airflow.sdk.configuration import conf

    return int(conf.getint("core", "max_map_length", fallback=1024))
