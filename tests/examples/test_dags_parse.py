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
        "ips_append",
        "ips_asset_or_time",
        "ips_asset_stage_1",
        "ips_asset_stage_2",
        "ips_changes",
        "ips_maintenance",
        "ips_merge",
        "ips_multi_stage_1",
        "ips_multi_stage_2",
        "ips_multi_table",
        "ips_range",
        "ips_row_filter",
        "playback_incremental",
        "playback_plain",
    ]
    assert not [file for file in files if "jobs" in file]
