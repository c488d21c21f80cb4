"""The arguments by which a commit names tasks: itself, by their ids, or by what they put out."""

from __future__ import annotations

from collections.abc import Iterable

from airflow.sdk import XComArg

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.operators import _wiring


def parse_task_id(value: object, *, what: str) -> str:
    """Read the capture of a commit, or a task that it requires."""
    if isinstance(value, XComArg):
        value = next(operator for operator, _ in value.iter_references())
    if isinstance(value, str) and value:
        return value
    task_id = getattr(value, "task_id", None)
    if isinstance(task_id, str) and (what != "capture" or _wiring.is_capture(value)):
        return task_id
    raise InputError(
        f"{what}={value!r} is no {'IpCaptureOperator' if what == 'capture' else 'task'}",
        consequence="The commit could not tell what it has to wait for",
        remedy=f"pass the {'IpCaptureOperator' if what == 'capture' else 'task'} or its task id",
    )


def parse_required(value: Iterable[object] | str | None) -> tuple[tuple[str, ...], ...]:
    """One group for each demand: the tasks of a group stand for each other."""
    if value is None:
        return ()
    entries = _entries(value)
    groups = tuple(tuple(parse_task_id(task, what="require") for task in _entries(entry)) for entry in entries)
    if not groups or () in groups:
        raise InputError(
            "require=[] demands no evidence at all" if not groups else "require names an empty group of tasks",
            consequence="The checkpoint would move whatever happened",
            remedy="leave require out to demand all tasks between capture and commit, or name some",
        )
    return groups


def _entries(value: object) -> list[object]:
    if isinstance(value, str | XComArg) or hasattr(value, "task_id") or not isinstance(value, Iterable):
        return [value]
    return list(value)
