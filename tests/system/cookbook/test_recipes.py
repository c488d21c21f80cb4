"""Every recipe parses with its real provider, gives the captured name to its job, and waits for it.

The capture and the commit run, on a catalog of SQLite. The task between them is rendered by Airflow and then does
nothing: what it would send is compared with what the service takes, where the provider brings a description of that.
"""

import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kit.pages import ROOT, blocks
from tests.kit.tables import append, create

COOKBOOK = ROOT / "dags_examples" / "cookbook"
PAGE = ROOT / "docs" / "how-to" / "cookbook.md"
STAMP = "spark.sql.iceberg.snapshot-property.ips-capture-id"
NO_STAMP = None


@dataclass(frozen=True)
class Recipe:
    """Where the job reads the name and the capture's id, and the argument that makes its operator wait."""

    source: Callable[[Any], str]
    capture_id: Callable[[Any], str] | None
    waits: str | None = None
    request: Callable[[Any], object] = lambda _: None


def after(flag, arguments):
    return arguments[arguments.index(flag) + 1]


def in_sql(statement):
    """The only table of the only subquery."""
    [line] = [line for line in statement.splitlines() if " GROUP BY " in line]
    return line.split("FROM ")[1].split(" GROUP BY ")[0]


def in_settings(settings):
    """What follows the stamp's name among `key=value`, wherever several are in one text."""
    [found] = [part for part in settings.split() if part.startswith(f"{STAMP}=")]
    return found.partition("=")[2]


def aws(service, operation, **parameters):
    """Check a request as boto3 does before it sends one."""
    from botocore.session import get_session
    from botocore.validate import ParamValidator

    shape = get_session().get_service_model(service).operation_model(operation).input_shape
    report = ParamValidator().validate(parameters, shape)
    assert not report.has_errors(), report.generate_report()


def dataproc(kind, value):
    """Check a message as Google's client does."""
    from google.cloud import dataproc_v1

    return getattr(dataproc_v1, kind)(value)


def overrides(task):
    return task.configuration_overrides["applicationConfiguration"][0]["properties"]


RECIPES = {
    "athena": Recipe(
        lambda task: in_sql(task.query),
        NO_STAMP,
        request=lambda task: aws("athena", "StartQueryExecution", QueryString=task.query, WorkGroup=task.workgroup),
    ),
    "bash": Recipe(lambda task: task.env["SOURCE"], lambda task: task.env["CAPTURE_ID"]),
    "databricks": Recipe(
        lambda task: after("--source", submitted(task)["spark_python_task"]["parameters"]),
        lambda task: submitted(task)["new_cluster"]["spark_conf"][STAMP],
        "wait_for_termination=True",
        # Braces that Databricks replaces, which Airflow would otherwise take for its own.
        request=lambda task: submitted(task)["new_cluster"]["spark_conf"]["spark.sql.catalog.lake.credential"],
    ),
    "databricks_sql": Recipe(lambda task: in_sql(task.sql), NO_STAMP),
    "dag_factory": Recipe(lambda task: after("--source", task.application_args), lambda task: task.conf[STAMP]),
    "dag_factory_wrap": Recipe(lambda task: task.conf["SOURCE_TABLE"], NO_STAMP),
    "dataproc": Recipe(
        lambda task: after("--source", task.job["pyspark_job"]["args"]),
        lambda task: task.job["pyspark_job"]["properties"][STAMP],
        "asynchronous=False",
        request=lambda task: dataproc("Job", task.job),
    ),
    "dataproc_serverless": Recipe(
        lambda task: after("--source", task.batch["pyspark_batch"]["args"]),
        lambda task: task.batch["runtime_config"]["properties"][STAMP],
        "asynchronous=False",
        request=lambda task: dataproc("Batch", task.batch),
    ),
    "emr_on_eks": Recipe(
        lambda task: after("--source", task.job_driver["sparkSubmitJobDriver"]["entryPointArguments"]),
        lambda task: overrides(task)[STAMP],
        "wait_for_completion=True",
        request=lambda task: aws(
            "emr-containers",
            "StartJobRun",
            virtualClusterId=task.virtual_cluster_id,
            clientToken="once",
            jobDriver=task.job_driver,
            configurationOverrides=task.configuration_overrides,
        ),
    ),
    "emr_serverless": Recipe(
        lambda task: after("--source", task.job_driver["sparkSubmit"]["entryPointArguments"]),
        lambda task: overrides(task)[STAMP],
        "wait_for_completion=True",
        request=lambda task: aws(
            "emr-serverless",
            "StartJobRun",
            applicationId=task.application_id,
            clientToken="once",
            executionRoleArn=task.execution_role_arn,
            jobDriver=task.job_driver,
            configurationOverrides=task.configuration_overrides,
        ),
    ),
    "emr_steps": Recipe(
        lambda task: after("--source", task.steps[0]["HadoopJarStep"]["Args"]),
        lambda task: in_settings(after("--conf", task.steps[0]["HadoopJarStep"]["Args"][3:])),
        "wait_for_completion=True",
        request=lambda task: aws("emr", "AddJobFlowSteps", JobFlowId=task.job_flow_id, Steps=task.steps),
    ),
    "fixed_name": Recipe(lambda task: task.env["SOURCE"], NO_STAMP),
    "glue": Recipe(
        lambda task: task.script_args["--source"],
        lambda task: in_settings(task.script_args["--conf"]),
        "wait_for_completion=True",
        request=lambda task: aws("glue", "StartJobRun", JobName=task.job_name, Arguments=task.script_args),
    ),
    "kubernetes_pod": Recipe(
        lambda task: after("--source", container(task).args),
        lambda task: pod_capture_id(task),  # noqa: PLW0108 - defined below
        request=lambda task: labelled(task),  # noqa: PLW0108 - defined below
    ),
    "livy": Recipe(
        lambda task: after("--source", batch(task)["args"]),
        lambda task: batch(task)["conf"][STAMP],
        "polling_interval=30",
    ),
    "spark_connect": Recipe(lambda task: task.op_args[0], NO_STAMP),
    "spark_kubernetes": Recipe(
        lambda task: after("--source", task.template_body["spark"]["spec"]["arguments"]),
        lambda task: task.template_body["spark"]["spec"]["sparkConf"][STAMP],
    ),
    "trino": Recipe(lambda task: in_sql(task.sql), NO_STAMP),
}


def submitted(task):
    """The one task of the run, as the provider would post it."""
    from airflow.providers.databricks.utils.databricks import normalise_json_content

    return normalise_json_content(task.tasks)[0]


def labelled(task):
    """The labels by which a second attempt looks for a pod name the capture."""
    assert f"ips-capture={task.labels['ips-capture']}," in task._build_find_pod_label_selector()
    assert task.labels["ips-capture"] == pod_capture_id(task)


def pod_capture_id(task):
    return next(entry.value for entry in container(task).env if entry.name == "CAPTURE_ID")


def container(task):
    """The one of the pod that the task would create."""
    return task.build_pod_request_obj().spec.containers[0]


def batch(task):
    """What the provider would post to Livy."""
    from airflow.providers.apache.livy.hooks.livy import LivyHook

    return LivyHook.build_post_batch_body(**task.spark_params)


@pytest.fixture(scope="module")
def parse():
    """Read DAG files as the DAG processor does."""
    from airflow.dag_processing.dagbag import DagBag

    def read(folder):
        return DagBag(dag_folder=folder, bundle_name="dags-folder", safe_mode=False)

    return read


@pytest.fixture(scope="module")
def bag(parse):
    return parse(COOKBOOK)


@pytest.fixture
def source(lake):
    """What the recipes capture: its rows are no concern of theirs."""
    table = create(lake, "db.playback")
    append(table, [1, 2, 3])
    return table


def test_every_recipe_parses_with_its_provider(bag):
    """None is without an expectation here, and none is refused as one that does not wait."""
    assert bag.import_errors == {}
    assert set(bag.dags) == {f"cookbook_{name}" for name in RECIPES}


@pytest.mark.parametrize("name", RECIPES)
def test_the_captured_name_arrives_where_the_job_reads_it(name, bag, source, run_dag, lake):
    """So does the capture's id; and the commit takes the task for the work between, and moves the checkpoint."""
    recipe, dag = RECIPES[name], bag.dags[f"cookbook_{name}"]
    done = rendered_only(dag.task_dict["merge"])

    ran = run_dag(dag)

    [task] = done
    captured = ran.xcom("db.playback")
    assert recipe.source(task) == captured
    assert lake.load_table(captured.partition(".")[2]).scan().to_arrow()["id"].to_pylist() == [1, 2, 3]
    if recipe.capture_id:
        assert recipe.capture_id(task) == ran.xcom("capture_id")
    recipe.request(task)
    assert ran.xcom("commit", task="commit")["outcome"] == "advanced"


def rendered_only(task):
    """Let a task end once Airflow has rendered it; the list gets what it would have executed."""
    done: list[Any] = []
    task.execute = lambda context: done.append(context["task"])
    return done


@pytest.mark.parametrize("name", ["databricks", "dag_factory", "glue", "kubernetes_pod", "livy", "spark_kubernetes"])
def test_an_operator_that_resumes_its_job_forgets_that_of_another_capture(name, bag):
    """These are the real classes, by whose names we recognise them."""
    from airflow_provider_ips.dag_checks.attachment import forget_job_of_other_capture

    assert bag.dags[f"cookbook_{name}"].task_dict["merge"]._pre_execute_hook is forget_job_of_other_capture


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.waits])
def test_a_recipe_that_would_not_wait_is_refused(name, parse, tmp_path):
    """What is set in the recipe is what makes it wait."""
    argument, _, value = (RECIPES[name].waits or "").partition("=")
    text = (COOKBOOK / f"{name}.py").read_text()
    assert f"{argument}={value}," in text
    not_waiting = {"True": "False", "False": "True", "30": "0"}[value]
    (tmp_path / f"{name}.py").write_text(text.replace(f"{argument}={value},", f"{argument}={not_waiting},"))

    [error] = parse(tmp_path).import_errors.values()

    assert "does not wait for the job that it starts" in error


def test_the_shell_gets_the_name_as_one_word(bag, source, run_dag, tmp_path, monkeypatch):
    """Here the command itself runs: what it calls notes its arguments."""
    program = tmp_path / "spark-submit"
    program.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done > "$(dirname "$0")/noted"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    dag = bag.dags["cookbook_bash"]
    task = dag.task_dict["merge"]
    vars(task).pop("execute", None)
    task.cwd = str(tmp_path)

    ran = run_dag(dag)

    words = (tmp_path / "noted").read_text().splitlines()
    assert after("--source", words) == ran.xcom("db.playback")
    assert in_settings(after("--conf", words)) == ran.xcom("capture_id")


def test_the_yaml_would_be_refused_without_waiting(parse, tmp_path):
    """dag-factory builds the same operators, so the same DAG is refused."""
    text = (COOKBOOK / "dag_factory.yaml").read_text()
    (tmp_path / "dag_factory.yaml").write_text(text.replace("wait_for_completion: true", "wait_for_completion: false"))
    (tmp_path / "dag_factory.py").write_text((COOKBOOK / "dag_factory.py").read_text())

    [error] = parse(tmp_path).import_errors.values()

    assert "set wait_for_completion=True on 'merge'" in error


def test_every_recipe_is_on_the_page():
    """Its own code, quoted, and the file linked to."""
    text = PAGE.read_text()
    quoted = {Path(block.value).name for block in blocks(PAGE) if block.directive == "from" and block.value}
    for path in sorted(path for path in COOKBOOK.iterdir() if path.suffix in (".py", ".yaml")):
        assert path.name in quoted, f"{path.name} is not quoted in {PAGE.name}"
        assert f"(../../dags_examples/cookbook/{path.name})" in text
