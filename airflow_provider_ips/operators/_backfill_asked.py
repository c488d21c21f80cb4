"""What a backfill is asked for, by the form or by the operator's arguments, and what bounds its chunks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.asked import Asked, Run
from airflow_provider_ips.core.backfill import Bounds
from airflow_provider_ips.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_ips.operators.backfill import IpBackfillOperator

WISHES: Final = ("partitions", "since_snapshot", "since_time", "until_snapshot", "until_time")
RUNS: Final = tuple(run.value for run in (Run.PARTITIONS, Run.FULL, Run.SNAPSHOT, Run.TIME))
_LIMITS: Final = ("max_partitions", "max_snapshots", "max_files", "max_bytes")


def asked_of(task: IpBackfillOperator, form: Asked) -> Asked:
    """The form goes first, whole; what it leaves open the arguments say. It has to be what the job stands."""
    if form.move_checkpoint:
        raise InputError(
            "ips_move_checkpoint with a backfill",
            consequence="A backfill is detached from the checkpoint, so that live runs go on beside it",
            remedy="leave it out",
        )
    is_dry = form.dry_run or task.is_dry_run
    asked = replace(form, dry_run=is_dry) if form.run is not Run.USUAL else _of_arguments(task, is_dry=is_dry)
    if asked.run.value not in runs_of(task):
        raise InputError(
            f"the backfill was asked for {asked}, and its job is for {' and '.join(map(repr, runs_of(task)))} only "
            "(runs=)",
            consequence="A job that replaces whole partitions deletes the rows that a range does not hand over; none "
            "was planned",
            remedy=f"choose ips_run={' or '.join(map(repr, runs_of(task)))}; if the job stands it, add "
            f"{asked.run.value!r} to runs= of {task.task_id!r}",
        )
    return asked


def runs_of(task: IpBackfillOperator) -> tuple[str, ...]:
    """The kinds of backfills that the group's job stands."""
    return (task.runs,) if isinstance(task.runs, str) else tuple(task.runs)


def check_arguments(task: IpBackfillOperator) -> None:
    """Refuse limits that bound nothing, and kinds of backfills that there are not."""
    for name in _LIMITS:
        value = getattr(task, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise InputError(
                f"{name}={value!r} is not a whole number above zero",
                consequence="It bounds no chunk",
                remedy="use 1 or more, or leave it out",
            )
    unknown = [run for run in runs_of(task) if run not in RUNS]
    if unknown or not runs_of(task):
        raise InputError(
            f"runs={task.runs!r} {f'has {unknown[0]!r}, which is no kind of backfill' if unknown else 'is empty'}",
            consequence="It is not said what the job stands",
            remedy=f"use some of {', '.join(map(repr, RUNS))}",
        )
    if task.everything and any(getattr(task, name) is not None for name in WISHES if name.startswith("since")):
        raise _everything_of_a_range()


def bounds_of(task: IpBackfillOperator, limits: Asked, asked: Asked) -> tuple[Bounds, tuple[str, ...]]:
    """The form's, if it has any: how many snapshots then stands for how many values, where there are partitions.

    Also what to warn of: an argument that bounds the other kind of chunk only.
    """
    if limits != Asked():
        return Bounds(max_units=limits.max_snapshots, max_files=limits.max_files, max_bytes=limits.max_bytes), ()
    of_partitions = asked.run in (Run.FULL, Run.PARTITIONS)
    used, idle = ("max_partitions", "max_snapshots") if of_partitions else ("max_snapshots", "max_partitions")
    notes: tuple[str, ...] = ()
    if getattr(task, used) is None and getattr(task, idle) is not None:
        notes = (f"{idle}={getattr(task, idle)} bounds no chunk of {asked}: {used} does, and is not set",)
    return Bounds(max_units=getattr(task, used), max_files=task.max_files, max_bytes=task.max_bytes), notes


def names_of(value: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several."""
    return (value,) if isinstance(value, str) and value else tuple(value)


def _of_arguments(task: IpBackfillOperator, *, is_dry: bool) -> Asked:
    given = {name: getattr(task, name) or None for name in WISHES}
    run = _run_of(given)
    if run is None and not task.everything:
        raise InputError(
            "nothing says what to backfill",
            consequence="The whole table is hardly what was meant",
            remedy="trigger the DAG with ips_run='partitions' and ips_partitions, or a range; or set partitions=, "
            "since_snapshot= or since_time=; everything=True alone is for the whole table",
        )
    if task.everything and run in (Run.SNAPSHOT, Run.TIME):
        raise _everything_of_a_range()  # templates, which parsing has let pass
    everything = task.everything and run is Run.PARTITIONS
    return Asked(run=run or Run.FULL, everything=everything, dry_run=is_dry, **given)  # type: ignore[arg-type]


def _run_of(given: Mapping[str, str | None]) -> Run | None:
    """The kind of run that arguments speak of."""
    if given["since_snapshot"] is not None:
        return Run.SNAPSHOT
    if given["since_time"] is not None:
        return Run.TIME
    until = next((name for name in ("until_snapshot", "until_time") if given[name] is not None), None)
    if until is not None:
        raise InputError(
            f"{until}={given[until]!r} without since_snapshot or since_time",
            consequence="It is not said where the range begins",
            remedy="say it, or leave the end out",
        )
    return None if given["partitions"] is None else Run.PARTITIONS


def _everything_of_a_range() -> InputError:
    return InputError(
        "everything=True with since_snapshot or since_time",
        consequence="One says the whole table, the other a range of it",
        remedy="leave one of them out",
    )
