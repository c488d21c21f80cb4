"""What a DAG says about its captures, commits and plans of backfills, before anything runs.

Raises nothing and changes nothing: what is refused is in ``dag_checks``, what is added is in ``dag_checks.attachment``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from airflow.sdk import BaseOperator, XComArg
from airflow.sdk.definitions.mappedoperator import MappedOperator

from airflow_provider_ips.assets.uris import SCHEME, TableUri
from airflow_provider_ips.core.identifiers import Source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from airflow.sdk import DAG, Asset
    from airflow.sdk.types import Operator

    from airflow_provider_ips.core.checkpoint.store import CheckpointStore
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable


class CaptureTask(BaseOperator):
    """What the graph knows of an ``IpCaptureOperator``. The operator's own module costs more to import."""

    source_tables: object
    iceberg_conn_id: str
    consumer: str | None
    capture_mode: str | None
    lease: timedelta | None
    hold_source: bool
    icdc_namespace: str | None
    icdc_location: str | None
    engine_catalog: str | None
    skip_if_empty: bool
    on_active_run: str
    checkpoint_store: CheckpointStore | str | None
    follow_params: bool
    chunk: object
    takes_chunk: bool
    """It is given ``chunk=``, whatever that turns out to be when it runs."""

    backfill_partitions: str | None
    target_lag_s: int | None

    def checked_sources(self) -> tuple[tuple[SourceTable, CaptureSettings], ...]:
        """The sources and their settings; nothing where they are templates, which only a run can resolve."""
        raise NotImplementedError


class CommitTask(BaseOperator):
    """What the graph knows of an ``IpCommitOperator``."""

    capture_task_id: str
    required: tuple[tuple[str, ...], ...]
    """One task of each group must succeed. Without any group, all tasks between capture and commit must."""

    verify_target: str | None
    target_evidence: str
    target_changes: bool
    target_assets: tuple[Asset, ...]

    @property
    def required_task_ids(self) -> tuple[str, ...]:
        """The tasks that ``require`` names, those of all groups together."""
        return tuple(task_id for group in self.required for task_id in group)


class BackfillTask(BaseOperator):
    """What the graph knows of an ``IpBackfillOperator``, which plans a backfill in chunks."""

    def checked_sources(self) -> tuple[tuple[SourceTable, CaptureSettings], ...]:
        """The source and its settings; nothing where it is a template, which only a run can resolve."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Pair:
    """A commit, the capture that it commits, and the tasks that lie between the two, by id."""

    capture: Operator
    commit: CommitTask
    between: Mapping[str, Operator]


def is_capture(task: object) -> TypeGuard[Operator]:
    """Whether a task is a capture, expanded or not."""
    return _is_a(task, CaptureTask)


def is_commit(task: object) -> TypeGuard[Operator]:
    """Whether a task is a commit, expanded or not."""
    return _is_a(task, CommitTask)


def is_capture_or_commit(task: object) -> bool:
    """Whether a task is one of the two, expanded or not."""
    return is_capture(task) or is_commit(task)


def is_backfill(task: object) -> TypeGuard[Operator]:
    """Whether a task plans a backfill, expanded or not."""
    return _is_a(task, BackfillTask)


def _is_a(task: object, kind: type[BaseOperator]) -> bool:
    return issubclass(operator_class(task), kind)


def operator_class(task: object) -> type:
    """The class of an operator, expanded or not."""
    found = getattr(task, "operator_class", None)
    return found if isinstance(found, type) else type(task)


def class_paths(task: object) -> Iterator[str]:
    """The paths of an operator's class and its bases. By these it is recognised without importing a provider."""
    return map(path_of, operator_class(task).__mro__)


def path_of(kind: type) -> str:
    """The path by which a class can be imported."""
    return f"{kind.__module__}.{kind.__qualname__}"


def commits(dag: DAG) -> Iterator[CommitTask]:
    """All commits of a DAG, except for expanded ones, which are refused."""
    return (task for task in dag.tasks if isinstance(task, CommitTask))


def commit_of(capture_task_id: str, dag: DAG) -> CommitTask | None:
    """The commit of a capture. There is at most one: a second one is refused."""
    return next((commit for commit in commits(dag) if commit.capture_task_id == capture_task_id), None)


def capture_of(commit: CommitTask, dag: DAG) -> Operator | None:
    """The capture that a commit names; None if the DAG has no such task, or it is not a capture."""
    task = dag.task_dict.get(commit.capture_task_id)
    return task if is_capture(task) else None


def capture_of_consumer(consumer: str | None, dag: DAG) -> Operator | None:
    """The capture that owns a consumer; None without a consumer, or if it belongs to another DAG."""
    if consumer is None:
        return None
    return next((task for task in dag.tasks if is_capture(task) and owns(task, consumer)), None)


def owns(capture: Any, consumer: str) -> bool:  # noqa: ANN401 - an operator, also as Airflow stores it
    """Whether a task has this consumer, or one of its mapped instances has: ``<dag_id>.<task_id>.<source>``."""
    name = argument(capture, "consumer")
    default = f"{capture.dag_id}.{capture.task_id}"
    is_instance = not name and capture.is_mapped and consumer.startswith(f"{default}.")
    return is_instance or consumer == (name or default)


def pairs(dag: DAG) -> Iterator[Pair]:
    """Each commit with its capture. A commit without one is left out."""
    for commit in commits(dag):
        capture = capture_of(commit, dag)
        if capture is not None:
            yield Pair(capture, commit, {task_id: dag.task_dict[task_id] for task_id in tasks_between(capture, commit)})


def tasks_between(capture: Operator, commit: CommitTask) -> list[str]:
    """The ids of the tasks that are downstream of the capture and upstream of the commit."""
    ids = capture.get_flat_relative_ids(upstream=False) & commit.get_flat_relative_ids(upstream=True)
    return sorted(ids - {capture.task_id, commit.task_id})


def backfill_plans(dag: DAG) -> Iterator[Operator]:
    """All tasks of a DAG that plan a backfill."""
    return filter(is_backfill, dag.tasks)


def checked_sources(task: object) -> tuple[tuple[SourceTable, CaptureSettings], ...]:
    """The sources of a capture or a plan, as far as the DAG file shows them; nothing for an expanded task."""
    return task.checked_sources() if isinstance(task, CaptureTask | BackfillTask) else ()


def may_take_chunk(capture: Operator) -> bool:
    """Whether a capture may be given a chunk: one that is expanded over arguments known at run time only may be."""
    return is_given_chunk(capture) or (isinstance(capture, MappedOperator) and expanded_arguments(capture) is None)


def is_given_chunk(capture: Operator) -> bool:
    """Whether the DAG file gives ``chunk=`` to a capture."""
    if isinstance(capture, MappedOperator):
        return capture.partial_kwargs.get("chunk") is not None or "chunk" in (expanded_arguments(capture) or {})
    return isinstance(capture, CaptureTask) and capture.takes_chunk


def expanded_arguments(task: MappedOperator) -> Mapping[str, Any] | None:
    """The arguments that a task is expanded over; None where they are known at run time only."""
    arguments: Any = getattr(task.expand_input, "value", None)
    return arguments if isinstance(arguments, Mapping) else None


def backfill_targets(plan: Operator) -> Iterator[Source]:
    """Name the tables that a plan declares as written by its task group."""
    declared: Any = argument(plan, "target_tables") or ()
    for name in (declared,) if isinstance(declared, str) else declared:
        if isinstance(name, str) and not is_template(name):
            yield Source.parse(name)


def commit_targets(commit: CommitTask, *, iceberg_conn_id: str | None = None) -> Iterator[Source]:
    """Name the tables that a commit declares as written by the tasks upstream of it.

    :param iceberg_conn_id: only tables in the catalog of this connection, which is that of the capture
    """
    if commit.verify_target is not None and not is_template(commit.verify_target):
        yield Source(commit.verify_target)
    for asset in commit.target_assets:
        uri = TableUri.parse(asset.uri) if asset.uri.startswith(f"{SCHEME}://") else None
        if uri is not None and iceberg_conn_id in (None, uri.iceberg_conn_id):
            yield uri.source


def argument(task: Operator, name: str) -> object:
    """An argument of an operator, expanded or not."""
    return task.partial_kwargs.get(name) if isinstance(task, MappedOperator) else getattr(task, name, None)


def mapped_groups(task: Operator) -> tuple[str | None, ...]:
    """The ids of the mapped task groups that a task is in, from the inside out. Objects of groups may be proxies."""
    return tuple(group.group_id for group in task.iter_mapped_task_groups())


def shares_index(task: Operator, other: Operator) -> bool:
    """Whether instances of the same index belong together: both tasks are expanded by the same mapped task group."""
    groups = mapped_groups(task)
    return bool(groups) and groups == mapped_groups(other)


def is_expanded(task: Operator) -> bool:
    """Whether a task may have several instances in one run."""
    return bool(task.is_mapped) or bool(mapped_groups(task))


def sibling_id(task_id: str, task: BaseOperator) -> str:
    """Complete an id that is written without the prefix of the task group that both tasks are in."""
    if task_id in task.dag.task_dict or task.task_group is None:
        return task_id
    prefixed = str(task.task_group.child_id(task_id))  # type: ignore[no-untyped-call]
    return prefixed if prefixed in task.dag.task_dict else task_id


def is_template(value: object) -> bool:
    """Whether a value, or a part of it, is not known before the task runs."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, Mapping):
        return any(is_template(item) for item in value.values())
    if isinstance(value, list | tuple | set):
        return any(is_template(item) for item in value)
    return callable(getattr(value, "resolve", None))


def xcom_pulls(task: Operator) -> set[tuple[str, str | None]]:
    """The XComs that a task pulls, by task and key, as far as its templated arguments show. No key: it is unknown."""
    found: set[tuple[str, str | None]] = set()
    for value in _templated_values(task):
        found.update((operator.task_id, key) for operator, key in XComArg.iter_xcom_references(value))
        found.update(_pulled_by_template(value))
    return found


def _templated_values(task: Operator) -> Iterator[object]:
    if isinstance(task, MappedOperator):
        yield from (value for name, value in task.partial_kwargs.items() if name in task.template_fields)
        yield from (task.partial_kwargs.get("op_args"), task.partial_kwargs.get("op_kwargs"))
        # A decorated task keeps what it is expanded over apart.
        for expanded in (task.expand_input, getattr(task, "op_kwargs_expand_input", None)):
            yield getattr(expanded, "value", None)
        return
    yield from (getattr(task, name, None) for name in task.template_fields)


_IDS: Final = r"(\[[^\]]*\]|\([^)]*\)|'[^']*'|\"[^\"]*\")"
_PULLS: Final = (
    re.compile(r"xcom_pull\s*\(\s*(?:task_ids\s*=\s*)?" + _IDS),  # the first argument
    re.compile(r"xcom_pull\s*\([^)]*?task_ids\s*=\s*" + _IDS),  # a named one, after others
)
_QUOTED: Final = re.compile(r"['\"]([^'\"]+)['\"]")
_KEY: Final = re.compile(r"\bkey\s*=\s*" + _QUOTED.pattern)


def _pulled_by_template(value: object) -> Iterator[tuple[str, str | None]]:
    if isinstance(value, str):
        for call in re.findall(r"xcom_pull(?:(?!xcom_pull).)*", value, re.DOTALL):
            key = _KEY.search(call)
            ids = (ids for pattern in _PULLS for ids in pattern.findall(call))
            yield from ((task_id, key and key[1]) for found in ids for task_id in _QUOTED.findall(found))
    elif isinstance(value, dict):
        for item in value.values():
            yield from _pulled_by_template(item)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from _pulled_by_template(item)
