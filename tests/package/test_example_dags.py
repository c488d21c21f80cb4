"""Every example parses in a plain Airflow, and the folder holds nothing that Airflow takes for a DAG by mistake."""

import json
import re
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
shown = {dag_id: [sorted(dag.tags), dag.doc_md, dag.start_date is not None] for dag_id, dag in bag.dags.items()}
print(json.dumps([sorted(bag.dags), bag.import_errors, [s.file for s in bag.dagbag_stats], waiting, deaf, shown]))
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
    dag_ids, errors, files, *_ = examples
    assert errors == {}
    assert dag_ids == [
        "append_incremental",
        "asset_or_time_incremental",
        "asset_stages_incremental_1",
        "asset_stages_incremental_2",
        "auto_remediation_incremental",
        "auto_remediation_plain",
        "backfill_by_interval_incremental",
        "backfill_incremental",
        "cascade_incremental_1",
        "cascade_incremental_2",
        "cascade_incremental_3",
        "changes_incremental",
        "dbt_incremental",
        "foreach_incremental",
        "foreach_plain",
        "ips_maintenance",
        "ips_watch",
        "membership_incremental",
        "membership_plain",
        "merge_incremental",
        "multi_stage_incremental_1",
        "multi_stage_incremental_2",
        "multi_table_incremental",
        "multi_table_join_incremental",
        "multi_table_join_plain",
        "playback_incremental",
        "playback_plain",
        "playback_stages_incremental",
        "playback_stages_plain",
        "range_incremental",
        "range_rolling_incremental",
        "range_rolling_plain",
        "row_filter_incremental",
        "without_spark_incremental",
        "without_spark_plain",
        "wrap_incremental",
        "wrap_plain",
        "write_audit_publish_incremental",
        "write_audit_publish_plain",
    ]
    assert not [file for file in files if any(folder in file for folder in ("jobs", "cookbook", "dbt/"))]


INSERTING = [
    "append_incremental",
    "membership_incremental",
    "multi_stage_incremental_1",
    "multi_table_join_incremental",
    "write_audit_publish_incremental",
]


def test_what_only_inserts_waits_for_the_run_before(examples):
    """Its insert may have got through where its commit did not. Runs that events start have no run before them."""
    assert sorted(examples[3]) == INSERTING


def test_what_only_inserts_takes_no_orders(examples):
    """Asked for a full run by its conf, it would insert again what came before."""
    assert sorted(examples[4]) == sorted([*INSERTING, "asset_stages_incremental_1"])


def test_no_incremental_job_filters_by_a_window():
    """No later run gets a row that the filter drops, and a run that an event starts has no date to count back from."""
    windowed = [file.name for file in local_airflow.EXAMPLES.glob("*_incremental.py") if "--since" in file.read_text()]
    assert windowed == []
    assert "--since" in (local_airflow.EXAMPLES / "playback_plain.py").read_text()


def test_names_say_whether_a_dag_captures(examples):
    """One scheme: a pattern, how its rows are read, and the number of a stage. The tool is called as its command."""
    scheme = re.compile(r"[a-z_]+_(plain|incremental(_\d)?)|ips_maintenance|ips_watch")
    assert [dag_id for dag_id in examples[0] if not scheme.fullmatch(dag_id)] == []


PATTERNS = {path.stem for path in (local_airflow.EXAMPLES.parent / "docs" / "patterns").glob("*.md")}


def test_tags_name_the_pattern_and_whether_the_demo_has_its_tables(examples):
    """A tag for each page of the patterns, and for what runs beside them."""
    for dag_id, (tags, *_) in examples[5].items():
        (pattern,) = set(tags) & {*PATTERNS, "backfill", "maintenance"}
        assert set(tags) - {pattern} in ({"ips", "demo"}, {"ips", "needs-setup"}), dag_id


LONGEST_SENTENCE = 200


def test_every_example_says_in_a_sentence_what_it_is(examples):
    """It is what the UI shows first of a DAG's documentation."""
    for dag_id, (_, doc, *_) in examples[5].items():
        sentence = re.split(r"(?<=\.)\s", doc)[0]
        assert sentence.endswith("."), dag_id
        assert len(sentence) <= LONGEST_SENTENCE, dag_id


def test_no_example_runs_at_once_when_it_is_unpaused(examples):
    """A first dry run by the form unpauses its DAG; with a start date in the past, a usual run would start as well."""
    at_once = [dag_id for dag_id, (*_, has_start) in examples[5].items() if has_start]
    # Airflow's backfill needs to know where days begin, and ips_watch has no form and only looks.
    assert sorted(at_once) == ["backfill_by_interval_incremental", "ips_watch"]
