"""Airflow parses every DAG file again and again: what our operators add to that is kept small."""

import json
import statistics
import subprocess
import sys

import pytest

LIMIT_MILLISECONDS = 50

PLAIN = """
from airflow.sdk import DAG, Param
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

with DAG(dag_id="daily", schedule="@daily", params={"days": Param(14, type="integer")}):
    daily = SparkSubmitOperator(task_id="daily", application="daily.py", application_args=["--source", "db.playback"])
"""

INCREMENTAL = """
from airflow.sdk import DAG
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, ips_params

with DAG(dag_id="daily", schedule="@daily", params=ips_params()):
    capture = IpCaptureOperator(task_id="capture", source_tables="db.playback")
    daily = SparkSubmitOperator(
        task_id="daily", application="daily.py", application_args=["--source", capture.output["db.playback"]]
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> daily >> commit
"""

EVERYTHING = """
from airflow.sdk import DAG, task_group
from airflow_provider_ips import (
    IcebergAppendSensor, IpBackfillOperator, IpCaptureOperator, IpCommitOperator, iceberg_asset, ips_params
)

with DAG(dag_id="everything", schedule=[iceberg_asset("db.playback")], params=ips_params()):
    ready = IcebergAppendSensor(task_id="ready", table="db.playback", consumer="daily.capture")
    plan = IpBackfillOperator(task_id="plan", source_table="db.playback")

    @task_group
    def chunk(chunk):
        capture = IpCaptureOperator(task_id="capture", source_tables="db.playback", chunk=chunk)
        capture >> IpCommitOperator(task_id="commit", capture=capture)

    ready >> plan
    chunk.expand(chunk=plan.output)
"""

# The plain DAG is parsed first, so that what Airflow and the Spark provider cost is spent, and once more for its own
# time. What the incremental DAG then takes longer is ours: its modules, what they import, the two operators and the
# trigger form.
# Processor time: another process on the same core is no cost of ours.
MEASURE = """
import json, sys, time

def parse(path):
    source = open(path).read()
    start = time.process_time()
    exec(compile(source, path, "exec"), {"__name__": "dag_file"})
    return time.process_time() - start

plain, incremental = sys.argv[1:]
parse(plain)
seconds = parse(plain)
added = parse(incremental) - seconds
print(json.dumps({"added_milliseconds": added * 1000, "modules": sorted(sys.modules)}))
"""


@pytest.fixture
def parse_in_fresh_process(tmp_path):
    (tmp_path / "plain.py").write_text(PLAIN)

    def measure(incremental=INCREMENTAL):
        (tmp_path / "incremental.py").write_text(incremental)
        result = subprocess.run(
            [sys.executable, "-c", MEASURE, str(tmp_path / "plain.py"), str(tmp_path / "incremental.py")],
            env={"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout.splitlines()[-1])

    return measure


def test_our_operators_add_little_to_the_parsing_of_a_dag(parse_in_fresh_process):
    parse_in_fresh_process()  # compiles what has no .pyc yet
    added = [parse_in_fresh_process()["added_milliseconds"] for _ in range(5)]

    assert statistics.median(added) <= LIMIT_MILLISECONDS, added


def test_the_two_tasks_bring_no_more_of_the_core_than_they_check_arguments_by(parse_in_fresh_process):
    modules = parse_in_fresh_process()["modules"]

    ours = "airflow_provider_ips.core."
    core = {module.removeprefix(ours) for module in modules if module.startswith(ours)}
    assert core == {"errors", "identifiers", "json_fields", "positions", "requests", "requests.request", "settings"}


def test_parsing_a_dag_leaves_the_heavy_libraries_alone(parse_in_fresh_process):
    modules = set(parse_in_fresh_process(EVERYTHING)["modules"])

    ours = ("operators.capture", "operators.commit", "operators.backfill", "sensors.iceberg_append", "assets.iceberg")
    assert modules >= {f"airflow_provider_ips.{module}" for module in ours}
    rooms = ("planning", "changes", "lineage", "history")
    assert not modules & {f"airflow_provider_ips.core.{room}" for room in rooms}
    assert not modules & {"pyarrow", "pyiceberg", "pyspark", "airflow.providers.apache.iceberg.hooks.iceberg"}
