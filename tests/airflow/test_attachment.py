"""What is added to the tasks of a DAG once its file is read, and that checks add nothing."""

import pytest
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, BaseOperator

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from airflow_provider_ips.dag_checks import attachment, fire_and_forget, stages, trigger_rules, wiring
from airflow_provider_ips.runs.lost_files import name_lost_files


class Resuming(BaseOperator):
    """Finds its job again, as SparkSubmitOperator does in cluster mode."""

    def execute_resumable(self, context): ...


class Pod(BaseOperator):
    """Finds its pod again, by means of its own."""

    __module__ = "airflow.providers.cncf.kubernetes.operators.pod"
    __qualname__ = "KubernetesPodOperator"


def theirs(context):
    """A callback or hook of the author."""


def pipeline(**options):
    """A capture, a job that uses and one that resumes, a task that does neither, and a commit that comes first."""
    with DAG("attached", schedule=None) as dag:
        commit = IpCommitOperator(task_id="commit", capture="capture")
        capture = IpCaptureOperator(task_id="capture", source_tables="db.events")
        uses = BashOperator(task_id="uses", bash_command=f"run {capture.output['db.events']}", **options)
        resumes = Resuming(task_id="resumes", pre_execute=theirs)
        pod = type("SparkPod", (Pod,), {})(task_id="pod")
        neither = EmptyOperator(task_id="neither", on_failure_callback=theirs)
        capture >> [uses, resumes, pod, neither] >> commit
        Resuming(task_id="beside")
    return dag


def callbacks(dag):
    return {task.task_id: list(task.on_failure_callback) for task in dag.tasks}


def hooks(dag):
    return {task.task_id: task._pre_execute_hook for task in dag.tasks}


def arrows(dag):
    return {task.task_id: set(task.upstream_task_ids) for task in dag.tasks}


def read(dag):
    """Do what the DAG processor does when it has read a DAG file."""
    dag.resolve_template_files()
    return dag


@pytest.mark.parametrize(
    "check",
    [
        wiring.check_wiring,
        trigger_rules.check_trigger_rules,
        fire_and_forget.check_fire_and_forget,
        stages.check_backfill_groups,
        lambda dag: stages.check_stages([dag]),
    ],
    ids=["wiring", "trigger rules", "fire and forget", "backfill groups", "stages"],
)
def test_a_check_changes_nothing(check):
    dag = pipeline()
    attachment.depend_on_capture(dag.get_task("commit"))
    before = callbacks(dag), hooks(dag), arrows(dag)

    check(dag)

    assert (callbacks(dag), hooks(dag), arrows(dag)) == before


def test_tasks_that_use_a_capture_name_lost_files_when_they_fail():
    """After what the author wants called; other tasks have what they had."""
    dag = read(pipeline(on_failure_callback=theirs))

    assert callbacks(dag) == {
        "commit": [],
        "capture": [],
        "uses": [theirs, name_lost_files],
        "resumes": [],
        "pod": [],
        "neither": [theirs],
        "beside": [],
    }


def test_only_tasks_that_resume_a_job_between_capture_and_commit_have_a_hook():
    dag = pipeline()
    before = hooks(dag)

    read(dag)

    assert [name for name, hook in hooks(dag).items() if hook is not before[name]] == ["resumes", "pod"]


def test_a_commit_is_downstream_of_a_capture_that_is_defined_after_it():
    dag = pipeline()
    assert "capture" not in arrows(dag)["commit"]

    assert "capture" in arrows(read(dag))["commit"]


def test_attaching_again_changes_nothing():
    """Airflow calls every task of a DAG, and ``dag.test()`` leaves it to each ``execute``."""
    dag = pipeline(on_failure_callback=theirs)
    attachment.attach(dag)
    before = callbacks(dag), hooks(dag), arrows(dag)

    attachment.attach(dag)

    assert (callbacks(dag), hooks(dag), arrows(dag)) == before
