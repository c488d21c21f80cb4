"""Other runs that may still write: those that have not ended, and those that were stopped moments ago.

    a run                                    how it is known                                 Activity
    has not ended                            Airflow counts it as queued or running          ACTIVE
    was marked failed, or timed out          its commit was skipped                          STOPPING, for 20 seconds
    was marked successful during its job     its commit was skipped, and no task before it   STOPPING, for 20 seconds
    has ended on its own                     its commit failed, or a task before it          ENDED

Airflow skips the tasks that have not started when a run is stopped. If a run ends on its own because a task failed, the
commit is not skipped. Below 3.3 a run that is marked successful has only successful tasks instead: then its commit has
succeeded although the checkpoint shows that it never ran.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips import dag_graph
from airflow_provider_ips.compat import NEVER_STARTED
from airflow_provider_ips.core.errors import ActiveRunError
from airflow_provider_ips.runs import environment
from airflow_provider_ips.runs.evidence import ENDED, SUCCESS, instance_states

if TYPE_CHECKING:
    from airflow.sdk import DAG, Context
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from airflow_provider_ips.core.checkpoint.document import Checkpoint
    from airflow_provider_ips.core.checkpoint.entries import PendingCapture
    from airflow_provider_ips.core.positions import RunIdentity
    from airflow_provider_ips.dag_graph import CommitTask
    from airflow_provider_ips.runs.request import CaptureRequest


log = logging.getLogger(__name__)

FAILED: Final = "failed"
SKIPPED: Final = "skipped"
RUNNING: Final = ["running"]
ACTIVE_STATES: Final = ["queued", *RUNNING]
LAST_HEARTBEAT: Final = timedelta(seconds=20)
"""How long processes of a run that was stopped may live: a heartbeat every 5 seconds, then the signals to end."""


class Activity(StrEnum):
    """Whether processes of a run may still write."""

    ACTIVE = "active"
    STOPPING = "stopping"
    ENDED = "ended"


def activity_of(
    ti: RuntimeTaskInstanceProtocol,
    run: RunIdentity,
    *,
    mine: RunIdentity,
    dag: DAG | None = None,
    capture_task_id: str | None = None,
) -> Activity:
    """Find out whether another run is active. Once it is deleted it is not, unless a new run has its id.

    :param dag: the run's DAG, if the task knows it
    :param capture_task_id: the capture whose commit shows whether the run was stopped
    """
    if (run.dag_id, run.run_id) == (mine.dag_id, mine.run_id):
        return Activity.ENDED
    if ti.get_dr_count(dag_id=run.dag_id, run_ids=[run.run_id], states=ACTIVE_STATES):
        return Activity.ACTIVE
    found = set(ti.get_task_states(dag_id=run.dag_id, run_ids=[run.run_id]).get(run.run_id, {}).values())
    if not {SKIPPED, NEVER_STARTED} & found:  # it was deleted, or nothing was stopped
        return Activity.ENDED
    state = _state_if_ended_just_now(run)
    if state is None:
        return Activity.ENDED
    commit = None if dag is None or capture_task_id is None else dag_graph.commit_of(capture_task_id, dag)
    if dag is not None and commit is not None:
        is_stopped = _never_ran(ti, dag, run, commit, state)
    else:  # in a run of another DAG it is not known which of the skipped tasks is the commit
        is_stopped = state == FAILED and SKIPPED in found
    return Activity.STOPPING if is_stopped else Activity.ENDED


def _state_if_ended_just_now(run: RunIdentity) -> str | None:
    from airflow.sdk.execution_time.comms import GetDagRun
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    found: Any = SUPERVISOR_COMMS.send(GetDagRun(dag_id=run.dag_id, run_id=run.run_id))
    ended = getattr(found, "end_date", None)  # it may have been deleted since
    is_recent = ended is not None and datetime.now(tz=UTC) - ended < LAST_HEARTBEAT
    return str(found.state.value) if is_recent else None


def _never_ran(ti: RuntimeTaskInstanceProtocol, dag: DAG, run: RunIdentity, commit: CommitTask, state: str) -> bool:
    """Tell whether the run was stopped before the commit, which was not skipped because a task before it was."""
    # An instance that was not expanded yet has the index -1, for which Airflow names all instances.
    own, indexes = commit.task_id, {run.map_index, -1}
    found = (instance_states(ti, dag, replace(run, map_index=i), own, [own]).get((own, i)) for i in indexes)
    if state == FAILED:
        return SKIPPED in found
    if NEVER_STARTED not in found:
        return False
    before = instance_states(ti, dag, run, own, commit.get_flat_relative_ids(upstream=True))
    return set(before.values()) == {SUCCESS}


def is_queued_after(context: Context, other: RunIdentity) -> bool:
    """Tell whether another run starts only when this one has ended, so that waiting for it would never end."""
    dag = context["dag"]
    if other.dag_id != dag.dag_id or dag.max_active_runs != 1:
        return False
    return bool(context["ti"].get_dr_count(dag_id=dag.dag_id, run_ids=[other.run_id], states=["queued"]))


def refuse_or_await_repeated_job(
    context: Context, request: CaptureRequest, checkpoint: Checkpoint | None, *, waits: bool
) -> None:
    """Fail or wait while the job of the newest committed run, cleared without its capture, is running again.

    No document shows it: the job reads the same ICDC table as before, and its commit moves nothing.
    """
    wrote = [] if checkpoint is None else [capture for capture in checkpoint.history if capture.wrote]
    run = wrote[-1].run if wrote else None
    dag = context["dag"]
    if run is None or run.dag_id != dag.dag_id or run.deployment not in (None, request.run.deployment):
        return
    unfinished = _unfinished_work(context["ti"], dag, run, wrote[-1].task_id or "", mine=request.run)
    if not unfinished:
        return
    if waits:
        log.info("%s of run %s, which has committed, may write again: waiting for it.", unfinished[0], run)
        environment.come_back_later()
    raise ActiveRunError(
        f"run {run} has committed for consumer {request.consumer!r}, and its {unfinished[0]!r} was cleared and has not "
        "ended since",
        consequence="It would write its rows again over those of this run",
        remedy="let it end; set on_active_run='wait' to wait for it",
    )


def _unfinished_work(
    ti: RuntimeTaskInstanceProtocol, dag: DAG, run: RunIdentity, capture_task_id: str, *, mine: RunIdentity
) -> list[str]:
    """List the tasks between capture and commit that have not ended, of another run that is active."""
    commit = dag_graph.commit_of(capture_task_id, dag)
    # With one run at a time, a run that is queued does not start before this one has ended.
    states = RUNNING if dag.max_active_runs == 1 else ACTIVE_STATES
    # If that run was deleted and this one has its id, Airflow would answer for this one.
    is_other = (run.dag_id, run.run_id) != (mine.dag_id, mine.run_id)
    if commit is None or not is_other:
        return []
    if not ti.get_dr_count(dag_id=run.dag_id, run_ids=[run.run_id], states=states):
        return []
    between = dag_graph.tasks_between(dag.task_dict[capture_task_id], commit)
    found = instance_states(ti, dag, run, commit.task_id, between)
    return [task_id for (task_id, _), state in found.items() if state not in ENDED]


def active_run_error(request: CaptureRequest, pending: PendingCapture, activity: Activity | None) -> ActiveRunError:
    """The error of a capture that has to leave the rows to another run.

    :param activity: None for a run of another deployment, which cannot be asked
    """
    has_captured = f"has captured for consumer {request.consumer!r}"
    if activity is None:
        return ActiveRunError(
            f"run {pending.run} of deployment {pending.run.deployment!r} {has_captured} and has not committed",
            consequence="Whether it is still active cannot be asked from here, and both would process the same rows",
            remedy="let it end there; if that deployment is down for good, or is this one with a new [api] base_url, "
            f"`airflow ips abandon --consumer {request.consumer}`",
        )
    if activity is Activity.STOPPING:
        return ActiveRunError(
            f"run {pending.run} {has_captured}, has not committed, and was stopped moments ago",
            consequence="Its processes may write until their next heartbeat",
            remedy=f"wait {LAST_HEARTBEAT.seconds} seconds and let this task run again, or trigger a new run; "
            "on_active_run='wait' does so automatically",
        )
    return ActiveRunError(
        f"run {pending.run} {has_captured}, has not committed, and is still active",
        consequence="Both runs would process the same rows",
        remedy="let it end, or mark it failed; set on_active_run='wait' to wait for it, or max_active_runs=1 on "
        "the DAG to never have two",
    )
