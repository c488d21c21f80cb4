"""What a backfill is requested to do, by the trigger form or by the operator's arguments, and how it is cut."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from airflow_provider_ips import dag_graph
from airflow_provider_ips.core.backfill.chunks import ChunkLimits
from airflow_provider_ips.core.backfill.claims import claim_key
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import Source, digest
from airflow_provider_ips.core.requests.request import RunKind, RunRequest
from airflow_provider_ips.core.settings import check_positive
from airflow_provider_ips.runs import environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_provider_ips.core.positions import RunIdentity
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable


RANGE_ARGUMENTS: Final = ("partitions", "since_snapshot", "since_time", "until_snapshot", "until_time")
RUNS: Final = tuple(kind.value for kind in (RunKind.PARTITIONS, RunKind.FULL, RunKind.SNAPSHOT, RunKind.TIME))
_LIMITS: Final = ("max_partitions", "max_snapshots", "max_files", "max_bytes")

_NO_TARGET: Final = (
    "no target is known: backfills by other DAGs that write the same table at the same time will not be noticed. Set "
    "target_tables here, or verify_target or target_assets at the commit"
)


class BackfillArguments(Protocol):
    """The operator's arguments, rendered."""

    task_id: str
    runs: str | Sequence[str]
    partitions: str | None
    since_snapshot: str | None
    since_time: str | None
    until_snapshot: str | None
    until_time: str | None
    everything: bool
    chunk_by: str | None
    max_partitions: int | None
    max_snapshots: int | None
    max_files: int | None
    max_bytes: int | None
    as_of: str
    target_tables: str | Sequence[str]
    stages: str | Sequence[str]
    is_dry_run: bool
    follow_params: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRequest:
    """What is to be backfilled, checked, and how it is cut into chunks."""

    run: RunIdentity
    task_id: str
    table: SourceTable
    settings: CaptureSettings
    run_request: RunRequest
    chunk_by: str | None
    limits: ChunkLimits
    as_of_plan: bool
    """Whether chunks of partitions take the rows of the time of the plan, and not those of their own capture."""

    targets: tuple[str, ...]
    stages: tuple[str, ...]
    max_chunks: int
    warnings: tuple[str, ...] = ()

    @property
    def is_of_partitions(self) -> bool:
        """Tell whether live rows are backfilled, and not a range of snapshots."""
        return self.run_request.kind in (RunKind.FULL, RunKind.PARTITIONS)

    @property
    def digest(self) -> str:
        """Identify everything that determines the chunks, except the content of the source."""
        request = {name: value for name, value in self.run_request.to_json().items() if name != "dry_run"}
        names = (self.table.table, self.table.branch, repr(sorted(request.items())), repr(self.chunk_by))
        return digest(*names, repr(self.limits), repr(self.settings), repr(self.as_of_plan))

    @property
    def claim_keys(self) -> tuple[str, ...]:
        """Return the names of the Variables in which the plan claims its targets."""
        return tuple(claim_key(target, self.run, self.task_id) for target in self.targets)


def read_backfill_request(
    context: Context, task: BackfillArguments, table: SourceTable, settings: CaptureSettings
) -> BackfillRequest:
    """Read what is requested: by the trigger form if it requests anything, else by the operator's arguments."""
    from airflow.sdk.configuration import conf

    from airflow_provider_ips.runs.claims import unnamed_target
    from airflow_provider_ips.runs.request import read_backfill_params

    form, form_limits = read_backfill_params(context, follow_params=task.follow_params)
    run_request = request_of(task, form)
    limits, warnings = _limits_of(task, form_limits, run_request)
    targets = _targets_of(context, task)
    return BackfillRequest(
        run=environment.run_identity(context),
        task_id=task.task_id,
        table=table,
        settings=settings,
        run_request=run_request,
        chunk_by=task.chunk_by,
        limits=limits,
        as_of_plan=task.as_of == "plan",
        targets=targets or (unnamed_target(context["dag"].dag_id),),
        stages=_names(task.stages),
        max_chunks=int(conf.getint("core", "max_map_length", fallback=1024)),
        warnings=warnings if targets else (*warnings, _NO_TARGET),
    )


def request_of(task: BackfillArguments, form: RunRequest) -> RunRequest:
    """Take the form's request as a whole, or else that of the arguments. The job must be able to process it."""
    if form.move_checkpoint:
        raise InputError(
            "ips_move_checkpoint with a backfill",
            consequence="A backfill is detached from the checkpoint, so that live runs continue beside it",
            remedy="leave it out",
        )
    is_dry = form.dry_run or task.is_dry_run
    request = replace(form, dry_run=is_dry) if form.kind is not RunKind.USUAL else _of_arguments(task, is_dry=is_dry)
    runs = _names(task.runs)
    if request.kind.value not in runs:
        raise InputError(
            f"the backfill requests {request}, and its job can process {' and '.join(map(repr, runs))} only (runs=)",
            consequence="A job that replaces whole partitions deletes rows that a range does not contain; nothing was "
            "planned",
            remedy=f"choose ips_run={' or '.join(map(repr, runs))}; if the job can process it, add "
            f"{request.kind.value!r} to runs= of {task.task_id!r}",
        )
    return request


def check_arguments(task: BackfillArguments) -> None:
    """Refuse limits that are not positive numbers, and kinds of backfills that do not exist."""
    for name in _LIMITS:
        check_positive(name, getattr(task, name), consequence="It limits no chunk")
    runs = _names(task.runs)
    unknown = [run for run in runs if run not in RUNS]
    if unknown or not runs:
        raise InputError(
            f"runs={task.runs!r} {f'has {unknown[0]!r}, which is not a kind of backfill' if unknown else 'is empty'}",
            consequence="It is not known what the job can process",
            remedy=f"use some of {', '.join(map(repr, RUNS))}",
        )
    if task.everything and (task.since_snapshot is not None or task.since_time is not None):
        raise _everything_of_a_range()


def _limits_of(task: BackfillArguments, form: RunRequest, request: RunRequest) -> tuple[ChunkLimits, tuple[str, ...]]:
    """Take the limits of the form, if it has any, and else the arguments, with a warning about one without effect.

    The form has one field for units of both kinds, ``ips_max_snapshots``; the arguments have two.
    """
    if form != RunRequest():
        return ChunkLimits(max_units=form.max_snapshots, max_files=form.max_files, max_bytes=form.max_bytes), ()
    is_of_partitions = request.kind in (RunKind.FULL, RunKind.PARTITIONS)
    used, idle = ("max_partitions", "max_snapshots") if is_of_partitions else ("max_snapshots", "max_partitions")
    warnings: tuple[str, ...] = ()
    if getattr(task, used) is None and getattr(task, idle) is not None:
        warnings = (f"{idle}={getattr(task, idle)} limits no chunk of {request}: {used} does, and is not set",)
    return ChunkLimits(max_units=getattr(task, used), max_files=task.max_files, max_bytes=task.max_bytes), warnings


def _targets_of(context: Context, task: BackfillArguments) -> tuple[str, ...]:
    """Return the targets that the arguments name, or else those that the downstream commits name."""
    from airflow_provider_ips.runs.claims import targets_of

    named = tuple(Source.parse(name).full_label for name in _names(task.target_tables))
    downstream = context["dag"].task_dict[task.task_id].get_flat_relatives(upstream=False)
    return named or targets_of(each for each in downstream if isinstance(each, dag_graph.CommitTask))


def _names(value: str | Sequence[str]) -> tuple[str, ...]:
    """Read one name or several."""
    return (value,) if isinstance(value, str) and value else tuple(value)


def _of_arguments(task: BackfillArguments, *, is_dry: bool) -> RunRequest:
    given = {name: getattr(task, name) or None for name in RANGE_ARGUMENTS}
    kind = _kind_of(given)
    if kind is None and not task.everything:
        raise InputError(
            "nothing says what to backfill",
            consequence="The whole table is hardly what was meant",
            remedy="trigger the DAG with ips_run='partitions' and ips_partitions, or a range; or set partitions=, "
            "since_snapshot= or since_time=; everything=True alone is for the whole table",
        )
    if task.everything and kind in (RunKind.SNAPSHOT, RunKind.TIME):
        raise _everything_of_a_range()  # from templates, which were not rendered when the arguments were checked
    everything = task.everything and kind is RunKind.PARTITIONS
    return RunRequest(kind=kind or RunKind.FULL, everything=everything, dry_run=is_dry, **given)  # type: ignore[arg-type]


def _kind_of(given: Mapping[str, str | None]) -> RunKind | None:
    if given["since_snapshot"] is not None:
        return RunKind.SNAPSHOT
    if given["since_time"] is not None:
        return RunKind.TIME
    until = next((name for name in ("until_snapshot", "until_time") if given[name] is not None), None)
    if until is not None:
        raise InputError(
            f"{until}={given[until]!r} without since_snapshot or since_time",
            consequence="It is not known where the range begins",
            remedy="set one of them, or leave the end out",
        )
    return None if given["partitions"] is None else RunKind.PARTITIONS


def _everything_of_a_range() -> InputError:
    return InputError(
        "everything=True with since_snapshot or since_time",
        consequence="One requests the whole table, the other a range of it",
        remedy="leave one of them out",
    )
