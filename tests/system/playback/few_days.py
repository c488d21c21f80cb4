"""A source that stays within few partitions: its late events lie no further back than its first day."""

from scripts.lake import day_of_events, midnight
from tests.kit.example_world import FIRST_DAY

ROWS = 300


def gain_a_day(world, name="db.playback"):
    """Append a day of events, late ones of the days before among them; return its logical date."""
    day = world.next_day()
    world.catalog.load_table(name).append(day_of_events(day, rows=ROWS, earliest=FIRST_DAY))
    return midnight(day)


def span(world, finished):
    """From where to where a run has captured."""
    (source,) = world.xcom(finished, "capture", "capture")["sources"]
    return source["from"], source["to"]


def first_task_waits(dag_id, logical_date):
    """Ask Airflow, in its process, whether its scheduler would keep a run of that date, or of none, waiting."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.models.dagrun import DagRun
    from airflow.sdk import timezone
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    from scripts.local_airflow import EXAMPLES

    parsed = DagBag(dag_folder=EXAMPLES, bundle_name="dags-folder").dags[dag_id]
    dag = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(parsed))
    run_after = logical_date or timezone.utcnow()
    run_type = DagRunType.MANUAL if logical_date is None else DagRunType.SCHEDULED
    with create_session() as session:
        run = dag.create_dagrun(
            run_id=DagRun.generate_run_id(run_type=run_type, logical_date=logical_date, run_after=run_after),
            logical_date=logical_date,
            data_interval=logical_date and (logical_date, logical_date),
            run_after=run_after,
            run_type=run_type,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            start_date=timezone.utcnow(),
            session=session,
        )
        ready = [instance.task_id for instance in run.update_state(session=session)[0]]
        session.delete(run)
    return ready == []


def fail():
    """A worker that dies when the task has done its work: what `after=` lets happen."""
    raise RuntimeError("the worker died, as the test wants it")
