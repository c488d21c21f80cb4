"""Stages that follow one another in one file: one that captures appends only must not stand behind one that merges.

A stage that captures changes has to write them, by MERGE or DELETE, and such writes are no appends. One that captures
appends may merge them: its commit can say so. Where stages are in different files, `airflow ips doctor` tells it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.operators import _wiring
from airflow_provider_ips.operators._backfill_wiring import plans, takes_chunk
from airflow_provider_ips.operators._parameters import is_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import DAG
    from airflow.sdk.types import Operator

    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
    from airflow_provider_ips.operators.commit import IpCommitOperator

_seen: WeakValueDictionary[tuple[str, str], DAG] = WeakValueDictionary()
"""The DAGs of each file, as they become complete: Airflow hands them over one by one."""


def refuse_appends_behind_changes(dag: DAG) -> None:
    """Compare the declared targets of stages that capture changes with what other stages of the file capture."""
    _seen[dag.fileloc, dag.dag_id] = dag
    dags = [known for (file, _), known in list(_seen.items()) if file == dag.fileloc]
    changed = {table: why for known in dags for table, why in _changed_tables(known)}
    for name, source, settings in (each for known in dags for each in _sources(known)):
        stage, why = changed.get(f"{source.table}@{source.branch}", (None, ""))
        if stage is None or stage == name or settings.captures_changes or settings.on_other_operation == "skip":
            continue
        raise InputError(
            f"{name} captures the appends of {source.table!r} only, and {stage} before it {why}",
            consequence="Its captures would fail on the first merge, and rows that were corrected would never reach it",
            remedy='set data_operations=("append", "overwrite", "delete") there; if the stage before it does nothing '
            'but append, say so by on_other_operation="skip"',
        )


_CHANGES: Final = "captures changes, which it can write there by changing rows only"
_SAYS_SO: Final = "says that its job changes rows there"
_REFILLS: Final = "backfills it, which rewrites rows that are there"


def _changed_tables(dag: DAG) -> Iterator[tuple[str, tuple[str, str]]]:
    """The tables, with their branch, that stages write changes to, and which stage does so why."""
    for plan in plans(dag):
        for table in backfilled_by(plan):
            yield table, (f"{dag.dag_id}.{plan.task_id}", _REFILLS)
    for commit in _wiring.commits(dag):
        capture = dag.task_dict.get(commit.capture_task_id)
        takes_changes = any(settings.captures_changes for _, settings in _checked(capture))
        if commit.target_changes or takes_changes:
            for table in targets_of(commit):
                stage = f"{dag.dag_id}.{commit.capture_task_id}"
                yield table, (stage, _SAYS_SO if commit.target_changes else _CHANGES)


def backfilled_by(plan: Operator) -> Iterator[str]:
    """The tables, with their branch, that a plan says its group writes, as far as the file tells."""
    said: Any = _wiring.argument(plan, "target_tables") or ()
    for name in (said,) if isinstance(said, str) else said:
        if isinstance(name, str) and not is_template(name):
            yield name if "@" in name else f"{name}@main"


def targets_of(commit: IpCommitOperator) -> Iterator[str]:
    from airflow_provider_ips.assets.uris import SCHEME, TableUri

    if commit.verify_target is not None and "{{" not in commit.verify_target:
        yield f"{commit.verify_target}@main"
    for asset in commit.target_assets:
        if asset.uri.startswith(f"{SCHEME}://"):
            uri = TableUri.parse(asset.uri)
            yield f"{uri.table}@{uri.branch}"


def _sources(dag: DAG) -> Iterator[tuple[str, SourceTable, CaptureSettings]]:
    for task in dag.tasks:
        if _wiring.is_capture(task) and not takes_chunk(task):
            for source, settings in _checked(task):
                yield f"{dag.dag_id}.{task.task_id}", source, settings


def _checked(capture: object) -> tuple[tuple[SourceTable, CaptureSettings], ...]:
    """What a capture says of its sources; nothing where it is mapped or a template, for then it is not known yet."""
    known: tuple[tuple[SourceTable, CaptureSettings], ...] = getattr(capture, "_checked_sources", tuple)()
    return known
