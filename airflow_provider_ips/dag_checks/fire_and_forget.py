"""Whether the tasks between capture and commit wait for the jobs that they start.

    capture >> submit (wait_for_completion=False) >> commit               refused: submitted is not processed
    capture >> submit (wait_for_completion=False) >> sensor >> commit     right: the sensor waits

A task that is not known, or whose argument is known only when it runs, is not refused.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Final

from airflow.sdk.definitions.mappedoperator import MappedOperator

from airflow_provider_ips import config, dag_graph
from airflow_provider_ips.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow.sdk import DAG
    from airflow.sdk.types import Operator

    from airflow_provider_ips.dag_graph import Pair

OPERATORS: Final = """
airflow.providers.airbyte.operators.airbyte.AirbyteTriggerSyncOperator:asynchronous=False
airflow.providers.alibaba.cloud.operators.analyticdb_spark.AnalyticDBSparkBaseOperator:polling_interval=30
airflow.providers.amazon.aws.operators.batch.BatchOperator:wait_for_completion=True|deferrable=True
airflow.providers.amazon.aws.operators.ecs.EcsRunTaskOperator:wait_for_completion=True|deferrable=True
airflow.providers.amazon.aws.operators.emr.EmrAddStepsOperator:wait_for_completion=True|deferrable=True
airflow.providers.amazon.aws.operators.emr.EmrContainerOperator:wait_for_completion=True|deferrable=True
airflow.providers.amazon.aws.operators.emr.EmrServerlessStartJobOperator:wait_for_completion=True
airflow.providers.amazon.aws.operators.emr.EmrStartNotebookExecutionOperator
airflow.providers.amazon.aws.operators.glue.GlueJobOperator:wait_for_completion=True|deferrable=True
airflow.providers.amazon.aws.operators.glue_databrew.GlueDataBrewStartJobOperator:wait_for_completion=True|deferrable=True
airflow.providers.amazon.aws.operators.mwaa.MwaaTriggerDagRunOperator:wait_for_completion=True|deferrable=True
airflow.providers.amazon.aws.operators.redshift_data.RedshiftDataOperator:wait_for_completion=True
airflow.providers.amazon.aws.operators.sagemaker.SageMakerAutoMLOperator:wait_for_completion=True
airflow.providers.amazon.aws.operators.sagemaker.SageMakerProcessingOperator:wait_for_completion=True
airflow.providers.amazon.aws.operators.sagemaker.SageMakerStartPipelineOperator:wait_for_completion=True|deferrable=True
airflow.providers.amazon.aws.operators.sagemaker.SageMakerTrainingOperator:wait_for_completion=True
airflow.providers.amazon.aws.operators.sagemaker.SageMakerTransformOperator:wait_for_completion=True
airflow.providers.amazon.aws.operators.sagemaker.SageMakerTuningOperator:wait_for_completion=True|deferrable=True
airflow.providers.amazon.aws.operators.sagemaker_unified_studio.SageMakerNotebookOperator:wait_for_completion=True|deferrable=True
airflow.providers.amazon.aws.operators.sagemaker_unified_studio_notebook.SageMakerUnifiedStudioNotebookOperator:wait_for_completion=True|deferrable=True
airflow.providers.amazon.aws.operators.ssm.SsmRunCommandOperator:wait_for_completion=True|deferrable=True
airflow.providers.amazon.aws.operators.step_function.StepFunctionStartExecutionOperator:deferrable=True
airflow.providers.apache.livy.operators.livy.LivyOperator:polling_interval=30|deferrable=True
airflow.providers.cncf.kubernetes.operators.job.KubernetesJobOperator:wait_until_job_complete=True
airflow.providers.databricks.operators.databricks.DatabricksRunNowOperator:wait_for_termination=True
airflow.providers.databricks.operators.databricks.DatabricksSQLStatementsOperator:wait_for_termination=True
airflow.providers.databricks.operators.databricks.DatabricksSubmitRunOperator:wait_for_termination=True
airflow.providers.databricks.operators.databricks.DatabricksTaskBaseOperator:wait_for_termination=True
airflow.providers.dbt.cloud.operators.dbt.DbtCloudRunJobOperator:wait_for_termination=True
airflow.providers.google.cloud.operators.cloud_build.CloudBuildCreateBuildOperator:wait=True
airflow.providers.google.cloud.operators.cloud_build.CloudBuildRetryBuildOperator:wait=True
airflow.providers.google.cloud.operators.cloud_build.CloudBuildRunBuildTriggerOperator:wait=True
airflow.providers.google.cloud.operators.dataform.DataformCreateWorkflowInvocationOperator:asynchronous=False
airflow.providers.google.cloud.operators.datafusion.CloudDataFusionStartPipelineOperator:asynchronous=False|deferrable=True
airflow.providers.google.cloud.operators.dataproc.DataprocCreateBatchOperator:asynchronous=False
airflow.providers.google.cloud.operators.dataproc.DataprocJobBaseOperator:asynchronous=False|deferrable=True
airflow.providers.google.cloud.operators.dataproc.DataprocSubmitJobOperator:asynchronous=False|deferrable=True
airflow.providers.google.cloud.operators.ray.RaySubmitJobOperator:wait_for_job_done=True
airflow.providers.microsoft.azure.operators.data_factory.AzureDataFactoryRunPipelineOperator:wait_for_termination=True
airflow.providers.microsoft.azure.operators.powerbi.PowerBIDatasetRefreshOperator:wait_for_completion=True
airflow.providers.microsoft.azure.operators.synapse.AzureSynapseRunPipelineOperator:wait_for_termination=True
airflow.providers.microsoft.azure.operators.synapse.AzureSynapseRunSparkBatchOperator:wait_for_termination=True
airflow.providers.standard.operators.trigger_dagrun.TriggerDagRunOperator:wait_for_completion=True
"""
"""Operators that can return before their job ends, with the arguments of which each by itself makes them wait.

Without an argument, nothing does. In the form of the option ``[ips] fire_and_forget``, which adds to them.
"""

_MISSING: Final = object()
_UNKNOWN: Final = "{{ … }}"
_BOOLEANS: Final = {"true": True, "false": False}


def check_fire_and_forget(dag: DAG) -> None:
    """Refuse a task whose success says nothing about its job, which may still be running."""
    known = {**dict(parse_operators(OPERATORS)), **dict(parse_operators(config.FIRE_AND_FORGET.read()))}
    for pair in dag_graph.pairs(dag):
        if pair.commit.verify_target is not None:
            continue
        for task in pair.between.values():
            path = next((path for path in dag_graph.class_paths(task) if path in known), None)
            if path is not None and _is_known_not_to_wait(task, path, known[path]) and not _is_awaited(task, pair):
                raise _does_not_wait(task, known[path], pair)


def parse_operators(text: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """
    Read operators, separated by lines or commas: the path of the class, and the values that make it wait.

        my.operators.Submit:wait=True|poll_seconds=30     {"wait": True, "poll_seconds": 30}
        my.operators.Notify                               {}: it never waits
    """
    for entry in filter(None, map(str.strip, text.replace(",", "\n").splitlines())):
        path, _, arguments = entry.partition(":")
        pairs = [argument.partition("=") for argument in arguments.split("|") if arguments]
        if not all(part.isidentifier() for part in path.split(".")) or not all(
            name.isidentifier() and value for name, _, value in pairs
        ):
            raise InputError(
                f"[ips] fire_and_forget has the entry {entry!r}",
                consequence="It is not known which operator it names, and what makes that wait for its job",
                remedy="write it as class.path:argument=value, such as my.operators.Submit:wait_for_completion=True",
            )
        yield path, {name: _value_of(value) for name, _, value in pairs}


def _value_of(text: str) -> object:
    return _BOOLEANS.get(text.lower(), int(text) if text.isdecimal() else text)


def _is_known_not_to_wait(task: Operator, path: str, waiting: Mapping[str, object]) -> bool:
    given = {name: _argument(task, path, name) for name in waiting}
    # An argument that this release of the provider does not have does not make it wait.
    known = {name: value for name, value in given.items() if value is not _MISSING}
    return bool(known or not waiting) and not any(_may_wait(given, waiting[name]) for name, given in known.items())


def _may_wait(given: object, value: object) -> bool:
    """Whether an argument may make a task wait: any true value where one does, any interval where 30 seconds do."""
    if dag_graph.is_template(given):
        return True
    return given == value if isinstance(value, str) else bool(given) == bool(value)


def _argument(task: Operator, path: str, name: str) -> object:
    """What an operator was given, or its default. For an argument that it is expanded over, something unknown."""
    if isinstance(task, MappedOperator):
        if name in task.partial_kwargs:
            return task.partial_kwargs[name]
        expanded = dag_graph.expanded_arguments(task)
        if expanded is None or name in expanded:
            return _UNKNOWN
    for attribute in (name, f"_{name}"):
        if not isinstance(task, MappedOperator) and hasattr(task, attribute):
            return getattr(task, attribute)
    return _default(task, path, name)


def _default(task: Operator, path: str, name: str) -> object:
    """What an argument is that an operator was not given. Instances get the default arguments of their DAG and groups.

    A constructor below the class that is listed may pass on anything to it, if it takes `**kwargs`.
    """
    is_listed = False
    for base in dag_graph.operator_class(task).__mro__:
        is_listed = is_listed or dag_graph.path_of(base) == path
        parameters = inspect.signature(vars(base)["__init__"]).parameters if "__init__" in vars(base) else {}
        if name in parameters:
            scopes = (task.dag, task.task_group)
            given = {key: value for scope in scopes if scope is not None for key, value in scope.default_args.items()}
            return given.get(name, parameters[name].default)
        if not is_listed and any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            return _UNKNOWN
    return _MISSING


def _is_awaited(task: Operator, pair: Pair) -> bool:
    """Whether a sensor whose success the commit requires is on every path from a task to the commit."""
    seen: set[str] = set()
    reached = set(task.downstream_task_ids)
    while reached:
        task_id = reached.pop()
        if task_id == pair.commit.task_id:
            return False
        seen.add(task_id)
        is_required = not pair.commit.required or (task_id,) in pair.commit.required
        if task_id in pair.between and not (is_required and _is_sensor(pair.between[task_id])):
            reached |= pair.between[task_id].downstream_task_ids - seen
    return True


def _is_sensor(task: Operator) -> bool:
    return any(base.__name__ == "BaseSensorOperator" for base in dag_graph.operator_class(task).__mro__)


def _does_not_wait(task: Operator, waiting: Mapping[str, object], pair: Pair) -> InputError:
    set_it = "".join(f"set {name}={value!r} on {task.task_id!r}; else " for name, value in list(waiting.items())[:1])
    return InputError(
        f"task {task.task_id!r} ({dag_graph.operator_class(task).__name__}) is between capture "
        f"{pair.capture.task_id!r} and commit {pair.commit.task_id!r}, and does not wait for the job that it starts",
        consequence="The checkpoint would move while the job runs, or after it failed, and its rows would be lost",
        remedy=f"{set_it}let a sensor wait for the job before the commit, or give the commit verify_target=; a task "
        "that does not process the captured rows goes downstream of the commit",
    )
