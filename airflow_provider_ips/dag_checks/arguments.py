"""Whether an operator's arguments can be right: choices, names, sources written as dicts, and tasks that are named.

Settings of a source are checked where they are defined, in ``core.settings``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from airflow.sdk import TaskGroup, XComArg

from airflow_provider_ips import config, dag_graph
from airflow_provider_ips.core.errors import InputError, unknown_choice
from airflow_provider_ips.core.identifiers import TableIdentifier
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable, refuse_for_range
from airflow_provider_ips.runs.evidence import STAMP, TARGET_EVIDENCE

if TYPE_CHECKING:
    from airflow_provider_ips.dag_graph import CaptureTask, CommitTask


_NAMES: Final = ("iceberg_conn_id", "consumer", "icdc_namespace", "icdc_location", "engine_catalog")


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Refuse a value that is not among the choices."""
    if value not in choices:
        raise unknown_choice(name, value, choices, consequence="The task could not do what was meant")


def check_mode(capture: CaptureTask) -> None:
    """Refuse settings of the one mode of captures in the other."""
    check_choice("capture_mode", capture.capture_mode, (None, *config.CAPTURE_MODES))
    if capture.lease is not None:
        config.check_lease(capture.lease)
    places = [name for name in ("icdc_namespace", "icdc_location") if getattr(capture, name) is not None]
    lease = ["lease"] if capture.lease is not None else []
    held = ["hold_source"] if capture.hold_source else []
    wrong = {
        "BRANCH": [*places, *held],
        "ICDC": [] if capture.hold_source else lease,
        "RANGE": [*places, *lease, *held],
    }.get(capture.capture_mode or "", [])
    if wrong:
        raise InputError(
            f"{' and '.join(wrong)} contradict capture_mode={capture.capture_mode!r}",
            consequence="A branch is where its source is, and holds files for a time; an ICDC table has a place of its "
            "own, and holds none without hold_source; a range is only two snapshots of the source",
            remedy=f"leave out {' and '.join(wrong)}, or choose another mode",
        )


def check_range(capture: CaptureTask, settings: Iterable[CaptureSettings]) -> None:
    """Refuse a capture in mode RANGE whose rows no engine could read directly."""
    if capture.capture_mode == "RANGE":
        for each in settings:
            refuse_for_range(each, has_filter=capture.backfill_partitions is not None)


def refuse_stable_name(given: Mapping[str, object]) -> None:
    """Refuse one name for the captures of all runs: decision record 18 says why."""
    if "stable_name" in given:
        raise InputError(
            "stable_name is not offered: a capture has a name of its own in every run",
            consequence="Under one name, a job that is cleared alone would read what a later run has captured, and "
            "process rows twice without any error",
            remedy="hand the name to the job: as an argument, in its configuration or in an environment variable. For "
            "a job that takes none, see 'A job that reads a fixed name' in the cookbook",
        )


def check_names(capture: CaptureTask) -> None:
    """Refuse names that are empty or not strings. All but the connection may be left out."""
    for name in _NAMES:
        value = getattr(capture, name)
        may_be_left_out = name != "iceberg_conn_id"
        if dag_graph.is_template(value) or (value is None and may_be_left_out):
            continue
        if not isinstance(value, str) or not value.strip():
            raise InputError(
                f"{name}={value!r} is not a name",
                consequence="Nothing could be found under it",
                remedy=f"set {name} to a non-empty string" + (", or leave it out" if may_be_left_out else ""),
            )
        if name == "icdc_namespace":
            _check_namespace(value)


def _check_namespace(namespace: str) -> None:
    try:
        TableIdentifier.parse(f"{namespace}.t")
    except InputError as error:
        raise InputError(
            f"icdc_namespace={namespace!r} is malformed",
            consequence="No ICDC table could be made there",
            remedy='write it as "icdc" or "scratch.icdc"',
        ) from error


def check_target(commit: CommitTask) -> None:
    """Refuse evidence and changes of a target that the commit does not name."""
    if commit.target_evidence not in TARGET_EVIDENCE or (
        commit.target_evidence != STAMP and commit.verify_target is None
    ):
        raise InputError(
            f"target_evidence={commit.target_evidence!r} "
            + ("has no target" if commit.target_evidence in TARGET_EVIDENCE else "is unknown"),
            consequence="The checkpoint would move without the evidence that was meant",
            remedy=f"use one of {', '.join(map(repr, TARGET_EVIDENCE))}, and name the job's target by verify_target=",
        )
    if commit.target_changes and commit.verify_target is None and not commit.target_assets:
        raise InputError(
            "target_changes=True has no target",
            consequence="It is not known which stages read what the job changes",
            remedy="name the job's target by target_assets= or verify_target=",
        )
    if commit.verify_target is not None and not dag_graph.is_template(commit.verify_target):
        TableIdentifier.parse(commit.verify_target)


def read_source_dicts(value: object) -> object:
    """Replace dicts, also those in lists, by ``SourceTable``: XComs and templates can only give dicts."""
    if isinstance(value, Mapping):
        if not isinstance(value.get("table"), str):
            raise InputError(
                f"source_tables entry {dict(value)!r} has no 'table'",
                consequence="It does not say what to capture",
                remedy='write it as {"table": "db.t", …}',
            )
        return SourceTable(**dict(value))
    if isinstance(value, list | tuple):
        return [read_source_dicts(entry) for entry in value]
    return value


def parse_capture(value: object) -> str:
    """Return the task id of the capture that a commit names by the task, its output or its id."""
    task_id = _task_id_of(value, accepts=dag_graph.is_capture)
    if task_id is None:
        raise InputError(
            f"capture={value!r} is not an IpCaptureOperator",
            consequence="The commit could not know what to commit",
            remedy="pass the IpCaptureOperator or its task id",
        )
    return task_id


def parse_require(value: Iterable[object] | str | None) -> tuple[tuple[str, ...], ...]:
    """
    Return one tuple of task ids for each requirement: one task of each tuple must succeed.

        require=[a, b]      (("a",), ("b",))    both must succeed
        require=[(a, b)]    (("a", "b"),)       one of the two is enough
        require=group       (("a",), ("b",))    all tasks of a task group must succeed
    """
    if value is None:
        return ()
    entries = _entries(value)
    _refuse_task_groups(entries)
    requirements = tuple(tuple(map(_required_task_id, _entries(entry))) for entry in entries)
    if not requirements or () in requirements:
        raise InputError(
            "require names an empty tuple of tasks" if requirements else "require=[] requires nothing",
            consequence="The checkpoint would move whatever happened",
            remedy="leave require out to require all tasks between capture and commit, or name some",
        )
    requirements = tuple(dict.fromkeys(requirements))
    _refuse_useless_alternatives(requirements)
    return requirements


def _entries(value: object) -> list[object]:
    if isinstance(value, str | XComArg) or hasattr(value, "task_id") or not isinstance(value, Iterable):
        return [value]
    return list(value)


def _required_task_id(value: object) -> str:
    task_id = _task_id_of(value)
    if task_id is None:
        raise InputError(
            f"require={value!r} is not a task",
            consequence="The commit could not know what has to succeed",
            remedy="pass the task or its task id",
        )
    return task_id


def _task_id_of(value: object, accepts: Callable[[object], bool] = lambda _: True) -> str | None:
    """The id of a task that is given as itself, as its output, or by the id; None if it is not accepted."""
    if isinstance(value, XComArg):
        value = next(operator for operator, _ in value.iter_references())
    if isinstance(value, str):
        return value or None
    task_id = getattr(value, "task_id", None)
    return task_id if isinstance(task_id, str) and accepts(value) else None


def _refuse_task_groups(entries: Iterable[object]) -> None:
    """A task group can be iterated as a tuple can, so it would be treated as one."""
    for group in (entry for entry in entries if isinstance(entry, TaskGroup)):
        raise InputError(
            f"require names the task group {group.group_id!r} as one entry",
            consequence="One of its tasks would be enough, and rows that the others did not process would be lost",
            remedy="name its tasks, each of which must succeed: require=[*group]",
        )


def _refuse_useless_alternatives(requirements: tuple[tuple[str, ...], ...]) -> None:
    """
    Refuse a tuple one task of which must succeed in any case: the others could not replace it, as was surely meant.

        require=[a, (a, b)]     a must succeed, so b is never enough
    """
    alone = {tasks[0] for tasks in requirements if len(tasks) == 1}
    for tasks in (tasks for tasks in requirements if len(tasks) > 1):
        for task_id in tasks:
            if tasks.count(task_id) > 1:
                where = f"twice in the tuple {tasks}"
            elif task_id in alone:
                where = f"by itself and in the tuple {tasks}"
            else:
                continue
            raise InputError(
                f"require names {task_id!r} {where}",
                consequence="No other task could replace it, and the commit would fail where one was meant to",
                remedy=f"name {task_id!r} alone if it must succeed in any case, or once in the tuple with those that "
                "may replace it",
            )
