"""What is wrong, or will be, told before a run finds out. Facts in, findings out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.core.history import walk_back
from airflow_provider_ips.core.lineage import prove_lineage
from airflow_provider_ips.core.record import Decision
from airflow_provider_ips.core.retention import retention_warnings
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.core.stamps import STAMP
from airflow_provider_ips.core.verdicts import judge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_ips.core.checkpoint import Checkpoint
    from airflow_provider_ips.core.history import SnapshotFacts, TableHistory
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.retention import RetentionFacts

MAX_JUDGED: Final = 100
"""Snapshots looked at per source, newest first: each may cost a manifest list."""


class Status(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    check: str
    subject: str
    status: Status
    finding: str
    remedy: str = ""


def check_lineage(history: TableHistory, committed: Position, subject: str) -> Finding:
    """Whether the next capture can go on from where the consumer stands."""
    try:
        prove_lineage(history, after=committed, to=history.head)
    except IpsError as error:
        return Finding(
            check="lineage", subject=subject, status=Status.PROBLEM, finding=error.problem, remedy=error.remedy
        )
    return Finding(check="lineage", subject=subject, status=Status.OK, finding=f"it goes on from {committed}")


def check_retention(facts: RetentionFacts | None, subject: str, *, gap_ms: int | None, now_ms: int) -> Finding:
    """Whether the source forgets sooner than the consumer comes back."""
    if gap_ms is None or facts is None:
        return Finding(
            check="retention",
            subject=subject,
            status=Status.UNKNOWN,
            finding="how long the consumer stays away between two runs is not known: no schedule, and not two commits",
        )
    warnings = retention_warnings(facts, gap_ms=gap_ms, now_ms=now_ms)
    return Finding(
        check="retention",
        subject=subject,
        status=Status.WARNING if warnings else Status.OK,
        finding="; ".join(warnings) or "snapshots are kept for longer than the consumer stays away",
        remedy="keep snapshots longer, or run more often" if warnings else "",
    )


def check_operations(
    history: TableHistory, committed: Position | None, subject: str, *, captures_changes: bool, on_other_operation: str
) -> Finding:
    """Whether the source is changed in ways that its capture does not take."""
    if captures_changes:
        return Finding(check="operations", subject=subject, status=Status.OK, finding="the capture takes changes too")
    chain = walk_back(history, history.head)[: MAX_JUDGED + 1]
    changing = _changing(history, chain)
    ahead = [s for s in changing if committed is None or s.sequence_number > committed.sequence_number]
    if not changing:
        found = f"the newest {len(chain)} snapshots add rows or none"
        return Finding(check="operations", subject=subject, status=Status.OK, finding=found)
    what = f"{len(changing)} of the newest {len(chain)} snapshots change or remove rows, the last is {changing[0]}"
    stage = next((s for s in changing if STAMP in s.summary), None)
    if stage is not None:
        what += f"; {stage} was written by a stage before this one (capture {stage.summary[STAMP]})"
    fails = bool(ahead) and on_other_operation == "fail"
    return Finding(
        check="operations",
        subject=subject,
        status=Status.PROBLEM if fails else Status.WARNING,
        finding=what + ("; the next capture will refuse them" if fails else "; a capture of appends leaves them out"),
        remedy='capture changes too: data_operations=("append", "overwrite", "delete")',
    )


def check_stages(
    source: str, subject: str, *, captures_changes: bool, on_other_operation: str, writers: Mapping[str, str] | None
) -> Finding:
    """Whether a stage before this one writes changes, also while its history shows none yet.

    ``writers`` names who writes changes to which table, None where DAGs cannot be looked at. A merge that has met no
    row it knows looks like an append; the first one that does stops a capture of appends.
    """
    if writers is None:
        finding = "the stages before it cannot be looked at here"
        return Finding(check="stages", subject=subject, status=Status.UNKNOWN, finding=finding)
    writer = writers.get(source)
    if writer is None or captures_changes or on_other_operation == "skip":
        finding = "no stage before it writes what its capture does not take"
        return Finding(check="stages", subject=subject, status=Status.OK, finding=finding)
    return Finding(
        check="stages",
        subject=subject,
        status=Status.PROBLEM,
        finding=f"it captures appends only, and {writer} before it changes rows there, as it captures changes itself "
        "or its commit says; the first merge that changes a row will stop it",
        remedy='capture changes too: data_operations=("append", "overwrite", "delete"); or, if the stage before it '
        'does nothing but append, say so by on_other_operation="skip"',
    )


def captures_changes(checkpoint: Checkpoint, source: str, branch: str) -> bool:
    """As the consumer's newest capture of this source did."""
    captures = [c.ranges for c in checkpoint.history if c.wrote]
    captures += [checkpoint.pending.ranges] if checkpoint.pending else []
    taken = [r for ranges in captures for r in ranges if (r.source, r.branch) == (source, branch)]
    return bool(taken) and taken[-1].before_table is not None


def _changing(history: TableHistory, chain: Sequence[SnapshotFacts]) -> list[SnapshotFacts]:
    settings = CaptureSettings()
    found = []
    for place, snapshot in enumerate(chain[:MAX_JUDGED]):
        previous = chain[place + 1] if place + 1 < len(chain) else None
        if judge(history, snapshot, previous, (), settings).verdict.decision is Decision.REFUSED:
            found.append(snapshot)
    return found
