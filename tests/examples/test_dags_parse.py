"""Every example parses in a plain Airflow, and the folder holds nothing that Airflow takes for a DAG by mistake."""

import json
import subprocess
import sys

from scripts import local_airflow

LIST = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder=sys.argv[1], bundle_name="dags-folder")
print(json.dumps([sorted(bag.dags), bag.import_errors, [s.file for s in bag.dagbag_stats]]))
"""


def test_every_example_parses(tmp_path):
    """No import error, no DAG missing, and no job read as a DAG file."""
    result = subprocess.run(
        [sys.executable, "-c", LIST, str(local_airflow.EXAMPLES)],
        env=local_airflow.environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    dag_ids, errors, files = json.loads(result.stdout.splitlines()[-1])
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
        "ips_cascade_1",
        "ips_cascade_2",
        "ips_cascade_3",
        "ips_changes",
        "ips_maintenance",
        "ips_merge",
        "ips_multi_stage_1",
        "ips_multi_stage_2",
        "ips_multi_table",
        "ips_multi_table_join",
        "ips_range",
        "ips_row_filter",
        "ips_write_audit_publish",
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
    assert not [file for file in files if "jobs" in file]
