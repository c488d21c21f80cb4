"""The target that a commit verifies: where it stood when the capture began, and what it tells of the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.operators import _context, _wiring

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context
    from pyiceberg.catalog import Catalog

STAMPED: Final = "stamp"
MOVED: Final = "moved_head"
EVIDENCE: Final = (STAMPED, MOVED)
"""The stamp names the capture; a head moves for whoever writes. Who cannot stamp can ask for the latter."""


def heads_at_capture(context: Context, capture_task_id: str, catalog: Catalog) -> list[dict[str, str | None]]:
    """Where the targets stand whose head the commits of a capture want to see moved. Names are values, not keys."""
    from airflow_provider_ips.iceberg.presence import open_if_there

    targets = {
        context["task"].render_template(commit.verify_target, context)
        for commit in _wiring.commits(context["dag"])
        if commit.capture_task_id == capture_task_id and commit.verify_target and commit.target_evidence == MOVED
    }
    found = {target: open_if_there(catalog, target) for target in sorted(targets)}
    return [
        {"table": target, "head": None if source is None or source.head is None else str(source.head.snapshot_id)}
        for target, source in found.items()
    ]


def demand(target: str, *, evidence: str, capture_id: str, heads: Mapping[str, str | None], conn_id: str) -> None:
    """Ask the target itself."""
    from airflow_provider_ips.core.errors import EvidenceError
    from airflow_provider_ips.core.targets import demand_moved_head, demand_stamp
    from airflow_provider_ips.iceberg import open_source

    if evidence == MOVED and target not in heads:
        raise EvidenceError(
            f"the capture did not note where {target} stood",
            consequence="Whether its head has moved since cannot be told",
            remedy="clear the capture: it notes the head of the verify_target that the DAG has now",
        )
    source = open_source(_context.open_catalog(conn_id), target)
    if evidence == MOVED:
        then = heads[target]
        demand_moved_head(source, capture_id, head_then=None if then is None else int(then))
    else:
        demand_stamp(source, capture_id)


def heads_of(requested: Mapping[str, Any]) -> dict[str, str | None]:
    """What a capture's record says of the heads."""
    return {entry["table"]: entry["head"] for entry in requested.get("target_heads", ())}
