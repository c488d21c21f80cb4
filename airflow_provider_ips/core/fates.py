"""What became of a capture: asked afterwards, of the checkpoint that it was made for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_ips.core.checkpoint import Checkpoint, CommittedCapture, PendingCapture
    from airflow_provider_ips.core.positions import RunIdentity


class State(StrEnum):
    """Where a capture stands."""

    PENDING = "pending"
    COMMITTED = "committed"
    SUPERSEDED = "superseded"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What a checkpoint tells of one capture.

    ``by`` is the run whose capture covers a superseded one, ``covers`` lists the captures that this one supersedes,
    and ``intervention`` is what somebody has done to the checkpoint by hand since this capture was committed.
    """

    state: State
    by: RunIdentity | None = None
    committed_at_ms: int | None = None
    covers: tuple[str, ...] = ()
    intervention: str = ""


def fate_of(checkpoint: Checkpoint | None, capture_id: str) -> Fate:
    """Find a capture in its consumer's checkpoint. The newest entry wins: a capture may be named by several."""
    if checkpoint is None:
        return Fate(state=State.UNKNOWN)
    pending = checkpoint.pending
    if pending is not None and pending.capture_id == capture_id:
        return Fate(state=State.PENDING, covers=pending.supersedes)
    done = next((c for c in reversed(checkpoint.history) if c.capture_id == capture_id), None)
    if done is not None:
        return Fate(
            state=State.COMMITTED,
            committed_at_ms=done.committed_at_ms,
            covers=done.supersedes,
            intervention=_intervention_since(checkpoint, done.committed_at_ms),
        )
    later = next((c for c in _newest_first(checkpoint) if capture_id in c.supersedes), None)
    if later is not None:
        return Fate(state=State.SUPERSEDED, by=later.run)
    return Fate(state=State.UNKNOWN)


def _newest_first(checkpoint: Checkpoint) -> Iterator[PendingCapture | CommittedCapture]:
    if checkpoint.pending is not None:
        yield checkpoint.pending
    yield from reversed(checkpoint.history)


def _intervention_since(checkpoint: Checkpoint, moment_ms: int) -> str:
    return next((i.verb for i in reversed(checkpoint.interventions) if i.at_ms >= moment_ms), "")
