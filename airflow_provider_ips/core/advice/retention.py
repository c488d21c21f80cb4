"""Whether a source keeps its snapshots for longer than the time between two runs of its consumer.

A consumer can only continue while every snapshot since its checkpoint is retained. When a capture fails because some
have expired, it is too late. So a capture that still works warns that the next one may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_high
from typing import Final

from airflow_provider_ips.core.checkpoint.entries import CommittedCapture

DEFAULT_MAX_AGE_MS: Final = 5 * 24 * 3600 * 1000
"""Iceberg's default, if neither the table nor the caller of the expiry sets another age."""

MAX_AGE: Final = "history.expire.max-snapshot-age-ms"
MIN_KEPT: Final = "history.expire.min-snapshots-to-keep"
MAX_REF_AGE: Final = "history.expire.max-ref-age-ms"
_UNITS: Final = ((24 * 3600 * 1000, "day"), (3600 * 1000, "hour"), (60 * 1000, "minute"), (1000, "second"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionFacts:
    """How long one branch of a table keeps snapshots, by its settings and by what is retained. None: not set."""

    source: str
    max_age_ms: int | None
    min_kept: int
    max_ref_age_ms: int | None
    committed_at_ms: tuple[int, ...]
    """The times of the retained snapshots of the lineage, newest first, as far back as the gap reaches."""
    is_cut_off: bool
    """The lineage does not reach back so far, because older snapshots have expired."""


def usual_gap_ms(history: Sequence[CommittedCapture]) -> int | None:
    """The median time between two commits of a consumer; None if there were not two.

    An entry without rows may stand for many runs that found nothing, so the time before it is left out.
    """
    gaps = [later.committed_at_ms - earlier.committed_at_ms for earlier, later in pairwise(history) if later.wrote]
    return median_high(gaps) if gaps else None


def retention_warnings(facts: RetentionFacts, *, gap_ms: int, now_ms: int) -> tuple[str, ...]:
    """Warn of every setting or habit by which snapshots expire sooner than the next run of this consumer."""
    advice = (
        f"a run after the usual time ({_span(gap_ms)}) may find that its checkpoint has expired: keep snapshots of "
        f"{facts.source} longer ({MAX_AGE}), or run more often"
    )
    return tuple(f"{reason}; {advice}" for reason in _reasons(facts, gap_ms, now_ms))


def _reasons(facts: RetentionFacts, gap_ms: int, now_ms: int) -> Iterator[str]:
    if facts.max_ref_age_ms is not None and facts.max_ref_age_ms < gap_ms:
        yield f"the branch itself may be expired after {_span(facts.max_ref_age_ms)} ({MAX_REF_AGE})"
    max_age_ms = facts.max_age_ms if facts.max_age_ms is not None or not facts.is_cut_off else DEFAULT_MAX_AGE_MS
    if max_age_ms is not None and max_age_ms < gap_ms and not _min_kept_suffices(facts, gap_ms, now_ms):
        rule = MAX_AGE if facts.max_age_ms is not None else f"{MAX_AGE} is not set, and this is Iceberg's default"
        yield f"snapshots may be expired after {_span(max_age_ms)} ({rule})"
    elif facts.is_cut_off and facts.committed_at_ms and _expected_back_to(facts) > now_ms - gap_ms:
        age = _span(now_ms - facts.committed_at_ms[-1])
        yield f"the oldest of {len(facts.committed_at_ms)} retained snapshots is {age} old, others were expired"


def _min_kept_suffices(facts: RetentionFacts, gap_ms: int, now_ms: int) -> bool:
    """Whether the number of snapshots that is kept at any age outlasts the gap, at the current pace of commits."""
    recent = sum(at_ms > now_ms - gap_ms for at_ms in facts.committed_at_ms)
    return facts.min_kept > recent + 1 and (not facts.is_cut_off or recent < len(facts.committed_at_ms))


def _expected_back_to(facts: RetentionFacts) -> int:
    """Estimate, by the current pace, when the newest of the expired snapshots was committed.

    Example: of a table that is written once a week one snapshot of yesterday is retained. The one before it was
    committed a week earlier, so a consumer that runs daily has lost nothing.
    """
    newest, oldest = facts.committed_at_ms[0], facts.committed_at_ms[-1]
    pace = (newest - oldest) // max(len(facts.committed_at_ms) - 1, 1)
    return oldest - pace


def _span(milliseconds: int) -> str:
    """A length of time in words, in the largest unit that fits."""
    for size, unit in _UNITS:
        if milliseconds >= size:
            number = milliseconds / size
            shown = f"{number:.1f}".removesuffix(".0")
            return f"{shown} {unit}" if shown == "1" else f"{shown} {unit}s"
    return f"{milliseconds} milliseconds"
