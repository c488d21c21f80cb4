"""Where backfills write down what they are at work on: one Airflow Variable for each target and plan.

They stay when a run has ended, for one of its chunks may be cleared later. What counts is whether the run is active.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.checkpoints.access import TaskVariables
from airflow_provider_ips.core.claims import Claim, refused, target_prefix
from airflow_provider_ips.core.errors import CheckpointConflictError, StoreUnavailableError
from airflow_provider_ips.operators import _context

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from airflow_provider_ips.core.backfill import Chunk
    from airflow_provider_ips.core.positions import RunIdentity

log = logging.getLogger(__name__)

KEPT_MS: Final = 30 * 86_400_000
"""How long a claim stays whose run has ended: until then its chunks can be cleared by themselves."""


class Notes(TaskVariables):
    """The Variables as a plan and its captures need them."""

    def delete(self, key: str) -> None:
        """Take a note back."""
        from airflow.sdk import Variable

        Variable.delete(key)


NOTES: Final = Notes()


def read_claim(key: str, notes: Notes = NOTES) -> Claim | None:
    """Read one; None where there is none."""
    text = notes.get(key)
    if text is None and key not in notes.keys(prefix=key):
        return None
    try:
        return Claim.from_json(json.loads(text or ""))
    except (KeyError, TypeError, ValueError):
        raise StoreUnavailableError(
            f"Variable {key!r}, in which a backfill says what it is at work on, cannot be read",
            consequence="Two backfills might write the same part of one target",
            remedy="let the task run again once the API server answers; if the Variable was edited, delete it when no "
            "backfill of that target is running",
        ) from None


def in_the_way(
    ti: RuntimeTaskInstanceProtocol, claim: Claim, *, since_ms: int = 0, notes: Notes = NOTES
) -> Claim | None:
    """Find another backfill of the target that is active, overlaps this one, and claimed it after a moment."""
    for other in _others(claim, notes):
        is_active = _is_active(ti, other, claim)
        if not is_active:
            _forget_if_old(other, claim.claimed_at_ms, notes)
        elif other.claimed_at_ms >= since_ms and claim.extent.overlaps(other.extent):
            return other
    return None


def hold(ti: RuntimeTaskInstanceProtocol, claims: Sequence[Claim], *, notes: Notes = NOTES) -> Claim | None:
    """Claim all targets, or none: then the claim that is in the way is returned."""
    found = _first_in_the_way(ti, claims, notes)
    if found is not None:
        return found  # without writing: a note of ours would stop that backfill's own chunks
    before = {claim.key: notes.get(claim.key) for claim in claims}
    for claim in claims:
        _write(claim, notes)
    found = _first_in_the_way(ti, claims, notes)
    if found is not None:
        for key, text in before.items():
            _restore(key, text, notes)
    return found


def keep(ti: RuntimeTaskInstanceProtocol, run: RunIdentity, chunk: Chunk, *, now_ms: int, notes: Notes = NOTES) -> None:
    """See to it that no other backfill has begun where this chunk's was at work; refuse the chunk if one has."""
    for key in chunk.claims:
        claim = read_claim(key, notes)
        if claim is None or (claim.run.dag_id, claim.run.run_id) != (run.dag_id, run.run_id):
            raise _gone(key, chunk)
        others = [other for other in _others(claim, notes) if claim.extent.overlaps(other.extent)]
        newer = [other for other in others if other.claimed_at_ms >= claim.claimed_at_ms]
        if active := next((other for other in newer if _is_active(ti, other, claim)), None):
            raise refused(claim, active)
        if newer:
            # One has been at work here since and has ended. Should it be cleared now, it has to see that we are back.
            back = replace(claim, claimed_at_ms=now_ms)
            _write(back, notes)
            if active := in_the_way(ti, back, since_ms=claim.claimed_at_ms, notes=notes):
                _write(claim, notes)
                raise refused(claim, active)


def _gone(key: str, chunk: Chunk) -> CheckpointConflictError:
    return CheckpointConflictError(
        f"the note {key!r} on what the backfill of {chunk} is at work on is gone",
        consequence="Another backfill may write the same part of the target",
        remedy="clear the run from its IpBackfillOperator on",
    )


def _first_in_the_way(ti: RuntimeTaskInstanceProtocol, claims: Sequence[Claim], notes: Notes) -> Claim | None:
    return next((found for claim in claims if (found := in_the_way(ti, claim, notes=notes)) is not None), None)


def _others(claim: Claim, notes: Notes) -> Iterator[Claim]:
    for key in notes.keys(prefix=target_prefix(claim.target)):
        other = None if key == claim.key else read_claim(key, notes)
        if other is not None and other.target == claim.target:
            yield other


def _is_active(ti: RuntimeTaskInstanceProtocol, other: Claim, mine: Claim) -> bool:
    """Two plans of one run are both active, whatever the run's state."""
    if replace(other.run, map_index=-1) == replace(mine.run, map_index=-1):
        return True
    return _context.is_active(ti, other.run, mine=mine.run)


def _forget_if_old(other: Claim, now_ms: int, notes: Notes) -> None:
    if now_ms - other.claimed_at_ms > KEPT_MS:
        notes.delete(other.key)


def _write(claim: Claim, notes: Notes) -> None:
    told = (
        f"What a backfill of {claim.target!r} is at work on. Written by airflow-provider-ips; it may be deleted when "
    )
    notes.set(claim.key, json.dumps(claim.to_json()), description=f"{told}the run has ended.")


def _restore(key: str, text: str | None, notes: Notes) -> None:
    if text is None:
        notes.delete(key)
    else:
        _write(Claim.from_json(json.loads(text)), notes)
