"""Checkpoints as rows, for Airflow's console to print as table, JSON or YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.positions import format_time

if TYPE_CHECKING:
    from airflow_provider_ips.core.checkpoint import Checkpoint, CommittedCapture
    from airflow_provider_ips.core.interventions import Intervention
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.maintenance.desk import Row


def consumer_row(consumer: str, checkpoint: Checkpoint) -> Row:
    """One consumer in the list."""
    last = checkpoint.history[-1] if checkpoint.history else None
    return {
        "consumer": consumer,
        "sources": ", ".join(_name(p.source, p.branch) for p in checkpoint.positions),
        "last_commit": None if last is None else format_time(last.committed_at_ms),
        "pending_run": None if checkpoint.pending is None else str(checkpoint.pending.run),
        "problem": None,
    }


def problem_row(consumer: str, problem: str) -> Row:
    """A checkpoint that cannot be read still has to be seen."""
    return {"consumer": consumer, "sources": None, "last_commit": None, "pending_run": None, "problem": problem}


def source_rows(checkpoint: Checkpoint) -> list[Row]:
    """Where a consumer stands, and what is under way."""
    pending = {} if checkpoint.pending is None else {(r.source, r.branch): r for r in checkpoint.pending.ranges}
    standing = {(p.source, p.branch): p.position for p in checkpoint.positions}
    return [
        {
            "source": source,
            "branch": branch,
            **_place("", standing.get((source, branch))),
            **_place("pending_", pending[source, branch].to_inclusive if (source, branch) in pending else None),
            "pending_run": str(checkpoint.pending.run) if checkpoint.pending and (source, branch) in pending else None,
        }
        for source, branch in sorted({*standing, *pending})
    ]


def history_rows(checkpoint: Checkpoint) -> list[Row]:
    """One row per committed capture and source, and one per command, in the order they happened."""
    commits = [(capture.committed_at_ms, row) for capture in checkpoint.history for row in _committed(capture)]
    commands = [(entry.at_ms, _commanded(entry)) for entry in checkpoint.interventions]
    return [row for _, row in sorted((*commits, *commands), key=lambda entry: entry[0])]


def _committed(capture: CommittedCapture) -> list[Row]:
    return [
        {
            "capture_id": capture.capture_id,
            "run": _who(capture),
            "committed_at": format_time(capture.committed_at_ms),
            "source": taken.source,
            "branch": taken.branch,
            "kind": taken.kind.value,
            "from_snapshot": _snapshot(taken.from_exclusive),
            "to_snapshot": _snapshot(taken.to_inclusive),
        }
        for taken in capture.ranges
    ]


def _commanded(entry: Intervention) -> Row:
    return {
        "capture_id": None,
        "run": f"{entry.verb} by {entry.who}",
        "committed_at": format_time(entry.at_ms),
        **dict.fromkeys(("source", "branch", "kind", "from_snapshot", "to_snapshot")),
    }


def change_rows(before: Checkpoint | None, after: Checkpoint) -> list[Row]:
    """Where each source stands before and after a command."""
    names = {(p.source, p.branch) for c in (before, after) if c is not None for p in c.positions}
    return [
        {
            "source": source,
            "branch": branch,
            "from_snapshot": _snapshot(None if before is None else before.position_of(source, branch)),
            "to_snapshot": _snapshot(after.position_of(source, branch)),
            "to_time": _place("", after.position_of(source, branch))["committed_at"],
        }
        for source, branch in sorted(names)
    ]


def _place(prefix: str, position: Position | None) -> Row:
    has_snapshot = position is not None and position.snapshot_id is not None
    return {
        f"{prefix}snapshot": _snapshot(position),
        f"{prefix}committed_at": format_time(position.committed_at_ms) if position and has_snapshot else None,
    }


def _snapshot(position: Position | None) -> str | None:
    """A table without a snapshot is a place too, and not the same as no place."""
    if position is None:
        return None
    return "empty table" if position.snapshot_id is None else str(position.snapshot_id)


def _who(capture: CommittedCapture) -> str:
    return "seed" if capture.run is None else str(capture.run)


def _name(source: str, branch: str) -> str:
    return source if branch == "main" else f"{source}@{branch}"
