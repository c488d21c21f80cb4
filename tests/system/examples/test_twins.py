"""A plain DAG and its incremental twin: two tasks more, one argument changed, the trigger form, and no window."""

import ast
import json
import subprocess
import sys
from difflib import ndiff

from scripts import local_airflow

PLAIN, INCREMENTAL = (local_airflow.EXAMPLES / f"playback_{kind}.py" for kind in ("plain", "incremental"))


def normalised(path):
    """A DAG file without comments, docstring and layout, one statement per line, under one name for both twins."""
    tree = ast.parse(path.read_text())
    tree.body = tree.body[1:]
    return ast.unparse(tree).replace(path.stem, "playback").splitlines()


WINDOW = "{{ macros.ds_add(ds, -13) }}"
"""What the plain job goes back to. A captured row may be older, so the twin may not have it."""


def test_the_files_differ_in_two_tasks_and_one_argument():
    """Nothing is taken from the plain DAG but the name of its source and the window."""
    lines = list(ndiff(normalised(PLAIN), normalised(INCREMENTAL)))
    taken = [line[2:].strip() for line in lines if line.startswith("- ")]
    added = [line[2:] for line in lines if line.startswith("+ ")]
    plain_dag, plain_job = taken
    assert plain_dag.replace("max_active_runs=1", "max_active_runs=1, params=ips_params()") in added
    (incremental_job,) = [line.strip() for line in added if line.strip().startswith("daily = ")]
    without_window = plain_job.replace(f", *('--since', '{WINDOW}')", "")
    assert without_window != plain_job
    assert incremental_job.replace("capture.output['db.playback']", "f'{LAKE}.db.playback'") == without_window
    assert [line.strip().partition("(")[0] for line in added if not line.strip().startswith("daily = ")] == [
        "from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, ips_params",
        "with DAG",
        "capture = IpCaptureOperator",
        "commit = IpCommitOperator",
        "capture >> daily >> commit",
    ]


def test_the_parsed_dags_differ_in_two_tasks_and_one_argument(tmp_path):
    """What Airflow makes of the files says the same."""
    plain, incremental = (described(tmp_path, path.stem) for path in (PLAIN, INCREMENTAL))
    assert set(incremental) - set(plain) == {"capture", "commit"}
    assert set(plain) == {"daily"}
    before, after = plain["daily"], incremental["daily"]
    changed = [key for key in before if before[key] != after[key]]
    assert changed == ["application_args"]
    window = before["application_args"].index("--since")
    assert before["application_args"][window + 1] == WINDOW
    del before["application_args"][window : window + 2]
    pairs = zip(before["application_args"], after["application_args"], strict=True)
    assert [pair for pair in pairs if pair[0] != pair[1]] == [
        ("lake.db.playback", "{{ task_instance.xcom_pull(task_ids='capture', dag_id='playback', key='db.playback') }}")
    ]


DESCRIBE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder=sys.argv[1], bundle_name="dags-folder")
(dag,) = bag.dags.values()
def shown(value):
    return [shown(v) for v in value] if isinstance(value, list) else str(value)
tasks = {t.task_id: {f: shown(getattr(t, f, None)) for f in t.template_fields} for t in dag.tasks}
print(json.dumps(tasks).replace(dag.dag_id, "playback"))
"""


def described(tmp_path, name):
    """The templated fields of every task, as Airflow reads the file, in an Airflow of its own."""
    result = subprocess.run(
        [sys.executable, "-c", DESCRIBE, str(local_airflow.EXAMPLES / f"{name}.py")],
        env=local_airflow.environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])
