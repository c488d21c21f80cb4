"""Whether a source keeps its snapshots for as long as its consumer stays away between two runs.

A consumer can go on only while every snapshot since its checkpoint is retained. Found out by an error, it is too late:
what expired is gone. So a capture that still works says when the next one may not.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median_high
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_ips.core.checkpoint import CommittedCapture

DEFAULT_MAX_AGE_MS: Final = 5 * 24 * 3600 * 1000
"""What Iceberg's expiry takes if neither the table nor its caller says anything."""

MAX_AGE: Final = "history.expire.max-snapshot-age-ms"
MIN_KEPT: Final = "history.expire.min-snapshots-to-keep"
MAX_REF_AGE: Final = "history.expire.max-ref-age-ms"
_UNITS: Final = ((24 * 3600 * 1000, "day"), (3600 * 1000, "hour"), (60 * 1000, "minute"), (1000, "second"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionFacts:
    """What one branch of a table says, and shows, of how long it keeps snapshots. None where nothing is set."""

    source: str
    max_age_ms: int | None
    min_kept: int
    max_ref_age_ms: int | None
    committed_at_ms: tuple[int, ...]
    """When the retained snapshots of the lineage were committed, newest first, as far back as the gap reaches."""
    is_cut_off: bool
    """The lineage does not reach back so far, for older snapshots have been expired."""


def usual_gap_ms(history: Sequence[CommittedCapture]) -> int | None:
    """The usual time between two commits of a consumer; None if there were not two.

    An entry without rows may stand for many runs that found nothing, so the time before it says nothing.
    """
    gaps = [later.committed_at_ms - earlier.committed_at_ms for earlier, later in pairwise(history) if later.wrote]
    return median_high(gaps) if gaps else None


def retention_warnings(facts: RetentionFacts, *, gap_ms: int, now_ms: int) -> tuple[str, ...]:
    """Say which rule, or which practice, lets snapshots go sooner than this consumer comes back."""
    advice = (
        f"a run that comes as late as usual ({_span(gap_ms)}) may find its checkpoint gone: keep snapshots of "
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
    """A number of snapshots is kept whatever their age; enough of them outlast the gap at the pace that is seen."""
    recent = sum(at_ms > now_ms - gap_ms for at_ms in facts.committed_at_ms)
    return facts.min_kept > recent + 1 and (not facts.is_cut_off or recent < len(facts.committed_at_ms))


def _expected_back_to(facts: RetentionFacts) -> int:
    """When, at the pace that is seen, the youngest expired snapshot was committed.

    A table that is written once a week keeps one young snapshot under any rule, and loses nothing by it.
    """
    newest, oldest = facts.committed_at_ms[0], facts.committed_at_ms[-1]
    pace = (newest - oldest) // max(len(facts.committed_at_ms) - 1, 1)
    return oldest - pace


def _span(milliseconds: int) -> str:
    """As people say it, in the largest unit that fits."""
    for size, unit in _UNITS:
        if milliseconds >= size:
            number = milliseconds / size
            shown = f"{number:.1f}".removesuffix(".0")
            return f"{shown} {unit}" if shown == "1" else f"{shown} {unit}s"
    return f"{milliseconds} milliseconds"
