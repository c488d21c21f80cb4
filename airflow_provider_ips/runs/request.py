"""What one run of a capture is requested to do, by its chunk, its params or Airflow's own backfill, and for whom."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_ips import config
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import CapturedBranch, icdc_table_name
from airflow_provider_ips.core.requests.request import LIMITS, PREFIX, RunKind, RunRequest
from airflow_provider_ips.core.settings import refuse_for_range
from airflow_provider_ips.runs import environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow.sdk import Context

    from airflow_provider_ips.core.backfill.chunks import Chunk
    from airflow_provider_ips.core.identifiers import Source
    from airflow_provider_ips.core.positions import RunIdentity
    from airflow_provider_ips.core.results.capture_record import FirstRun, TargetHead
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
    from airflow_provider_ips.dag_graph import CaptureTask


BRANCH = "BRANCH"
RANGE = "RANGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRequest:
    """What one run captures: the parameters of its operator, and what the run is requested to do."""

    consumer: str
    run: RunIdentity
    sources: tuple[tuple[SourceTable, CaptureSettings], ...]
    mode: str
    iceberg_conn_id: str
    icdc_namespace: str
    """Of ICDC tables; not used in the other modes."""

    icdc_location: str | None
    skip_if_empty: bool
    history_length: int
    task_id: str | None = None
    engine_catalog: str | None = None
    lease: timedelta | None = None
    holds_source: bool = False
    """Whether branches of the sources hold the files of ICDC tables."""

    run_request: RunRequest = field(default_factory=RunRequest)
    chunk: Chunk | None = None
    """The part of a backfill that the run takes."""

    clear_number: int | None = None
    """How often the run was cleared, if it captures the rows as they are then; None if it repeats its range."""

    target_heads: tuple[TargetHead, ...] = ()
    first_runs: tuple[FirstRun, ...] = ()

    def name_of(self, source: Source, capture_id: str, role: str = "") -> str:
        """Name what a capture makes of a source, as engines read it: a table, or a branch of the source."""
        if self.mode == BRANCH:
            return str(CapturedBranch.of_capture(source, capture_id, role))
        return f"{self.icdc_namespace}.{icdc_table_name(source, capture_id, role)}"

    def __post_init__(self) -> None:
        """Refuse what fits only one table where there are several."""
        names = [table.table for table, _ in self.sources]
        chunk, request = self.chunk, self.run_request
        if chunk is not None and [table.source for table, _ in self.sources] != [chunk.source]:
            raise InputError(
                f"{chunk} is of {chunk.source.label!r}, and {', '.join(names)} is to be captured",
                consequence="What was planned would not be what is processed",
                remedy="name the same one table in source_table of the IpBackfillOperator and source_tables of the "
                "capture; a job that joins others reads them in full",
            )
        snapshot_id = request.since_snapshot or request.until_snapshot
        if snapshot_id is not None and len(names) > 1:
            raise InputError(
                f"snapshot {snapshot_id} was requested, and {len(names)} tables are captured together: "
                f"{', '.join(names)}",
                consequence="A snapshot belongs to one table, so the others would have no range",
                remedy=f"request a moment: {PREFIX}run='time', {PREFIX}since_time, {PREFIX}until_time",
            )


def read_request(context: Context, task: CaptureTask) -> CaptureRequest:
    """Find out what this run captures.

    :param task: rendered
    """
    run, sources, mode = environment.run_identity(context), task.checked_sources(), task.capture_mode
    if mode is None:
        mode = config.capture_mode()
        _refuse_configured_mode(task, mode, [settings for _, settings in sources])
    run_request, chunk, is_as_of_now = _read_run_request(context, task)
    return CaptureRequest(
        consumer=task.consumer or default_consumer(run, task.task_id, [table.source for table, _ in sources]),
        run=run,
        sources=sources,
        mode=mode,
        lease=task.lease or config.lease(),
        holds_source=task.hold_source and mode not in (BRANCH, RANGE),
        iceberg_conn_id=task.iceberg_conn_id,
        engine_catalog=task.engine_catalog,
        icdc_namespace=task.icdc_namespace or config.ICDC_NAMESPACE.read(),
        icdc_location=task.icdc_location,
        skip_if_empty=task.skip_if_empty,
        history_length=config.history_length(),
        task_id=task.task_id,
        run_request=run_request,
        chunk=chunk,
        clear_number=environment.clear_number(context) if is_as_of_now else None,
    )


def _refuse_configured_mode(task: CaptureTask, mode: str, settings: Iterable[CaptureSettings]) -> None:
    """Refuse what does not go with a mode that the configuration chose."""
    if mode == RANGE:
        for each in settings:
            refuse_for_range(each)
    if mode in (BRANCH, RANGE) and (task.icdc_namespace or task.icdc_location):
        raise InputError(
            f"icdc_namespace or icdc_location is set, and [ips] capture_mode is {mode!r}",
            consequence="A branch, or a range, is where its source is",
            remedy='leave them out, or set capture_mode="ICDC" on the capture',
        )


def default_consumer(run: RunIdentity, task_id: str, sources: Iterable[Source]) -> str:
    """Name the consumer of a capture that names none.

    Instances of a mapped capture have one task id and different tables, so each has a checkpoint by its tables.
    """
    name = f"{run.dag_id}.{task_id}"
    return name if run.map_index < 0 else f"{name}.{'+'.join(source.label for source in sources)}"


def _read_run_request(context: Context, task: CaptureTask) -> tuple[RunRequest, Chunk | None, bool]:
    """Find out what a run is requested to capture, and whether as of now, also if it is cleared.

    A chunk goes first: its plan has read the run's params already.
    """
    if task.chunk is not None:
        from airflow_provider_ips.core.backfill.chunks import Chunk

        part = Chunk.from_json(task.chunk)
        return part.request, part, part.is_of_partitions and part.as_of_snapshot is None
    request = _checked(_params(context)) if task.follow_params else RunRequest()
    is_backfill = request.kind is RunKind.USUAL and context["dag_run"].run_type == "backfill"
    # Rendered in these runs only: others may have no data interval, which it needs.
    partitions = task.render_template(task.backfill_partitions, context) if is_backfill else None
    if partitions is None:
        return request, None, False
    # What else the backfill's conf says has its effect, as in a dry run, or is refused, as limits are.
    return replace(request, kind=RunKind.PARTITIONS, partitions=partitions, everything=True), None, True


def read_backfill_params(context: Context, *, follow_params: bool) -> tuple[RunRequest, RunRequest]:
    """Read the params of a backfill: the request, and apart from it the limits.

    In a backfill limits bound each chunk in place of the range, so they fit every kind of request.
    """
    if not follow_params:
        return RunRequest(), RunRequest()
    params = _params(context)
    limits = {name: params[name] for name in (f"{PREFIX}{limit}" for limit in LIMITS) if name in params}
    rest = {name: value for name, value in params.items() if name not in limits}
    return _checked(rest), RunRequest.from_params(limits)


def _params(context: Context) -> Mapping[str, Any]:
    params = context["params"]
    _refuse_lost_conf(params, context["dag_run"].conf or {})
    return params


def _checked(params: Mapping[str, Any]) -> RunRequest:
    request = RunRequest.from_params(params)
    if request.partitions is not None:
        from airflow_provider_ips.iceberg.partitions.filters import parse_filter

        parse_filter(request.partitions)
    return request


def _refuse_lost_conf(params: Mapping[str, Any], conf: Mapping[str, Any]) -> None:
    """Refuse a run whose conf does not reach its params: it would not even notice that it is to be a dry run."""
    for name, value in conf.items():
        if name.startswith(PREFIX) and (name not in params or params[name] != value):
            raise InputError(
                f"the run's conf has {name}={value!r}, which Airflow does not pass on to its params",
                consequence="The run would do something else than it was triggered for",
                remedy="set [core] dag_run_conf_overrides_params=True",
            )
