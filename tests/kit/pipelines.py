"""DAGs of capture, work and commit, whose work is to note what it could read."""

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from airflow.models import Variable
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, task_group
from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from airflow_provider_ips.checkpoints.log_table import log_name
from airflow_provider_ips.checkpoints.variable import ServerVariables, VariableStore
from airflow_provider_ips.core.identifiers import Source, variable_key
from airflow_provider_ips.runs.environment import open_named_store
from tests.kit.tables import reader


class Job:
    """A job that notes the ids it reads, and fails when told to."""

    def __init__(self, lake):
        self.seen: list = []
        self.fails = False
        self._read = reader(lake)

    def __call__(self, *names):
        """Stand in for the Spark job: its arguments are table names."""
        if self.fails:
            raise RuntimeError("the job failed, as the test wants it")
        found = [self._read(name) for name in names]
        self.seen.append(found[0] if len(found) == 1 else found)


def incremental(dag_id, source, job, *, capture=None, commit=None):
    """One or several sources, one job, committed together."""
    with DAG(dag_id, schedule=None) as dag:
        captured = capturing(source, **(capture or {}))
        names = [captured.output[name] for name in ([source] if isinstance(source, str) else source)]
        work = PythonOperator(task_id="work", python_callable=job, op_args=names)
        committed = IpCommitOperator(task_id="commit", capture=captured, **(commit or {}))
        captured >> work >> committed
    return dag


def for_each(dag_id, tables, job, *, capture=None, work_options=None, commit=None):
    """Capture, work and commit in a mapped task group, once for each table."""
    with DAG(dag_id, schedule=None) as dag:

        @task_group
        def one(entry):
            captured = capturing(entry, **(capture or {}))
            names = [captured.output["source"]]
            work = PythonOperator(task_id="work", python_callable=job, op_args=names, **(work_options or {}))
            captured >> work >> IpCommitOperator(task_id="commit", capture=captured, **(commit or {}))

        one.expand(entry=[{"table": table, "key": "source"} for table in tables])
    return dag


def capturing(source, **options):
    """A capture through the connection of the test's lake."""
    return IpCaptureOperator(**{"task_id": "capture", "source_tables": source, "iceberg_conn_id": "lake", **options})


def default_store():
    """Where this Airflow keeps checkpoints by default, opened as a command would."""
    return open_named_store(None, iceberg_conn_id="lake", variables=ServerVariables())


def checkpoint_of(consumer):
    """The stored document."""
    return default_store().read(consumer)


def lose_checkpoint(consumer):
    """Delete the document, as people can who have the rights."""
    store = default_store()
    if isinstance(store, VariableStore):
        Variable.delete(variable_key(consumer))  # noqa: AIR311 - also where there is no task
    else:
        store.catalog.drop_table((*store.levels, log_name(consumer)))


def moves(consumer):
    """What the document says of captures: all but how often it was written."""
    return replace(checkpoint_of(consumer), revision=0)


def committed_at(consumer, source):
    """The snapshot id up to which a source is committed."""
    checkpoint = checkpoint_of(consumer)
    position = checkpoint.position_of(Source(source)) if checkpoint else None
    return position.snapshot_id if position else None


@contextmanager
def left_running(ran, state="running"):
    """Have Airflow believe, for a while, that a run that has ended has not."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from sqlalchemy import update

    def set_state(state):
        with create_session() as session:
            session.execute(update(DagRun).where(DagRun.id == ran.dag_run.id).values(state=state))

    set_state(DagRunState(state))
    yield
    set_state(DagRunState.FAILED)


def waiting(operator, other, waits):
    """An operator that lets the other run end when it begins to wait, and notes until when it would have waited."""

    def execute(self, context):
        try:
            return operator.execute(self, context)
        except AirflowRescheduleException as later:
            waits.append(later.reschedule_date)
            other.close()
            raise AirflowRescheduleException(datetime.now(tz=UTC)) from later

    return type("Waiting", (operator,), {"execute": execute})
