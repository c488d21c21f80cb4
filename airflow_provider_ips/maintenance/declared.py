"""What a DAG that Airflow has stored says of the tables that its stages write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ips.assets.uris import SCHEME, TableUri

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.serialization.definitions.dag import SerializedDAG

_ALIAS = "ips:"
"""What a commit's aliases begin with; the asset's URI follows."""


def capture_of(dag: SerializedDAG | None, consumer: str) -> Any | None:  # noqa: ANN401 - Airflow's operator, as stored
    """Find the capture that owns a consumer."""
    for task in () if dag is None else dag.tasks:
        if consumer == (getattr(task, "consumer", None) or f"{task.dag_id}.{task.task_id}"):
            return task
    return None


def targets_behind(dag: SerializedDAG | None, consumer: str, *, changed: bool = False) -> set[str]:
    """The tables (``db.t@branch``) that commits behind a consumer's capture name; or that they say are changed."""
    capture = capture_of(dag, consumer)
    if dag is None or capture is None:
        return set()
    behind = [dag.get_task(name) for name in capture.get_flat_relative_ids(upstream=False)]
    commits = [task for task in behind if task.task_type == "IpCommitOperator"]
    return {
        table for task in commits if not changed or getattr(task, "target_changes", False) for table in _targets(task)
    }


def _targets(commit: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    verified = getattr(commit, "verify_target", None)
    if verified and "{{" not in verified:
        yield f"{verified}@main"
    for outlet in commit.outlets or ():
        uri = getattr(outlet, "uri", None) or outlet.name.removeprefix(_ALIAS)
        if uri.startswith(f"{SCHEME}://"):
            target = TableUri.parse(uri)
            yield f"{target.table}@{target.branch}"
