"""The status of a capture, as the checkpoint of its consumer shows it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import Capture
from airflow_provider_ips.core.positions import RunIdentity


class CaptureState(StrEnum):
    """What became of a capture; UNKNOWN if the checkpoint does not contain it."""

    PENDING = "pending"
    COMMITTED = "committed"
    SUPERSEDED = "superseded"
    GIVEN_UP = "given up"
    """It was pending when a person abandoned it, or moved the checkpoint back. Its commit would fail."""

    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureStatus:
    """The state of a capture, and the entries of the checkpoint that concern it."""

    state: CaptureState
    superseded_by: RunIdentity | None = None
    """The run whose capture includes the range of this one."""

    committed_at_ms: int | None = None
    supersedes: tuple[str, ...] = ()
    """The ids of the captures whose ranges this one includes."""

    intervention: str = ""
    """The latest command that changed the checkpoint by hand since this capture was committed."""


def capture_status(checkpoint: Checkpoint | None, capture_id: str) -> CaptureStatus:
    """Find a capture in the checkpoint of its consumer. If several entries name it, the newest one counts."""
    if checkpoint is None:
        return CaptureStatus(state=CaptureState.UNKNOWN)
    pending = next((c for c in checkpoint.begun if c.capture_id == capture_id), None)
    if pending is not None:
        return CaptureStatus(state=CaptureState.PENDING, supersedes=pending.supersedes)
    done = next((c for c in reversed(checkpoint.history) if c.capture_id == capture_id), None)
    if done is not None:
        return CaptureStatus(
            state=CaptureState.COMMITTED,
            committed_at_ms=done.committed_at_ms,
            supersedes=done.supersedes,
            intervention=_intervention_since(checkpoint, done.committed_at_ms),
        )
    later = next((c for c in _newest_first(checkpoint) if capture_id in c.supersedes), None)
    if later is not None:
        return CaptureStatus(state=CaptureState.SUPERSEDED, superseded_by=later.run)
    left = next((c for c in checkpoint.uncommitted if capture_id in c.supersedes), None)
    if left is not None:
        verb = _intervention_since(checkpoint, left.started_at_ms)
        return CaptureStatus(state=CaptureState.GIVEN_UP, supersedes=left.supersedes, intervention=verb)
    return CaptureStatus(state=CaptureState.UNKNOWN)


def _newest_first(checkpoint: Checkpoint) -> Iterator[Capture]:
    if checkpoint.pending is not None:
        yield checkpoint.pending
    yield from reversed(checkpoint.history)


def _intervention_since(checkpoint: Checkpoint, moment_ms: int) -> str:
    return next((i.verb for i in reversed(checkpoint.interventions) if i.at_ms >= moment_ms), "")
