"""Every example parses in a plain Airflow, and the folder holds nothing that Airflow takes for a DAG by mistake."""

import json
import subprocess
import sys

import pytest

from scripts import local_airflow

LIST = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
def waits(task):
    # The commit has to be right behind the capture: those behind these are not waited for.
    return task.depends_on_past and task.wait_for_downstream and "commit" in task.downstream_task_ids
bag = DagBag(dag_folder=sys.argv[1], bundle_name="dags-folder")
waiting = [dag.dag_id for dag in bag.dags.values() for task in dag.tasks if waits(task)]
deaf = [dag.dag_id for dag in bag.dags.values() if not getattr(dag.task_dict.get("capture"), "follow_params", True)]
print(json.dumps([sorted(bag.dags), bag.import_errors, [s.file for s in bag.dagbag_stats], waiting, deaf]))
"""


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """What a plain Airflow makes of the folder."""
    result = subprocess.run(
        [sys.executable, "-c", LIST, str(local_airflow.EXAMPLES)],
        env=local_airflow.environment(tmp_path_factory.mktemp("airflow")),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_every_example_parses(examples):
    """No import error, no DAG missing, and no job or recipe read as a DAG file."""
    dag_ids, errors, files, _, _ = examples
    assert errors == {}
    assert dag_ids == [
        "auto_remediation_incremental",
        "auto_remediation_plain",
        "foreach_incremental",
        "foreach_plain",
        "ips_append",
        "ips_asset_or_time",
        "ips_asset_stage_1",
        "ips_asset_stage_2",
        "ips_backfill",
        "ips_backfill_by_interval",
        "ips_cascade_1",
        "ips_cascade_2",
        "ips_cascade_3",
        "ips_changes",
        "ips_dbt",
        "ips_maintenance",
        "ips_merge",
        "ips_multi_stage_1",
        "ips_multi_stage_2",
        "ips_multi_table",
        "ips_multi_table_join",
        "ips_multi_table_join_plain",
        "ips_range",
        "ips_row_filter",
        "ips_wrap",
        "ips_wrapped",
        "ips_write_audit_publish",
        "ips_write_audit_publish_plain",
        "membership_incremental",
        "membership_plain",
        "playback_incremental",
        "playback_plain",
        "playback_stages_incremental",
        "playback_stages_plain",
        "range_rolling_incremental",
        "range_rolling_plain",
        "without_spark_incremental",
        "without_spark_plain",
    ]
    assert not [file for file in files if any(folder in file for folder in ("jobs", "cookbook", "dbt/"))]


INSERTING = [
    "ips_append",
    "ips_multi_stage_1",
    "ips_multi_table_join",
    "ips_write_audit_publish",
    "membership_incremental",
]


def test_what_only_inserts_waits_for_the_run_before(examples):
    """Its insert may have got through where its commit did not. Runs that events start have no run before them."""
    assert sorted(examples[3]) == INSERTING


def test_what_only_inserts_takes_no_orders(examples):
    """Asked for a full run by its conf, it would insert again what came before."""
    assert sorted(examples[4]) == sorted([*INSERTING, "ips_asset_stage_1"])


def test_no_incremental_job_filters_by_a_window():
    """No later run gets a row that the filter drops, and a run that an event starts has no date to count back from."""
    windowed = [file.name for file in local_airflow.EXAMPLES.glob("*_incremental.py") if "--since" in file.read_text()]
    assert windowed == []
    assert "--since" in (local_airflow.EXAMPLES / "playback_plain.py").read_text()
