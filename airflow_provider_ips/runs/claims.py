"""Which part of a target a backfill writes, across runs and DAGs: claims that plans keep beside checkpoints.

    plan           claims all its targets before it returns chunks, or none                 Claims.take
    chunk          checks before it captures that the claim of its plan still holds         Claims.confirm
    detached run   claims nothing, and fails or waits if a plan has claimed what it writes  Claims.find_conflict

A claim counts while its run is active. It stays when the run has ended, because a chunk may be cleared later.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from airflow_provider_ips import compat, dag_graph
from airflow_provider_ips.checkpoints.variable import TaskVariables
from airflow_provider_ips.core.backfill.claims import Claim, endless_wait_error, plan_conflict_error, target_prefix
from airflow_provider_ips.core.errors import CheckpointConflictError, StoreUnavailableError
from airflow_provider_ips.core.json_fields import PARSE_ERRORS
from airflow_provider_ips.runs import environment
from airflow_provider_ips.runs.active_runs import Activity, activity_of, is_queued_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import NoReturn

    from airflow.sdk import Context
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from airflow_provider_ips.core.backfill.chunks import Chunk
    from airflow_provider_ips.core.backfill.claims import Extent
    from airflow_provider_ips.core.positions import RunIdentity
    from airflow_provider_ips.dag_graph import CommitTask


log = logging.getLogger(__name__)

KEPT_MS: Final = 30 * 86_400_000
"""How long the claim of a run that has ended stays: until then its chunks can be cleared one by one."""


class ClaimStore(Protocol):
    """Where claims are kept, by key: in Variables, or in Iceberg where a task cannot list Variables."""

    def get(self, key: str) -> str | None: ...

    def set(self, key: str, value: str, *, description: str) -> None: ...

    def keys(self, *, prefix: str) -> Sequence[str]:
        """List the keys. Raises if they cannot be listed, so a missing key is absent."""

    def delete(self, key: str) -> None: ...


class ClaimVariables(TaskVariables):
    """The Variables that hold claims: unlike checkpoints, they are deleted."""

    def delete(self, key: str) -> None:
        from airflow.sdk import Variable

        Variable.delete(key)


@dataclass(frozen=True, slots=True)
class Claims:
    """All claims, and which of their runs are active, as one task instance sees them."""

    ti: RuntimeTaskInstanceProtocol
    store: ClaimStore

    def read(self, key: str) -> Claim | None:
        """Read a claim; None if there is none."""
        text = self.store.get(key)
        if text is None and key not in self.store.keys(prefix=key):
            return None
        try:
            return Claim.from_json(json.loads(text or ""))
        except PARSE_ERRORS:
            raise StoreUnavailableError(
                f"{key!r}, in which a backfill keeps what it writes, cannot be read",
                consequence="Two backfills might write the same part of one target",
                remedy="let the task run again once the API server answers; if it was edited, delete it when no "
                "backfill of that target is running",
            ) from None

    def take(self, claims: Sequence[Claim]) -> Claim | None:
        """Claim all targets, or none: then return the claim of another run that conflicts.

        None is written if one conflicts already: it would stop the chunks of that backfill. What an earlier attempt of
        this task has claimed stays then, because its chunks may be running.
        """
        earlier = {claim.key: self.store.get(claim.key) for claim in claims}
        conflicting = self._first_conflict(claims)
        if conflicting is not None:
            return conflicting
        for claim in claims:
            self._write(claim)
        # Another plan may have written after the first look. It looks again as well, so one of the two sees the other.
        conflicting = self._first_conflict(claims)
        if conflicting is not None:
            for key, text in earlier.items():
                self._restore(key, text)
        return conflicting

    def confirm(self, run: RunIdentity, chunk: Chunk, *, now_ms: int) -> None:
        """Refuse a chunk unless its plan's claims still hold and no conflicting backfill was claimed since.

        If one was and has ended, the claims are renewed: should that run be cleared now, it has to see this chunk's.
        """
        for key in chunk.claims:
            claim = self.read(key)
            if claim is None or (claim.run.dag_id, claim.run.run_id) != (run.dag_id, run.run_id):
                raise _missing(key, chunk)
            later = [
                other
                for other in self._others(claim)
                if claim.conflicts_with(other) and other.claimed_at_ms >= claim.claimed_at_ms
            ]
            if active := next((other for other in later if self._is_active(other, claim.run)), None):
                raise plan_conflict_error(claim, active)
            if later:
                self._renew(claim, now_ms)

    def find_conflict(self, target: str, run: RunIdentity, extent: Extent) -> Claim | None:
        """Find an active backfill that may write the same rows of a target as a detached capture of a run."""
        return next(
            (
                claim
                for claim in self._of_target(target)
                if claim.conflicts_with_capture(run, extent) and self._is_active(claim, run)
            ),
            None,
        )

    def has_claimed(self, target: str, run: RunIdentity) -> bool:
        """Tell whether a plan of this very run has claimed a target: other runs may be waiting for it."""
        return any(claim.run.is_of_run(run) for claim in self._of_target(target))

    def _renew(self, claim: Claim, now_ms: int) -> None:
        renewed = replace(claim, claimed_at_ms=now_ms)
        self._write(renewed)
        if active := self._conflict(renewed, since_ms=claim.claimed_at_ms):
            self._write(claim)
            raise plan_conflict_error(claim, active)

    def _first_conflict(self, claims: Sequence[Claim]) -> Claim | None:
        return next((found for claim in claims if (found := self._conflict(claim)) is not None), None)

    def _conflict(self, mine: Claim, *, since_ms: int = 0) -> Claim | None:
        """Find an active backfill of the same target, claimed since then, and delete claims that are of no use."""
        for other in self._others(mine):
            is_active = self._is_active(other, mine.run)
            if is_active and mine.conflicts_with(other) and other.claimed_at_ms >= since_ms:
                return other
            is_old = mine.claimed_at_ms - other.claimed_at_ms > KEPT_MS
            # Read again: its run may have been cleared meanwhile, and have claimed the target again.
            if is_old and not is_active and self.read(other.key) == other:
                self._delete(other.key)
        return None

    def _others(self, mine: Claim) -> Iterator[Claim]:
        return (claim for claim in self._of_target(mine.target, but=mine.key))

    def _of_target(self, target: str, *, but: str | None = None) -> Iterator[Claim]:
        for key in self.store.keys(prefix=target_prefix(target)):
            claim = None if key == but else self.read(key)
            if claim is not None and claim.target == target:
                yield claim

    def _is_active(self, other: Claim, mine: RunIdentity) -> bool:
        """Two plans of one run are both active, whatever the run's state."""
        return other.run.is_of_run(mine) or activity_of(self.ti, other.run, mine=mine) is not Activity.ENDED

    def _write(self, claim: Claim) -> None:
        written = (
            f"Which part of {claim.target!r} a backfill writes. Written by airflow-provider-ips; it may be deleted "
            "when the run has ended."
        )
        self.store.set(claim.key, json.dumps(claim.to_json()), description=written)

    def _restore(self, key: str, text: str | None) -> None:
        if text is None:
            self.store.delete(key)
        else:
            self._write(Claim.from_json(json.loads(text)))

    def _delete(self, key: str) -> None:
        try:
            self.store.delete(key)
        except Exception as error:  # noqa: BLE001 - the claim of a run that has ended stops no other
            log.warning("%r, an old claim of a backfill, could not be deleted: %s", key, error)


def open_claims(context: Context, iceberg_conn_id: str) -> Claims:
    """Open the claims from within a task.

    :param iceberg_conn_id: The connection for the Iceberg store, unless there is one for all checkpoints.
    """
    return Claims(context["ti"], _claim_store(iceberg_conn_id))


def _claim_store(iceberg_conn_id: str) -> ClaimStore:
    if "variable" in compat.USABLE_STORES:
        return ClaimVariables()
    from airflow_provider_ips.checkpoints.claim_tables import ClaimTables

    return ClaimTables(environment.open_iceberg_store(iceberg_conn_id))


def targets_of(commits: Iterable[CommitTask]) -> tuple[str, ...]:
    """List what commits say that the jobs before them write, as far as it is known before they run."""
    return tuple(sorted({target.full_label for commit in commits for target in dag_graph.commit_targets(commit)}))


def unnamed_target(dag_id: str) -> str:
    """Name the target of a DAG that names none: its own backfills are compared with each other only."""
    return f"whatever DAG {dag_id} writes"


def fail_or_wait(context: Context, conflicting: Claim, refusal: CheckpointConflictError, *, waits: bool) -> NoReturn:
    """Raise the refusal, or come back later where the task waits for the other backfill."""
    if not waits:
        raise refusal
    other = conflicting.run
    if is_queued_after(context, other):
        raise endless_wait_error(context["task"].task_id, conflicting)
    log.info("The backfill of run %s (%s) writes the same: waiting for it.", other, conflicting.description)
    environment.come_back_later()


def _missing(key: str, chunk: Chunk) -> CheckpointConflictError:
    return CheckpointConflictError(
        f"{key!r}, in which the backfill of {chunk} keeps what it writes, does not exist any more",
        consequence="Another backfill may write the same part of the target",
        remedy="clear the run from its IpBackfillOperator on",
    )
