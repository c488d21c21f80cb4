"""Whether the arrows of a DAG have each commit run after all tasks that process what its capture has captured.

capture >> job >> commit            right
capture >> commit, capture >> job   refused: the checkpoint moves while the job runs, or after it failed

And whether the XComs that tasks pull of a capture are among those that it pushes.

capture.output["db.events"]    right: the ICDC table of db.events
capture.output                 refused: a capture returns nothing, and the job would be given None
capture.output["db.event"]     refused: no such source, and the job would be given None
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow.sdk.definitions.mappedoperator import MappedOperator

from airflow_provider_ips import dag_graph
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import did_you_mean
from airflow_provider_ips.core.settings import CAPTURE_KEYS, range_keys, source_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from airflow.sdk import DAG
    from airflow.sdk.types import Operator

    from airflow_provider_ips.dag_graph import CommitTask, Pair

    Pulls = Mapping[str, Collection[tuple[str, str | None]]]
    """The XComs that each task pulls, by task and key."""

_REPORTED: Final = {"capture", "capture_id"}
"""The XComs of a capture that a task may use after the commit, to say what was captured or to clean up after it."""

RETURN_VALUE: Final = "return_value"
"""The key of `output` without a key."""

_PUSHED_BY_AIRFLOW: Final = "skipmixin_key"


def check_wiring(dag: DAG) -> None:
    """Refuse captures, commits and users of captures that are not connected as they have to be."""
    for task in dag.tasks:
        if dag_graph.is_commit(task):
            _check_commit(task, dag)
    pulls = {task.task_id: dag_graph.xcom_pulls(task) for task in dag.tasks if not dag_graph.is_commit(task)}
    committed: dict[str, CommitTask] = {}
    for pair in dag_graph.pairs(dag):
        other = committed.setdefault(pair.capture.task_id, pair.commit)
        if other is not pair.commit:
            raise _second_commit(pair, other)
        _check_order(pair)
        _check_retention(pair)
        _check_instances(pair)
        _check_teardowns(pair)
        _check_required(dag, pair)
        _check_users(dag, pair, pulls)
    _refuse_shared_consumers(dag)


def _check_commit(commit: Operator, dag: DAG) -> None:
    """Refuse a commit that is expanded, or does not name a capture of this DAG."""
    if isinstance(commit, MappedOperator):
        raise InputError(
            f"commit {commit.task_id!r} is expanded",
            consequence="Nothing says which capture each of its instances commits",
            remedy="use one plain commit for each capture, or put capture, job and commit into the same mapped task "
            "group",
        )
    if not isinstance(commit, dag_graph.CommitTask) or dag_graph.capture_of(commit, dag) is not None:
        return
    if commit.capture_task_id in dag.task_dict:
        raise InputError(
            f"commit {commit.task_id!r} names {commit.capture_task_id!r} as its capture, which is not an "
            "IpCaptureOperator",
            consequence="It captures nothing that could be committed",
            remedy="pass the IpCaptureOperator, or its task_id, as capture=",
        )
    captures = sorted(task.task_id for task in dag.tasks if dag_graph.is_capture(task))
    raise InputError(
        f"commit {commit.task_id!r} names the capture task {commit.capture_task_id!r}, which does not exist in DAG "
        f"{dag.dag_id!r}",
        consequence="There is nothing it could commit, and the checkpoint would never move",
        remedy=f"set capture= to one of {captures}" if captures else "add an IpCaptureOperator and pass it as capture=",
    )


def _second_commit(pair: Pair, other: CommitTask) -> InputError:
    return InputError(
        f"tasks {other.task_id!r} and {pair.commit.task_id!r} both commit the capture {pair.capture.task_id!r}",
        consequence="The first would move the checkpoint without waiting for the tasks before the second",
        remedy="keep one commit, downstream of all tasks that use the capture",
    )


def _check_order(pair: Pair) -> None:
    if pair.capture.task_id not in pair.commit.get_flat_relative_ids(upstream=True):
        raise InputError(
            f"capture {pair.capture.task_id!r} is not upstream of its commit {pair.commit.task_id!r}",
            consequence="The commit could run first, and move the checkpoint past rows that were not processed",
            remedy=f"add {pair.capture.task_id} >> … >> {pair.commit.task_id}",
        )


def _check_retention(pair: Pair) -> None:
    retention = dag_graph.argument(pair.commit, "icdc_retention")
    if dag_graph.argument(pair.capture, "capture_mode") == "RANGE" and retention != "next_commit":
        raise InputError(
            f"icdc_retention={retention!r} of {pair.commit.task_id!r} does not go with capture_mode='RANGE'",
            consequence="There is no table that could be kept or dropped",
            remedy="leave it out, or choose another mode",
        )


def _check_instances(pair: Pair) -> None:
    """
    Refuse a commit that has not exactly one instance for each instance of its capture.

        one capture, one commit                     right
        both in the same mapped task group          right: instance 2 commits what instance 2 has captured
        three instances of a capture, one commit    refused: Airflow removes instances when a list gets shorter, so an
                                                    unprocessed source looks like one that is no longer listed
        a job in a mapped group within that group   refused: instances 4 and 5 of the job belong to instance 2
    """
    groups = dag_graph.mapped_groups(pair.commit)
    if isinstance(pair.capture, MappedOperator) or groups != dag_graph.mapped_groups(pair.capture):
        raise _other_instances(pair)
    for task_id, task in pair.between.items():
        inner = dag_graph.mapped_groups(task)
        if groups and len(inner) > len(groups) and inner[-len(groups) :] == groups:
            raise InputError(
                f"task {task_id!r} is in the mapped task group {inner[0]!r}, which is within that of its commit "
                f"{pair.commit.task_id!r}",
                consequence="Which of its instances processed the rows of which commit could not be proven",
                remedy="put capture, job and commit into the same mapped task group",
            )


def _other_instances(pair: Pair) -> InputError:
    if not dag_graph.mapped_groups(pair.commit):
        return InputError(
            f"capture {pair.capture.task_id!r} has several instances in a run, and its commit {pair.commit.task_id!r} "
            "is one task for all of them",
            consequence="Whether the rows of each instance were processed could not be proven, and the checkpoint "
            "could move past lost ones",
            remedy="put capture, job and commit into the same mapped task group, or capture all tables in one task: "
            "source_tables=[…]",
        )
    return InputError(
        f"commit {pair.commit.task_id!r} is in a mapped task group, and its capture {pair.capture.task_id!r} is not in "
        "the same",
        consequence="The first instance to commit would move the checkpoint while the others still process rows",
        remedy="move the commit downstream of the group, or put capture and job into the same group",
    )


def _check_teardowns(pair: Pair) -> None:
    for task in (pair.capture, *pair.between.values(), pair.commit):
        if task.is_teardown:
            raise InputError(
                f"teardown {task.task_id!r} is between capture and commit"
                if task.task_id in pair.between
                else f"{task.task_id!r} is a teardown",
                consequence="A teardown runs whatever happened before it, so its success does not show that rows were "
                "processed",
                remedy="make it an ordinary task, or move it downstream of the commit",
            )


def _check_required(dag: DAG, pair: Pair) -> None:
    """Refuse a required task whose success would not show that the captured rows were processed."""
    upstream = pair.commit.get_flat_relative_ids(upstream=True)
    for task_id in pair.commit.required_task_ids:
        if task_id not in upstream:
            raise InputError(
                f"require={task_id!r} of commit {pair.commit.task_id!r} is not a task upstream of it",
                consequence="Whether it succeeds is not known yet when the checkpoint moves",
                remedy=f"name tasks of DAG {dag.dag_id!r} that are upstream of the commit",
            )
        problem = _problem_of_required(dag.task_dict[task_id], pair)
        if problem is not None:
            jobs = [name for name, task in pair.between.items() if not dag_graph.is_capture_or_commit(task)]
            raise InputError(
                f"require={task_id!r} of commit {pair.commit.task_id!r} {problem}",
                consequence="Its success does not show that the captured rows were processed, and they could be lost",
                remedy=f"name tasks that process them, and are between the two: {jobs}"
                if jobs
                else "put the tasks that process them between the two: "
                f"{pair.capture.task_id} >> … >> {pair.commit.task_id}",
            )


def _problem_of_required(task: Operator, pair: Pair) -> str | None:
    if task.task_id == pair.capture.task_id:
        return "is its capture"
    if dag_graph.is_capture(task):
        return "is another capture"
    if dag_graph.is_commit(task):
        return "is another commit"
    return None if task.task_id in pair.between else f"is not downstream of the capture {pair.capture.task_id!r}"


def _check_users(dag: DAG, pair: Pair, pulls: Pulls) -> None:
    """
    Refuse tasks that work on what was captured, as far as the DAG file shows it, and are not between the two.

        redo.expand(table=days(capture.output["capture"]))     redo uses the capture as well, through days
        commit >> notify(capture.output["capture"])            right: it reports, and so may a teardown
        commit >> load(capture.output["db.events"])            refused: its rows count as processed before it runs
    """
    capture, commit = pair.capture.task_id, pair.commit.task_id
    upstream = pair.commit.get_flat_relative_ids(upstream=True)
    downstream = pair.capture.get_flat_relative_ids(upstream=False)
    for task_id, via in sorted(_users(dag, pair, pulls)):
        through = f" through {via!r}" if via != capture else ""
        if task_id not in upstream:
            is_job = via == capture and not _reports(pulls[task_id], capture)
            raise InputError(
                f"task {task_id!r} uses the capture {capture!r}{through} but is not upstream of the commit {commit!r}",
                consequence="The checkpoint would move while it runs, or after it failed, and its rows would be lost",
                remedy=f"let it run before the commit: … >> {task_id} >> {commit}"
                if is_job
                else f"add {task_id} >> {commit}; if it does not process captured rows, add {commit} >> {task_id}",
            )
        if task_id not in downstream:
            raise InputError(
                f"task {task_id!r} uses the capture {capture!r}{through} but is not downstream of it",
                consequence="It could run first, and find nothing or what an earlier attempt left",
                remedy=f"add {via} >> {task_id}",
            )


def _users(dag: DAG, pair: Pair, pulls: Pulls) -> Iterator[tuple[str, str]]:
    """Each task that uses the capture or what such a task has pushed, and through which task."""
    capture, after = pair.capture.task_id, pair.commit.get_flat_relative_ids(upstream=False)
    seen, reached = {capture}, [capture]
    while reached:
        via = reached.pop()
        for task_id in sorted(name for name, pulled in pulls.items() if via in dict(pulled) and name not in seen):
            is_after = task_id in after or dag.task_dict[task_id].is_teardown
            if is_after and (via != capture or _reports(pulls[task_id], capture)):
                continue
            seen.add(task_id)
            reached.append(task_id)
            yield task_id, via


def _reports(pulled: Collection[tuple[str, str | None]], capture: str) -> bool:
    """Whether a task pulls nothing of a capture but its id and its record."""
    return {key for task_id, key in pulled if task_id == capture} <= _REPORTED


def _refuse_shared_consumers(dag: DAG) -> None:
    """Refuse two captures of one consumer: in the same run each would take the other for its own retry."""
    owners: dict[str, str] = {}
    for task in filter(dag_graph.is_capture, dag.tasks):
        # The default of a task with several instances has their sources, too, which are known when they run.
        default = None if dag_graph.is_expanded(task) else f"{dag.dag_id}.{task.task_id}"
        consumer = dag_graph.argument(task, "consumer") or default
        if not isinstance(consumer, str) or dag_graph.is_template(consumer):
            continue
        if (owner := owners.setdefault(consumer, task.task_id)) != task.task_id:
            raise InputError(
                f"captures {owner!r} and {task.task_id!r} of DAG {dag.dag_id!r} share consumer {consumer!r}",
                consequence="In one run each would take the other's range for its own",
                remedy="give each its own consumer, or capture all tables in one task: source_tables=[…]",
            )


def check_pulled_keys(dag: DAG) -> None:
    """Refuse tasks that pull an XCom which their capture does not push, as far as the DAG file shows its sources."""
    captures = {task.task_id: task for task in dag.tasks if dag_graph.is_capture(task)}
    for task in dag.tasks if captures else ():
        if dag_graph.is_commit(task):  # it names its capture, and pulls nothing else
            continue
        for task_id, key in sorted((task_id, key) for task_id, key in dag_graph.xcom_pulls(task) if key is not None):
            if task_id in captures:
                _check_key(task, captures[task_id], key)


def _check_key(task: Operator, capture: Operator, key: str) -> None:
    known = _pushed_by(capture)
    if key == RETURN_VALUE:
        raise InputError(
            f"task {task.task_id!r} pulls the output of the capture {capture.task_id!r} without a key",
            consequence="A capture pushes its XComs under keys and returns nothing, so the task would be given None",
            remedy=f"name one: {capture.task_id}.output[{known[0] if known else 'db.table'!r}] is the ICDC table",
        )
    # Partition columns, which have bounds as well, are known to the table alone.
    is_bound = any(key.startswith((f"{name}.lower.", f"{name}.upper.")) for name in known)
    if known and not is_bound and key not in (*known, *CAPTURE_KEYS, _PUSHED_BY_AIRFLOW):
        raise InputError(
            f"task {task.task_id!r} pulls {key!r}, which the capture {capture.task_id!r} does not push",
            consequence="The task would be given None, or its template would fail",
            remedy=did_you_mean(key, known, otherwise=f"pull one of {', '.join(map(repr, known))}"),
        )


def _pushed_by(capture: Operator) -> list[str]:
    """The keys of a capture's sources; nothing if the sources are known at run time only."""
    sources = dag_graph.checked_sources(capture)
    keys = [key for source, settings in sources for key in source_keys(source, settings)]
    # The configuration, which is read when the task runs, may choose the mode.
    may_be_range = dag_graph.argument(capture, "capture_mode") in (None, "RANGE")
    return [*keys, *(key for source, _ in sources for key in range_keys(source) if may_be_range)]
