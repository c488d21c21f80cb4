"""What people do in the UI to a run that has ended: clear some of its tasks, mark others, and let Airflow go on."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from tests.kit.airflow import collect, noting_errors


def clear(ran, *task_ids):
    """Clear these tasks and no others, as *Clear* without *Downstream* does."""
    from airflow.models.taskinstance import clear_task_instances
    from airflow.utils.state import DagRunState

    with _instances(ran, task_ids) as (found, session):
        clear_task_instances(found, session, dag_run_state=DagRunState.RUNNING)


def mark(ran, state, *task_ids):
    """Mark these tasks as succeeded or failed."""
    with _instances(ran, task_ids) as (found, _):
        for instance in found:
            instance.state = state


def go_on(dag, ran):
    """Run whatever may run now, as the scheduler would, until the run has ended again."""
    from airflow.models.dagrun import DagRun
    from airflow.sdk.definitions.dag import _run_task
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState, TaskInstanceState

    with noting_errors(dag) as errors, create_session() as session:
        run = session.get(DagRun, ran.dag_run.id)
        assert run is not None
        run.dag = _scheduled(dag)
        run.state = DagRunState.RUNNING
        for _ in range(50):
            if run.state != DagRunState.RUNNING:
                break
            ready, _ = run.update_state(session=session)
            for instance in ready:
                instance.try_number += 1
                instance.state = TaskInstanceState.SCHEDULED
            session.commit()
            for instance in [ti for ti in run.get_task_instances(session=session) if ti.state == "scheduled"]:
                _run_task(ti=instance, task=dag.task_dict[instance.task_id], run_triggerer=True)
            session.expire_all()
        else:
            raise AssertionError("the run never ended")
        again = collect(run)
    again.errors.update(errors)
    return again


def stop(dag, ran, how="failed", *, ago=timedelta(0), work="work", commit="commit"):
    """Mark a run failed or successful whose job is running; or let it time out, by the DAG's ``dagrun_timeout``."""
    from airflow.api.common import mark_tasks
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    mark(ran, "running", work)
    mark(ran, None, commit)
    if how == "timed out":
        mark(ran, "skipped", work, commit)  # what the scheduler does with all tasks that have not ended
    else:
        change = {"failed": mark_tasks.set_dag_run_state_to_failed, "success": mark_tasks.set_dag_run_state_to_success}
        change[how](dag=_scheduled(dag), run_id=ran.dag_run.run_id, commit=True)
    with create_session() as session:
        stopped = session.get(DagRun, ran.dag_run.id)
        assert stopped is not None
        stopped.state = "failed" if how == "timed out" else how
        stopped.end_date = datetime.now(tz=UTC) - ago


def remove(ran):
    """Delete a run, as people do in the list of runs."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        session.delete(session.get(DagRun, ran.dag_run.id))


def _names(instance):
    """A task's id, which means all of its instances; of a mapped one ``task[2]`` too."""
    return {instance.task_id, f"{instance.task_id}[{instance.map_index}]"}


@contextmanager
def _instances(ran, task_ids):
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    run = ran.dag_run
    with create_session() as session:
        wanted = select(TaskInstance).where(TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)
        found = [ti for ti in session.scalars(wanted) if not _names(ti).isdisjoint(task_ids)]
        assert set().union(*map(_names, found)) >= set(task_ids)
        yield found, session


def _scheduled(dag):
    from airflow.serialization.serialized_objects import DagSerialization

    return DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
