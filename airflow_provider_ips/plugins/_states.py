"""Where a capture stands, and what is to be done about it, in words for somebody who did not write the DAG."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.fates import State
from airflow_provider_ips.core.positions import format_time

if TYPE_CHECKING:
    from airflow_provider_ips.core.fates import Fate
    from airflow_provider_ips.plugins._record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A word for the badge, what it means, what to do next. ``tone`` is good, waiting, neutral or bad."""

    word: str
    tone: str
    meaning: str
    next_step: str


_SETTLED: Final = Standing(
    word="nothing to process",
    tone="neutral",
    meaning="The sources gained nothing, so the capture itself moved the checkpoint past the range.",
    next_step="Nothing.",
)
_DRY: Final = Standing(
    word="dry run",
    tone="neutral",
    meaning="It was counted what a run would capture. No table was made and the checkpoint was left alone.",
    next_step="Trigger the DAG without the dry run to process it.",
)
_DETACHED: Final = Standing(
    word="detached",
    tone="neutral",
    meaning="This run was asked for something of its own. The checkpoint neither led it nor follows it.",
    next_step="Nothing: the next usual run goes on from the checkpoint as if this one had not been.",
)
_REPLAYED: Final = Standing(
    word="replayed",
    tone="neutral",
    meaning="This run had committed before and was cleared: its range was captured again. Its commit moves nothing.",
    next_step="Nothing, once the tasks behind it have succeeded.",
)
_COMMITTED: Final = Standing(
    word="committed",
    tone="good",
    meaning="The checkpoint moved to the end of this range{when}.",
    next_step="Nothing. To process it again: clear this run while it is the consumer's newest; later, "
    "`airflow ips rewind` goes back to it, and `airflow ips replay` captures its range apart from the checkpoint.",
)
_PENDING: Final = Standing(
    word="pending",
    tone="waiting",
    meaning="Captured and not committed: the checkpoint still stands where this range begins.",
    next_step="Wait: the commit task moves the checkpoint when every task between capture and commit has succeeded.",
)
_PENDING_FAILED: Final = Standing(
    word="not committed",
    tone="bad",
    meaning="The run ended without a commit: the checkpoint still stands where this range begins. Nothing is lost.",
    next_step="Clear the failed tasks to process the same range; or leave it: the next run covers this range as well.",
)
_SUPERSEDED: Final = Standing(
    word="superseded",
    tone="neutral",
    meaning="It was never committed, and the capture of a later run covers its range.",
    next_step="Nothing here: look at the later run. If this run is cleared, it captures anew.",
)
_UNKNOWN: Final = Standing(
    word="unknown here",
    tone="neutral",
    meaning="No checkpoint in this Airflow's Variables tells of this capture: it is kept in Iceberg, was moved or "
    "reset, or has forgotten a capture of so long ago.",
    next_step="Ask on the command line: `airflow ips history --consumer {consumer}`.",
)
_ENDED: Final = ("failed", "success")


def standing_of(record: Record, fate: Fate, outcome: str | None, run_state: str) -> Standing:
    """Weigh what the record, the checkpoint and the commit say; ``outcome`` is what a commit of this run has said."""
    if (apart := _apart(record)) is not None:
        return apart
    if fate.state is State.PENDING:
        return _PENDING_FAILED if run_state in _ENDED else _PENDING
    if fate.state is State.SUPERSEDED or outcome == "superseded":
        return _SUPERSEDED
    if fate.state is State.COMMITTED or outcome in ("advanced", "already_done"):
        return _committed(fate)
    return replace(_UNKNOWN, next_step=_UNKNOWN.next_step.format(consumer=record.consumer))


def _apart(record: Record) -> Standing | None:
    """Know without asking that a capture waits for no commit that would move the checkpoint."""
    if record.is_settled:
        return _SETTLED
    if record.is_detached:
        return _DRY if record.is_dry else _DETACHED
    return _REPLAYED if record.is_replay else None


def _committed(fate: Fate) -> Standing:
    when = "" if fate.committed_at_ms is None else f" on {format_time(fate.committed_at_ms)}"
    meaning = _COMMITTED.meaning.format(when=when)
    if fate.intervention:
        meaning += f" Since then somebody has changed the checkpoint by hand ({fate.intervention})."
    return replace(_COMMITTED, meaning=meaning)
