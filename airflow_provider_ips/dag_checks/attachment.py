"""What is added to the tasks of a DAG, and why. Callbacks and hooks that a task has already are called as before.

- A commit gets the arrow from its capture, where it names the capture by its id and the capture is defined after it.
- A task that pulls XComs of a capture gets ``name_lost_files`` as one more ``on_failure_callback``. Expanded tasks do
  not: their callbacks belong to all of their instances.
- A task between capture and commit that resumes its job gets a ``pre_execute`` hook, called before the one it has.
  Airflow keeps the id of such a job with the task (``ResumableJobMixin``, such as ``SparkSubmitOperator`` in cluster
  mode; ``KubernetesPodOperator``), even when the run is cleared, and does not submit a job again that has succeeded:

      run 1 captures A, its job succeeds, the run is cleared and captures A and B
      without the hook the task finds the job of A, succeeds at once, and B is committed unprocessed
"""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.definitions.mappedoperator import MappedOperator

from airflow_provider_ips import compat, dag_graph
from airflow_provider_ips.runs.lost_files import name_lost_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.sdk import DAG, Context
    from airflow.sdk.types import Operator

    from airflow_provider_ips.dag_graph import CommitTask

log = logging.getLogger(__name__)

CAPTURE_IDS: Final = "ips_capture_ids"
"""Where a resumable task keeps, beside the id of its job, the ids of the captures that the job was given."""

_POD_OPERATOR: Final = "airflow.providers.cncf.kubernetes.operators.pod.KubernetesPodOperator"
"""It keeps the name of its pod where the mix-in keeps the id of a job, without being one of the mix-in."""

_FORGETS: Final = "_ips_forgets"
"""Marks a hook that calls ours and the author's."""


def attach(dag: DAG) -> None:
    """Add what is described above. Doing so again changes nothing."""
    for commit in dag_graph.commits(dag):
        depend_on_capture(commit)
    for task in _users_of_captures(dag):
        if not isinstance(task, MappedOperator) and name_lost_files not in task.on_failure_callback:
            task.on_failure_callback = [*task.on_failure_callback, name_lost_files]
    for pair in dag_graph.pairs(dag):
        for task in pair.between.values():
            if _resumes_its_job(task):
                _prepend_hook(task)


def depend_on_capture(commit: CommitTask) -> None:
    """Put a commit downstream of its capture, if that is already defined."""
    if commit._dag is None:  # noqa: SLF001 - the property raises where a task is made outside of a DAG
        return
    commit.capture_task_id = dag_graph.sibling_id(commit.capture_task_id, commit)
    capture = commit.dag.task_dict.get(commit.capture_task_id)
    if capture is not None and capture.task_id not in commit.upstream_task_ids:
        commit.set_upstream(capture)


def _users_of_captures(dag: DAG) -> Iterator[Operator]:
    captures = {task.task_id for task in dag.tasks if dag_graph.is_capture(task)}
    for task in dag.tasks:
        pulled = {task_id for task_id, _ in dag_graph.xcom_pulls(task)}
        if not dag_graph.is_capture_or_commit(task) and not captures.isdisjoint(pulled):
            yield task


def _resumes_its_job(task: Operator) -> bool:
    """Recognised by names: importing the mix-in, or a provider, would cost time in every DAG file."""
    has_mix_in = hasattr(dag_graph.operator_class(task), "execute_resumable")
    return has_mix_in or _POD_OPERATOR in dag_graph.class_paths(task)


def _prepend_hook(task: Operator) -> None:
    if isinstance(task, MappedOperator):
        task.partial_kwargs["pre_execute"] = _with_ours_first(task.partial_kwargs.get("pre_execute"))
    else:
        task._pre_execute_hook = _with_ours_first(task._pre_execute_hook)  # noqa: SLF001 - as pre_execute= does


def _with_ours_first(theirs: Callable[[Context], Any] | None) -> Callable[[Context], Any]:
    if theirs is None:
        return forget_job_of_other_capture
    if theirs is forget_job_of_other_capture or getattr(theirs, _FORGETS, False):
        return theirs

    def both(context: Context) -> None:
        forget_job_of_other_capture(context)
        theirs(context)

    def both_yielding(context: Context) -> Iterator[Any]:
        forget_job_of_other_capture(context)
        yield from theirs(context)

    # Airflow looks at the function itself to find out whether it yields asset metadata.
    hook = both_yielding if inspect.isgeneratorfunction(theirs) else both
    setattr(hook, _FORGETS, True)
    return hook


def forget_job_of_other_capture(context: Context) -> None:
    """Let a task submit a new job if the job that it remembers was given another capture; a ``pre_execute`` hook."""
    store = compat.task_state_of(context)
    if store is None:
        return
    captured = " ".join(sorted(_capture_ids_before(context)))
    known = store.get(CAPTURE_IDS)
    if known == captured:
        return
    if known is not None:
        log.info(
            "The job this task remembers was given capture %s; this run has %s: submitting a new job.", known, captured
        )
    store.clear()
    store.set(CAPTURE_IDS, captured)


def _capture_ids_before(context: Context) -> Iterator[str]:
    """The ids of the captures upstream of a task, in a mapped task group those of its index alone."""
    ti, tasks = context["ti"], context["dag"].task_dict
    own = tasks[context["task"].task_id]
    for task_id in own.get_flat_relative_ids(upstream=True):
        if not dag_graph.is_capture(tasks[task_id]):
            continue
        # Captures of other indexes may end while the job runs.
        if dag_graph.shares_index(tasks[task_id], own):
            found = ti.xcom_pull(task_ids=[task_id], key="capture_id", map_indexes=ti.map_index)
        else:
            found = ti.xcom_pull(task_ids=[task_id], key="capture_id")
        yield from (str(capture_id) for capture_id in found or () if capture_id is not None)
