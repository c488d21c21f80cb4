"""Tasks that find the job of their last attempt again: it must be the job of the same capture."""

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, BaseOperator, task_group

try:
    from airflow.sdk import ResumableJobMixin
except ImportError:

    class ResumableJobMixin:  # type: ignore[no-redef]
        """Airflow 3.2 has none. Still the module has to be importable there."""


from airflow_provider_ips import IpCommitOperator
from tests.kit.people import clear, go_on
from tests.kit.pipelines import capturing, committed_at
from tests.kit.tables import append, create, reader

pytestmark = pytest.mark.needs_airflow_3_3("Airflow remembers the job of a task that is cleared")


class Cluster:
    """Runs each job that is submitted at once, and remembers it."""

    def __init__(self, lake):
        self.jobs: list = []
        self._read = reader(lake)

    def submit(self, source):
        self.jobs.append(self._read(source))
        return f"job {len(self.jobs)}"


class OnCluster(ResumableJobMixin, BaseOperator):
    """What SparkSubmitOperator is in cluster mode."""

    template_fields = ("source",)

    def __init__(self, *, source, cluster, **kwargs):
        super().__init__(**kwargs)
        self.source = source
        self.cluster = cluster

    def execute(self, context):
        return self.execute_resumable(context)

    def submit_job(self, context):
        return self.cluster.submit(self.source)

    def get_job_status(self, external_id, context):
        return "SUCCEEDED"

    def is_job_active(self, status):
        return False

    def is_job_succeeded(self, status):
        return status == "SUCCEEDED"

    def poll_until_complete(self, external_id, context):
        pass

    def get_job_result(self, external_id, context):
        return external_id


@pytest.fixture
def cluster(lake):
    return Cluster(lake)


@pytest.fixture
def events(lake):
    table = create(lake, "db.events")
    append(table, [1])
    return table


class Gate:
    """A task between the job and the commit that can be shut."""

    def __init__(self):
        self.is_shut = True

    def __call__(self):
        if self.is_shut:
            raise RuntimeError("the gate is shut, as the test wants it")


def resuming(dag_id, cluster, gate, *, is_mapped=False, **options):
    """Capture, a job on the cluster, a gate, commit."""
    with DAG(dag_id, schedule=None) as dag:
        capture = capturing("db.events")
        given = {"task_id": "work", "source": capture.output["db.events"], **options}
        work = (
            OnCluster.partial(**given).expand(cluster=[cluster]) if is_mapped else OnCluster(cluster=cluster, **given)
        )
        closing = PythonOperator(task_id="gate", python_callable=gate)  # noqa: AIR001 - the gate itself is the callable
        capture >> work >> closing >> IpCommitOperator(task_id="commit", capture=capture)
    return dag


@pytest.mark.parametrize("is_mapped", [False, True])
def test_a_new_range_in_a_cleared_run_needs_a_job_of_its_own(events, cluster, run_dag, is_mapped):
    """The success of the job that read row 1 says nothing about row 2."""
    gate = Gate()
    dag = resuming(f"resumed_{is_mapped}", cluster, gate, is_mapped=is_mapped)
    first = run_dag(dag)
    gate.is_shut = False
    run_dag(dag)
    append(events, [2])
    clear(first, "capture", "work", "gate", "commit")

    assert go_on(dag, first).states["commit"] == "success"
    assert cluster.jobs == [[1], [1], [2]]
    assert committed_at(f"{dag.dag_id}.capture", "db.events") == events.refresh().current_snapshot().snapshot_id


def test_the_same_range_finds_its_job(events, cluster, run_dag):
    """As Airflow has it: what has succeeded is not submitted twice."""
    gate = Gate()
    dag = resuming("found_again", cluster, gate)
    first = run_dag(dag)
    gate.is_shut = False
    clear(first, "capture", "work", "gate", "commit")

    assert go_on(dag, first).states["commit"] == "success"
    assert cluster.jobs == [[1]]


def test_in_a_mapped_group_the_capture_of_another_index_is_another_matter(lake, events, cluster, run_dag):
    """It ends after the job was submitted, and the job reads none of its rows."""
    gate = Gate()
    with DAG("found_in_group", schedule=None) as dag:

        @task_group
        def one(entry):
            capture = capturing(entry)
            work = OnCluster(task_id="work", source=capture.output["source"], cluster=cluster)
            closing = PythonOperator(task_id="gate", python_callable=gate)  # noqa: AIR001 - the gate itself is the callable
            capture >> work >> closing >> IpCommitOperator(task_id="commit", capture=capture)

        one.expand(entry=[{"table": name, "key": "source"} for name in ("db.events", "db.users")])
    first = run_dag(dag)
    assert first.states["one.capture[1]"] == "failed"
    append(create(lake, "db.users"), [2])
    gate.is_shut = False
    clear(first, *dag.task_dict)

    assert set(go_on(dag, first).states.values()) == {"success"}
    assert cluster.jobs == [[1], [2]]


@pytest.mark.parametrize("yields", [False, True])
def test_the_author_s_own_hook_runs_too(events, cluster, run_dag, yields):
    """Once, be it a function or a generator."""
    called, gate = [], Gate()
    gate.is_shut = False

    def plain(context):
        called.append(context["ti"].task_id)

    def generator(context):
        called.append(context["ti"].task_id)
        yield from ()

    dag = resuming(f"hooked_{yields}", cluster, gate, pre_execute=generator if yields else plain)
    assert run_dag(dag).states["commit"] == "success"
    assert called == ["work"]
    assert cluster.jobs == [[1]]
