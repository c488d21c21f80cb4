"""Where backfills write down what they are at work on: one Airflow Variable for each target and plan.

They stay when a run has ended, for one of its chunks may be cleared later. What counts is whether the run is active.
A single detached run writes one too, before it makes a table, and its commit takes it back.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_provider_ips.checkpoints.access import TaskVariables
from airflow_provider_ips.core.claims import Claim, refused, refused_to_wait, target_prefix
from airflow_provider_ips.core.errors import CheckpointConflictError, StoreUnavailableError
from airflow_provider_ips.operators import _context

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import NoReturn

    from airflow.sdk import Context
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from airflow_provider_ips.core.backfill import Chunk
    from airflow_provider_ips.core.positions import RunIdentity
    from airflow_provider_ips.operators.commit import IpCommitOperator

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


def targets_of(commits: Iterable[IpCommitOperator]) -> tuple[str, ...]:
    """What commits say that the jobs before them write, as far as it can be told before they run."""
    from airflow_provider_ips.operators import _stages

    return tuple(sorted({target for commit in commits for target in _stages.targets_of(commit)}))


def unnamed(dag_id: str) -> str:
    """Stand for the targets of a DAG that does not name them: its own backfills are told apart, no others."""
    return f"whatever DAG {dag_id} writes"


def give_way(context: Context, mine: Claim, other: Claim, *, waits: bool) -> NoReturn:
    """Refuse the task for a claim that is in its way, or come back later."""
    if not waits:
        raise refused(mine, other)
    if _holds_up(context, other):
        raise refused_to_wait(mine, other)
    log.info("The backfill of run %s (%s) is at work there: waiting for it.", other.run, other.told)
    raise AirflowRescheduleException(datetime.now(tz=UTC) + _context.WAIT)  # type: ignore[no-untyped-call]


def _holds_up(context: Context, other: Claim) -> bool:
    """Where one run of a DAG goes at a time, and that is ours, another one is queued until we end."""
    dag = context["dag"]
    if other.run.dag_id != dag.dag_id or dag.max_active_runs != 1:
        return False
    return bool(context["ti"].get_dr_count(dag_id=dag.dag_id, run_ids=[other.run.run_id], states=["queued"]))


def in_the_way(
    ti: RuntimeTaskInstanceProtocol, claim: Claim, *, since_ms: int = 0, notes: Notes = NOTES
) -> Claim | None:
    """Find another backfill of the target that is active, meets this one, and claimed it after a moment."""
    for other in _others(claim, notes):
        if claim.concerns(other) and other.claimed_at_ms >= since_ms and _is_active(ti, other, claim):
            return other
        if _is_forgotten(ti, other, claim) and read_claim(other.key, notes) == other:
            let_go([other.key], notes=notes)  # unless its run has come back meanwhile, and has written anew
    return None


def hold(ti: RuntimeTaskInstanceProtocol, claims: Sequence[Claim], *, notes: Notes = NOTES) -> Claim | None:
    """Claim all targets, or none: then the claim that is in the way is returned.

    What an earlier attempt has claimed stays then: chunks of a plan may be at work. A single run has none, and two that
    were cleared would wait for each other's.
    """
    before = {claim.key: None if claim.is_single else notes.get(claim.key) for claim in claims}
    found = _first_in_the_way(ti, claims, notes)
    if found is not None:
        let_go([claim.key for claim in claims if claim.is_single], notes=notes)
        return found  # without writing: a note of ours would stop that backfill's own chunks
    for claim in claims:
        _write(claim, notes)
    found = _first_in_the_way(ti, claims, notes)
    if found is not None:
        for key, text in before.items():
            _restore(key, text, notes)
    return found


def holds_more(claim: Claim, *, notes: Notes = NOTES) -> bool:
    """Tell whether the same run has other notes on the target: somebody may be waiting for these."""
    return any(other.run.is_of_run(claim.run) for other in _others(claim, notes))


def keep(ti: RuntimeTaskInstanceProtocol, run: RunIdentity, chunk: Chunk, *, now_ms: int, notes: Notes = NOTES) -> None:
    """See to it that no other backfill has begun where this chunk's was at work; refuse the chunk if one has."""
    for key in chunk.claims:
        claim = read_claim(key, notes)
        if claim is None or (claim.run.dag_id, claim.run.run_id) != (run.dag_id, run.run_id):
            raise _gone(key, chunk)
        others = [other for other in _others(claim, notes) if claim.concerns(other)]
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


def let_go(keys: Iterable[str], *, notes: Notes = NOTES) -> None:
    """Remove notes of use to nobody. One that stays is in nobody's way once its run has ended."""
    for key in keys:
        try:
            notes.delete(key)
        except Exception as error:  # noqa: BLE001 - whatever it is, the work goes on
            log.warning("Variable %r, a note on what a backfill was at work on, could not be removed: %s", key, error)


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
    """Two plans of one run are both active, whatever the run's state.

    A single run that is queued was cleared: when it begins it asks anew, so that it is in nobody's way before.
    """
    if other.run.is_of_run(mine.run):
        return True
    states = ["running"] if other.is_single else _context.ACTIVE_STATES
    return _context.is_active(ti, other.run, mine=mine.run, states=states)


def _is_forgotten(ti: RuntimeTaskInstanceProtocol, other: Claim, mine: Claim) -> bool:
    """A plan's note is kept for its chunks, for a while; a single run's is of no use when the run has ended."""
    is_due = other.is_single or mine.claimed_at_ms - other.claimed_at_ms > KEPT_MS
    return is_due and not _is_active(ti, other, mine)


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
