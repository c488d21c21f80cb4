"""Runs whose lists change and whose instances are cleared, and what their commits take for evidence.

What an element of a list does is read from a file, such as `shorter.work.3`; lists are read from `shorter.list`.
"""

import json
import os
from pathlib import Path

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, TaskGroup, task, task_group

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from tests.kit.jobs import obey

TABLES = ["db.one", "db.two"]


def act(point, element):
    """Do the work of an element, unless the story says that it fails or is skipped."""
    obey(f"{point}.{element}")


def listed(name):
    @task(task_id="listing")
    def listing():
        """List what the next task is expanded over, as the story has it now."""
        return json.loads((Path(os.environ["IPS_CONTROL"]) / f"{name}.list").read_text())

    return listing()


def capturing(table):
    return IpCaptureOperator(task_id="capture", iceberg_conn_id="evidence", source_tables=table)


def committing(capture):
    return IpCommitOperator(task_id="commit", capture=capture, trigger_rule="all_done")


def mapped(name, task_id, elements):
    point = f"{name}.{task_id}"
    return PythonOperator.partial(task_id=task_id, python_callable=lambda element: act(point, element)).expand(
        op_kwargs=elements.map(lambda element: {"element": element})
        if hasattr(elements, "map")
        else [{"element": element} for element in elements]
    )


# A plain capture, and one or two tasks that are expanded over a list.
for dag_id in ("evidence_shorter", "evidence_longer", "evidence_empty", "evidence_alone", "evidence_skipped"):
    with DAG(dag_id, schedule=None):
        captured, elements = capturing("db.one"), listed(dag_id)
        captured >> elements
        mapped(dag_id, "work", elements) >> committing(captured)

with DAG("evidence_chain", schedule=None):
    captured, elements = capturing("db.one"), listed("evidence_chain")
    captured >> elements
    first, second = mapped("evidence_chain", "work", elements), mapped("evidence_chain", "second", [4, 5, 6])
    first >> second >> committing(captured)

# A mapped group of capture, job and commit: with the job in a group of its own, with a job outside, with a list.
with DAG("evidence_inner", schedule=None):

    @task_group
    def one(table):
        """Capture and job in a group within the mapped one."""
        with TaskGroup("inner"):
            capture = capturing(table)
            work = PythonOperator(task_id="work", python_callable=act, op_args=["evidence_inner.work", table])
        capture >> work >> committing(capture)

    one.expand(table=TABLES)

with DAG("evidence_outside", schedule=None):
    outside = mapped("evidence_outside", "work", [1, 2, 3])

    @task_group
    def each(table):
        """Both captures are processed by one task that is expanded over something else."""
        capture = capturing(table)
        capture >> outside >> committing(capture)

    each.expand(table=TABLES)

with DAG("evidence_reordered", schedule=None):

    @task_group
    def every(table):
        """The job works for the table that the list has at its index now."""
        capture = capturing(table)
        work = PythonOperator(task_id="work", python_callable=act, op_args=["evidence_reordered.work", table])
        capture >> work >> committing(capture)

    every.expand(table=listed("evidence_reordered"))
