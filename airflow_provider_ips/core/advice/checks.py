"""The checks of `airflow ips doctor` on a source: what is wrong, or will be, before a run meets it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from airflow_provider_ips.core.advice.retention import RetentionFacts, retention_warnings
from airflow_provider_ips.core.advice.target_evidence import STAMP
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, TableHistory, ancestors
from airflow_provider_ips.core.identifiers import HELD_UNTIL, CapturedBranch, Source, is_icdc_table
from airflow_provider_ips.core.lineage.walk import prove_lineage
from airflow_provider_ips.core.planning.incremental_reads import read_otherwise
from airflow_provider_ips.core.planning.ranges import CAPTURE_CHANGES
from airflow_provider_ips.core.planning.verdicts import judge
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Decision
from airflow_provider_ips.core.settings import CaptureSettings

MODES: Final = {
    "ICDC": "with the right to create tables in the ICDC namespace",
    "BRANCH": "with the right to commit to the source",
    "RANGE": "with the right to read the source; the engine has to be Spark, Flink, or one with the same words",
}
"""The modes of captures, and what each needs that no one can look up."""

MAX_JUDGED: Final = 100
"""Snapshots looked at per source, newest first: each may cost a manifest list."""


class Status(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check of one subject, and what to do about it."""

    check: str
    subject: str
    status: Status
    finding: str
    remedy: str = ""

    @classmethod
    def of_error(cls, check: str, subject: str, error: IpsError) -> Self:
        """Report an error as a problem."""
        return cls(check, subject, Status.PROBLEM, error.problem, error.remedy)


def check_lineage(history: TableHistory, committed: Position, subject: str) -> Finding:
    """Whether the next capture can continue from the consumer's position."""
    try:
        prove_lineage(history, after=committed, to=history.head)
    except IpsError as error:
        return Finding.of_error("lineage", subject, error)
    return Finding("lineage", subject, Status.OK, f"the next capture continues from {committed}")


def check_retention(facts: RetentionFacts | None, subject: str, *, gap_ms: int | None, now_ms: int) -> Finding:
    """Whether the source expires snapshots before the consumer's next run."""
    if gap_ms is None or facts is None:
        unknown = "the time between two runs is not known: there is no schedule, and there are not two commits"
        return Finding("retention", subject, Status.UNKNOWN, unknown)
    warnings = retention_warnings(facts, gap_ms=gap_ms, now_ms=now_ms)
    if warnings:
        remedy = "keep snapshots longer, or run more often"
        return Finding("retention", subject, Status.WARNING, "; ".join(warnings), remedy)
    return Finding("retention", subject, Status.OK, "snapshots are kept for longer than the time between two runs")


def check_expiry(history: TableHistory, subject: str) -> Finding:
    """Whether an old engine may delete live files when it expires snapshots, with captures or without.

        1   (2)   3 ── 4     a tag has kept 1, or 2 was expired alone: Iceberg before 1.10 takes 1 for rolled back, and
                             deletes what it added, if manifests were rewritten since. 3 and 4 still list that.

    :param history: that of main
    """
    chain = list(ancestors(history, history.head))
    if not chain:
        unknown = "main has no snapshot, so it is not known which snapshots an engine takes for rolled back"
        return Finding("expiry", subject, Status.UNKNOWN, unknown)
    oldest = chain[-1]
    cut_off = [
        snapshot
        for snapshot in history.retained_snapshots()
        if snapshot.committed_at_ms < oldest.committed_at_ms and HELD_UNTIL not in snapshot.summary
    ]
    if not cut_off:
        return Finding("expiry", subject, Status.OK, "no snapshot is retained that is older than the history of main")
    writers = sorted({found for each in history.retained_snapshots() if (found := _unsafe_writer(each))})
    finding = (
        f"{len(cut_off)} retained snapshots, such as {cut_off[0]}, are older than the history of main, which ends at "
        f"{oldest}: once no tag or branch is left, Iceberg before 1.10 may take them for rolled back, and delete live "
        "files that they added"
    )
    remedy = "expire snapshots by Iceberg 1.10 or later only, or while a tag is set on the newest snapshot"
    if writers:
        return Finding("expiry", subject, Status.WARNING, f"{finding}; {', '.join(writers)} has written to it", remedy)
    finding += "; who expires snapshots is not known, and no retained one was written by such a release"
    return Finding("expiry", subject, Status.UNKNOWN, finding, remedy)


def _unsafe_writer(snapshot: SnapshotFacts) -> str | None:
    """The release of Iceberg that wrote a snapshot, if it is one before 1.10: its writers in Java say so."""
    found = re.match(r"Apache Iceberg (\d+)\.(\d+)", snapshot.summary.get("iceberg-version", ""))
    is_unsafe = found is not None and (int(found[1]), int(found[2])) < (1, 10)
    return found[0] if found is not None and is_unsafe else None


def check_operations(
    history: TableHistory, committed: Position | None, subject: str, *, captures_changes: bool, on_other_operation: str
) -> Finding:
    """Whether snapshots of the source change rows although its capture takes appends only."""
    if captures_changes:
        return Finding("operations", subject, Status.OK, "the capture takes changes too")
    chain = list(ancestors(history, history.head))[: MAX_JUDGED + 1]
    changing = _changing(history, chain)
    ahead = [s for s in changing if committed is None or s.sequence_number > committed.sequence_number]
    if not changing:
        return Finding("operations", subject, Status.OK, f"none of the newest {len(chain)} snapshots changes rows")
    what = f"{len(changing)} of the newest {len(chain)} snapshots change or remove rows, the last is {changing[0]}"
    stage = next((s for s in changing if STAMP in s.summary), None)
    if stage is not None:
        what += f"; {stage} was written by a stage before this one (capture {stage.summary[STAMP]})"
    fails = bool(ahead) and on_other_operation == "fail"
    what += "; the next capture will refuse them" if fails else "; a capture of appends leaves them out"
    return Finding("operations", subject, Status.PROBLEM if fails else Status.WARNING, what, CAPTURE_CHANGES)


def check_stages(
    source: Source,
    subject: str,
    *,
    captures_changes: bool,
    on_other_operation: str,
    writers: Mapping[Source, str] | None,
) -> Finding:
    """Whether a stage upstream changes rows of the source, also if no snapshot shows that yet.

    A merge that has only met new rows looks like an append; the first that updates a row stops a capture of appends.

    :param writers: The consumer whose stage changes rows, by table; None where stored DAGs cannot be read.
    """
    if writers is None:
        return Finding("stages", subject, Status.UNKNOWN, "a task cannot see the DAGs of the stages before this one")
    writer = writers.get(source)
    if writer is None or captures_changes or on_other_operation == "skip":
        return Finding("stages", subject, Status.OK, "no stage before it writes changes that its capture leaves out")
    finding = (
        f"it captures appends only, and {writer} before it changes rows there, because it captures changes itself or "
        "because its commit says so; the first merge that changes a row will stop it"
    )
    only_appends = 'or, if the stage before it only appends, say so by on_other_operation="skip"'
    return Finding("stages", subject, Status.PROBLEM, finding, f"{CAPTURE_CHANGES}; {only_appends}")


def check_mode(subject: str, mode: str | None, impossible: Mapping[str, str], *, is_expiring: bool) -> Finding:
    """Whether the consumer's mode of captures fits its source, and which others would.

    :param mode: that of the newest capture; None if it has made nothing
    :param impossible: why a mode is not possible for this table and catalog, by mode
    :param is_expiring: snapshots may be expired between two runs
    """
    possible = [each for each in MODES if each not in impossible]
    reasons = "; ".join(f"{each} is not possible: {why}" for each, why in impossible.items())
    finding = f"possible: {', '.join(f'{each} ({MODES[each]})' for each in possible) or 'none'}"
    finding += f"; {reasons}" if reasons else ""
    other = f"set capture_mode to {' or '.join(map(repr, possible))}" if possible else "process the table in full"
    if mode in impossible:
        return Finding("mode", subject, Status.PROBLEM, f"captures are in mode {mode}; {finding}", other)
    finding = finding if mode is None else f"captures are in mode {mode}; {finding}"
    holds = is_expiring and mode != "BRANCH" and "BRANCH" in possible
    advice = "capture_mode='BRANCH' holds the source's files until the commit" if holds else ""
    return Finding("mode", subject, Status.OK, finding, advice)


def check_readers(subject: str, namespace: str, source: str, wider: Sequence[str], *, is_all: bool) -> Finding:
    """Whether people may read captures who may not read their source.

    :param wider: who may, as far as it is known
    :param is_all: whether no one else may
    """
    if wider:
        finding = f"{', '.join(wider)} may read {namespace}, where its captures are, and not {source}"
        remedy = f"let no one read {namespace} who may not read {source}, or set capture_mode to 'BRANCH'"
        return Finding("readers", subject, Status.WARNING, finding, remedy)
    if is_all:
        return Finding("readers", subject, Status.OK, f"people who may read {namespace} may read {source}")
    finding = f"the catalog does not say whether people may read {namespace} who may not read {source}"
    remedy = "compare the grants, row filters and masks of both where they are kept"
    return Finding("readers", subject, Status.UNKNOWN, finding, remedy)


def mode_of(checkpoint: Checkpoint, source: Source) -> str | None:
    """The mode of the newest capture of this source, by what it made; None if it has made nothing."""
    name = newest_table(checkpoint, source)
    if name is None:
        return None
    return "BRANCH" if CapturedBranch.parse(name) is not None else "ICDC" if is_icdc_table(name) else "RANGE"


def newest_table(checkpoint: Checkpoint, source: Source) -> str | None:
    """The name by which the newest capture of this source is read; None if it has made nothing."""
    captures = [*checkpoint.history, *([checkpoint.pending] if checkpoint.pending else [])]
    names = [r.icdc_table for c in captures for r in c.ranges if r.source == source and r.icdc_table is not None]
    return names[-1] if names else None


def why_no_range(history: TableHistory, *, captures_changes: bool, on_other_operation: str) -> str:
    """Say why engines cannot read ranges of a source by themselves; empty if its newest snapshots show no reason."""
    if captures_changes:
        return "the capture takes changes"
    settings = CaptureSettings(on_other_operation=on_other_operation)
    chain = list(ancestors(history, history.head))[: MAX_JUDGED + 1]
    for snapshot, previous in zip(chain, [*chain[1:], None], strict=True):
        if previous is None and snapshot.parent_id is not None:
            return ""  # what it did cannot be compared with the snapshot before it
        if why := read_otherwise(history, judge(history, snapshot, previous, (), settings).verdict):
            return f"{snapshot}: {why}"
    return ""


def captures_changes(checkpoint: Checkpoint, source: Source) -> bool:
    """Whether the consumer's newest capture of this source took changes."""
    captures = [c.ranges for c in checkpoint.history if c.wrote]
    captures += [checkpoint.pending.ranges] if checkpoint.pending else []
    taken = [r for ranges in captures for r in ranges if r.source == source]
    return bool(taken) and taken[-1].before_table is not None


def _changing(history: TableHistory, chain: Sequence[SnapshotFacts]) -> list[SnapshotFacts]:
    settings = CaptureSettings()
    found = []
    for place, snapshot in enumerate(chain[:MAX_JUDGED]):
        previous = chain[place + 1] if place + 1 < len(chain) else None
        if judge(history, snapshot, previous, (), settings).verdict.decision is Decision.REFUSED:
            found.append(snapshot)
    return found
