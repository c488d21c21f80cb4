"""A task between capture and commit that is known not to wait for its job is refused when the DAG file is parsed."""

import re
from pathlib import Path

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.providers.standard.sensors.python import PythonSensor
from airflow.sdk import DAG, BaseOperator, TaskGroup, task

from airflow_provider_ips import IpCommitOperator
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.dag_checks.completion import complete_read_dag
from airflow_provider_ips.dag_checks.fire_and_forget import OPERATORS, parse_operators
from tests.kit.pipelines import capturing

DOCS = Path(__file__).parents[2] / "docs"
AMAZON = "airflow.providers.amazon.aws.operators"


def operator(path, **defaults):
    """A class under the path of a provider's, which keeps its arguments as theirs do: mostly under their names."""

    def construct(self, **kwargs):
        given = {name: kwargs.pop(name, default) for name, default in defaults.items()}
        BaseOperator.__init__(self, **kwargs)
        for name, value in given.items():
            setattr(self, f"_{name}" if name == "polling_interval" else name, value)

    module, name = path.rsplit(".", 1)
    return type(name, (BaseOperator,), {"__init__": construct, "__module__": module, "__qualname__": name})


EmrAddSteps = operator(f"{AMAZON}.emr.EmrAddStepsOperator", wait_for_completion=False, deferrable=False)
Livy = operator("airflow.providers.apache.livy.operators.livy.LivyOperator", polling_interval=0, deferrable=False)
Dataproc = operator(
    "airflow.providers.google.cloud.operators.dataproc.DataprocSubmitJobOperator", asynchronous=False, deferrable=False
)
Databricks = operator(
    "airflow.providers.databricks.operators.databricks.DatabricksRunNowOperator",
    wait_for_termination=True,
    deferrable=False,
)
Kubernetes = operator(
    "airflow.providers.cncf.kubernetes.operators.job.KubernetesJobOperator",
    wait_until_job_complete=False,
    deferrable=False,
)
StepFunction = operator(f"{AMAZON}.step_function.StepFunctionStartExecutionOperator", deferrable=False)
Notebook = operator(f"{AMAZON}.emr.EmrStartNotebookExecutionOperator", wait_for_completion=False)


class Batch(BaseOperator):
    """It waits by default, and its constructor says so."""

    __module__, __qualname__ = f"{AMAZON}.batch", "BatchOperator"

    def __init__(self, *, number=0, wait_for_completion=True, **kwargs):
        super().__init__(**kwargs)


class MyTrigger(TriggerDagRunOperator):
    """A user's operator, whose constructor may pass on anything."""

    def __init__(self, **kwargs):
        super().__init__(wait_for_completion=True, **kwargs)


Mine = operator("my.operators.Mine", mode="submit", wait=False)
MySteps = type("MySteps", (EmrAddSteps,), {"__doc__": "A user's operator, which inherits how it waits."})


def trigger(**arguments):
    return TriggerDagRunOperator(task_id="job", trigger_dag_id="other", **arguments)


def made(kind, **arguments):
    return lambda: kind(task_id="job", **arguments)


def completed(job, *, after=None, beside=None, default_args=None, **commit):
    """Complete a DAG of capture, job and commit as Airflow does once it has read a file."""
    with DAG("submitting", schedule=None, default_args=default_args or {}) as dag:
        captured = capturing("db.events")
        submitted = job()
        committed = IpCommitOperator(task_id="commit", capture=captured, **commit)
        captured >> submitted >> (after() if after else EmptyOperator(task_id="after")) >> committed
        if beside:
            submitted >> beside() >> committed
    complete_read_dag(dag)


def expanded(kind):
    return lambda: kind.partial(task_id="job").expand(number=[1, 2])


def grouped(kind, default_args):
    """The same in a task group with default arguments, within another one."""

    def make():
        with TaskGroup("outer", default_args=default_args), TaskGroup("inner"):
            return expanded(kind)()

    return make


@task
def listed():
    return [{"trigger_dag_id": "a", "wait_for_completion": True}]


def waiting_for_job(task_id="wait"):
    return PythonSensor(task_id=task_id, python_callable=bool)


@pytest.mark.parametrize(
    ("job", "remedy"),
    [
        (trigger, "set wait_for_completion=True on 'job'"),
        (lambda: trigger(deferrable=True), "set wait_for_completion=True on 'job'"),
        (made(EmrAddSteps), "set wait_for_completion=True on 'job'"),
        (made(MySteps), "set wait_for_completion=True on 'job'"),
        (made(EmrAddSteps, wait_for_completion=None), "set wait_for_completion=True on 'job'"),
        (made(Livy), "set polling_interval=30 on 'job'"),
        (made(Dataproc, asynchronous=True), "set asynchronous=False on 'job'"),
        (made(Databricks, wait_for_termination=False), "set wait_for_termination=True on 'job'"),
        (made(Databricks, wait_for_termination=False, deferrable=True), "set wait_for_termination=True on 'job'"),
        (made(Kubernetes), "set wait_until_job_complete=True on 'job'"),
        (made(StepFunction), "set deferrable=True on 'job'"),
        (made(Notebook, wait_for_completion=True), "What to do: let a sensor wait"),
        (lambda: TriggerDagRunOperator.partial(task_id="job").expand(trigger_dag_id=["a"]), "wait_for_completion=True"),
    ],
)
def test_a_task_that_does_not_wait_is_refused(job, remedy):
    with pytest.raises(InputError, match="does not wait for the job that it starts") as caught:
        completed(job)

    assert remedy in str(caught.value)
    assert "verify_target=" in str(caught.value)


@pytest.mark.parametrize(
    "job",
    [
        lambda: trigger(wait_for_completion=True),
        lambda: trigger(wait_for_completion=True, deferrable=True),
        made(EmrAddSteps, wait_for_completion=True),
        made(EmrAddSteps, deferrable=True),
        made(EmrAddSteps, wait_for_completion="{{ params.wait }}"),
        made(Livy, polling_interval=5),
        made(Livy, deferrable=True),
        made(Dataproc),
        made(Databricks),
        made(Kubernetes, wait_until_job_complete=True),
        made(StepFunction, deferrable=True),
        made(Mine),
        lambda: TriggerDagRunOperator.partial(task_id="job", trigger_dag_id="o").expand(wait_for_completion=[True]),
        lambda: TriggerDagRunOperator.partial(task_id="job", wait_for_completion=True).expand(trigger_dag_id=["a"]),
        lambda: TriggerDagRunOperator.partial(task_id="job").expand_kwargs(listed()),
    ],
)
def test_a_task_that_waits_or_may_wait_is_not(job):
    completed(job)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("default", [True, False])
def test_default_arguments_reach_the_instances_of_a_mapped_task(default, waits):
    """Those of a task group go before those of its DAG, and both before what the constructor says."""
    for job, default_args in (
        (expanded(Batch), {"wait_for_completion": waits}),
        (grouped(Batch, {"wait_for_completion": waits}), {"wait_for_completion": default}),
    ):
        if waits:
            completed(job, default_args=default_args)
            continue
        with pytest.raises(InputError, match="does not wait"):
            completed(job, default_args=default_args)


def test_a_constructor_that_passes_on_anything_may_have_its_instances_wait():
    completed(lambda: MyTrigger.partial(task_id="job").expand(trigger_dag_id=["a", "b"]))


def test_a_sensor_waits_in_its_place_if_it_is_on_every_path():
    completed(trigger, after=waiting_for_job)
    completed(trigger, after=waiting_for_job, beside=lambda: waiting_for_job("other"))
    completed(trigger, after=waiting_for_job, require=["wait"])
    with pytest.raises(InputError, match="does not wait"):
        completed(trigger, after=waiting_for_job, beside=lambda: EmptyOperator(task_id="beside"))
    with pytest.raises(InputError, match="does not wait"):  # the commit does not require that the job has ended
        completed(trigger, after=waiting_for_job, require=["job"])


def test_a_target_that_is_verified_is_evidence_enough():
    completed(trigger, verify_target="db.target")


def test_only_what_is_between_capture_and_commit_counts():
    with DAG("after", schedule=None) as dag:
        captured = capturing("db.events")
        captured >> EmptyOperator(task_id="work") >> IpCommitOperator(task_id="commit", capture=captured) >> trigger()
    complete_read_dag(dag)


@pytest.mark.parametrize(
    ("entry", "arguments", "is_refused"),
    [
        ("my.operators.Mine:wait=True", {}, True),
        ("my.operators.Mine:wait=True", {"wait": True}, False),
        ("my.operators.Other:wait=True, my.operators.Mine:mode=block", {}, True),
        ("my.operators.Other\nmy.operators.Mine:mode=block", {"mode": "block"}, False),
        ("my.operators.Mine:wait=true|mode=block", {"mode": "block"}, False),
        ("my.operators.Mine:absent=true", {}, False),
        ("my.operators.Mine", {"wait": True}, True),
    ],
)
def test_users_add_operators_of_their_own(entry, arguments, is_refused, monkeypatch):
    monkeypatch.setenv("AIRFLOW__IPS__FIRE_AND_FORGET", entry)
    if not is_refused:
        completed(made(Mine, **arguments))
        return
    with pytest.raises(InputError, match=r"'job' \(Mine\) .* does not wait"):
        completed(made(Mine, **arguments))


def test_users_correct_what_is_known(monkeypatch):
    monkeypatch.setenv("AIRFLOW__IPS__FIRE_AND_FORGET", f"{AMAZON}.emr.EmrAddStepsOperator:wait_for_completion=False")

    completed(made(EmrAddSteps))


@pytest.mark.parametrize("entry", ["my.Op:wait", "my.Op:wait=", "my..Op", "my.Op:=True", "my.Op wait=True"])
def test_a_malformed_entry_is_refused(entry, monkeypatch):
    monkeypatch.setenv("AIRFLOW__IPS__FIRE_AND_FORGET", entry)

    with pytest.raises(InputError, match=r"\[ips\] fire_and_forget has the entry"):
        completed(made(Mine))


def test_the_page_lists_what_is_known():
    """Each row: the class with its module, and what makes it wait."""
    page = (DOCS / "reference/fire-and-forget.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `([\w.]+)` \| (.*?) \|", page, re.MULTILINE)

    assert rows == [
        (path.rsplit(".", 1)[1], path.rsplit(".", 1)[0], described(waiting))
        for path, waiting in parse_operators(OPERATORS)
    ]


def described(waiting):
    return " or ".join(f"`{name}={value}`" for name, value in waiting.items()) or "a sensor"
