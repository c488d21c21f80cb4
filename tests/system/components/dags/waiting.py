"""Jobs that do not sit in a worker: one is waited for in the triggerer, one runs on a cluster and is resumed."""

import os
import time
from datetime import timedelta

from airflow.providers.standard.operators.python import PythonOperator
from airflow.providers.standard.triggers.file import FileTrigger
from airflow.sdk import DAG, BaseOperator, ResumableJobMixin

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from tests.kit.jobs import append_once, obey
from tests.system.components import cluster


class Deferring(BaseOperator):
    """Waits in the triggerer for a file, then appends."""

    template_fields = ("source", "capture_id")

    def __init__(self, *, source, capture_id, **kwargs):
        super().__init__(**kwargs)
        self.source = source
        self.capture_id = capture_id

    def execute(self, context):
        path = f"{os.environ['IPS_CONTROL']}/{self.dag_id}.arrived"
        self.defer(trigger=FileTrigger(filepath=path, poke_interval=0.5), method_name="resume")

    def resume(self, context, event=None):
        append_once(
            self.source, f"db.{self.dag_id}_target", self.capture_id, name=f"{self.dag_id}.work", lake=self.dag_id
        )


class OnCluster(ResumableJobMixin, BaseOperator):
    """Submits a job, remembers its id, and asks for its state; as SparkSubmitOperator does with a cluster."""

    template_fields = ("source",)

    def __init__(self, *, source, **kwargs):
        super().__init__(**kwargs)
        self.source = source

    def execute(self, context):
        return self.execute_resumable(context)

    def submit_job(self, context):
        return cluster.submit(self.dag_id, source=self.source, target=f"db.{self.dag_id}_target", lake=self.dag_id)

    def get_job_status(self, external_id, context):
        return cluster.status(external_id)

    def is_job_active(self, status):
        return status == "RUNNING"

    def is_job_succeeded(self, status):
        return status == "SUCCEEDED"

    def poll_until_complete(self, external_id, context):
        while self.is_job_active(cluster.status(external_id)):
            time.sleep(0.1)

    def get_job_result(self, external_id, context):
        return None


def pipeline(dag_id, work):
    """Capture, work, a gate that can be told to fail, commit."""
    with DAG(dag_id, schedule=None, default_args={"retries": 2, "retry_delay": timedelta(0)}) as dag:
        source = f"db.{dag_id}"
        capture = IpCaptureOperator(task_id="capture", source_tables=source, iceberg_conn_id=dag_id)
        gate = PythonOperator(task_id="gate", python_callable=obey, op_args=[f"{dag_id}.gate"], retries=0)
        capture >> work(capture, source) >> gate >> IpCommitOperator(task_id="commit", capture=capture)
    return dag


deferring = pipeline(
    "deferring",
    lambda capture, source: Deferring(
        task_id="work", source=capture.output[source], capture_id=capture.output["capture_id"]
    ),
)
resumable = pipeline("resumable", lambda capture, source: OnCluster(task_id="work", source=capture.output[source]))
