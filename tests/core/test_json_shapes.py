"""The JSON of documents and records, byte for byte: stored checkpoints and other programs depend on it."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ips.core.backfill.chunks import Chunk
from airflow_provider_ips.core.backfill.claims import Claim, Extent
from airflow_provider_ips.core.backfill.column_values import ALL_VALUES, ChunkValues, Span
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import (
    CommittedCapture,
    Intervention,
    PendingCapture,
    SourcePosition,
    SourceRange,
)
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import HeadEvidence, Position, RunIdentity
from airflow_provider_ips.core.record import ColumnRange, Decision, Kind, Verdict, Volume
from airflow_provider_ips.core.requests.request import RunKind, RunRequest
from airflow_provider_ips.core.results.capture_record import (
    CaptureContext,
    CaptureRecord,
    ChunkReference,
    FirstRun,
    SourceRecord,
    TargetHead,
)
from airflow_provider_ips.core.watching.backlog import Backlog
from airflow_provider_ips.core.watching.monitor import PollResult, Reported, ReportedSources, SourceResult
from airflow_provider_ips.core.watching.thresholds import Readiness
from airflow_provider_ips.runs.backfill.plan import Stage

SHAPES = json.loads(Path(__file__).with_suffix(".json").read_text())

RUN = RunIdentity(dag_id="daily", run_id="manual__1", map_index=-1, run_after="")
NEVER_COMMITTED = Position(table_uuid="u", snapshot_id=None, sequence_number=0, committed_at_ms=0)
HEAD = Position(
    table_uuid="u",
    snapshot_id=2**60,
    sequence_number=4,
    committed_at_ms=1_790_856_000_000,
    evidence=HeadEvidence(live_manifests="abc", writer=2**61, writer_number=3, has_deletes=True),
)
ROOTLESS = Position(
    table_uuid="u",
    snapshot_id=5,
    sequence_number=4,
    committed_at_ms=7,
    evidence=HeadEvidence(live_manifests="abc", writer=None, writer_number=0, has_deletes=False),
)
MAIN, AUDIT = Source("db.t"), Source("db.t", "audit")
VOLUME, UNKNOWN = (
    Volume(files=1, records=2, size_bytes=3),
    Volume(files=None, records=None, size_bytes=None),
)
FIRST = SourceRange(source=MAIN, kind=Kind.FULL, from_exclusive=None, to_inclusive=HEAD, icdc_table=None)
LATER = SourceRange(
    source=AUDIT,
    kind=Kind.RANGE,
    from_exclusive=NEVER_COMMITTED,
    to_inclusive=ROOTLESS,
    icdc_table="icdc.t",
    before_table="icdc.t_before",
    attempted=HEAD,
    selection="db.t@audit {}",
)
FILLED = Checkpoint(
    consumer="daily.capture",
    revision=7,
    positions=(SourcePosition(source=MAIN, position=HEAD), SourcePosition(source=AUDIT, position=NEVER_COMMITTED)),
    pending=PendingCapture(capture_id="c2", run=RUN, started_at_ms=2, ranges=(FIRST, LATER), supersedes=("c1",)),
    history=(
        CommittedCapture(capture_id="seed", run=None, committed_at_ms=1, ranges=(), released=("icdc.old",)),
        CommittedCapture(capture_id="c0", run=RUN, committed_at_ms=1, ranges=(LATER,), supersedes=("b",)),
    ),
    retained=("icdc.older",),
    interventions=(Intervention(at_ms=3, who="ada", verb="rewind", revision=6),),
    moved_to="iceberg",
    extra={"owner": {"team": "data"}},
)
VALUES = ChunkValues(
    column="price", field_id=None, spans=(ALL_VALUES, Span(Decimal("1.10"), Decimal(2), excludes_high=True)), nulls=True
)
CHUNK = Chunk(
    number=2,
    of=3,
    label="",
    source=AUDIT,
    request=RunRequest(kind=RunKind.PARTITIONS, partitions="day > 1", everything=True),
    values=VALUES,
    partitions=2,
    as_of_snapshot="12",
    volume=VOLUME,
    claims=("k",),
)
PLAIN_CHUNK = Chunk(number=1, of=1, label="x", source=MAIN, request=RunRequest(), volume=UNKNOWN)
BY_VALUE = Extent(source=AUDIT, column="day", spans=((1, 2), ("a", "b")))
OF_SEVERAL = Extent(source=None, column=None, spans=None)


def claim(extent: Extent, description: str) -> Claim:
    return Claim(
        target="db.out@main",
        run=RUN,
        task_id="plan",
        description=description,
        request_digest="abc",
        extent=extent,
        as_of_snapshot=None,
        claimed_at_ms=5,
    )


CHANGES = SourceRecord(
    source=AUDIT,
    key="t",
    kind=Kind.RANGE,
    icdc_table="icdc.t",
    before_table="icdc.t_before",
    from_exclusive=ROOTLESS,
    to_inclusive=HEAD,
    captured=VOLUME,
    table=Volume(files=9, records=90, size_bytes=900),
    before=UNKNOWN,
    superset=True,
    predicate="_last_updated_sequence_number > 3",
    no_predicate="no",
    verdicts=tuple(
        Verdict(snapshot_id=n, operation="append", decision=Decision.CAPTURED, reason="", files=None, size_bytes=n)
        for n in range(1, 60)
    ),
    ranges=(
        ColumnRange(column="id", lower=1, upper=9.5, known=True, has_nulls=True),
        ColumnRange(column="s", lower=None, upper=None, known=False, reason="1 file has none"),
    ),
    partitions=(ColumnRange(column="day", lower="a", upper="b", known=True),),
    warnings=("late",),
)
NOTHING = SourceRecord(
    source=MAIN,
    key="t",
    kind=Kind.EMPTY,
    icdc_table=None,
    from_exclusive=None,
    to_inclusive=NEVER_COMMITTED,
    captured=Volume(files=0, records=0, size_bytes=0),
    table=UNKNOWN,
)


def record(context: CaptureContext, *sources: SourceRecord) -> CaptureRecord:
    return CaptureRecord(capture_id="c", consumer="daily.capture", mode="ICDC", sources=sources, context=context)


BACKLOG = Backlog(
    source=AUDIT,
    from_exclusive=None,
    head=HEAD,
    snapshots=2,
    volume=UNKNOWN,
    oldest_at_ms=1_790_856_000_000,
    newest_snapshot_id=2**60,
)
READY = Readiness(ready=True, reason="2 files")
FOUND = PollResult(
    ready=True,
    sources=(
        SourceResult(source=AUDIT, readiness=READY, backlog=BACKLOG),
        SourceResult(source=MAIN, readiness=READY),
    ),
)
WATERMARK = ReportedSources({AUDIT: Reported(start=None, head=HEAD), MAIN: Reported(start=HEAD, head=ROOTLESS)})

WRITTEN: dict[str, Any] = {
    "checkpoint": FILLED,
    "new checkpoint": Checkpoint(consumer="c", revision=0),
    "chunk": CHUNK,
    "chunk of a range": PLAIN_CHUNK,
    "claim": claim(BY_VALUE, "some partitions"),
    "claim of several sources": claim(OF_SEVERAL, ""),
    "record": record(
        CaptureContext(
            run=RUN,
            iceberg_conn_id="lake",
            engine_catalog="lake",
            request=RunRequest(kind=RunKind.FULL, dry_run=True),
            chunk=ChunkReference(number=2, of=3, label=""),
            first_runs=(FirstRun(source="db.t", initial="full"),),
            target_heads=(
                TargetHead(table="db.out", snapshot_id=2**60),
                TargetHead(table="db.new", snapshot_id=None),
            ),
            replayed=True,
            settled=True,
        ),
        CHANGES,
        NOTHING,
    ),
    "usual record": record(CaptureContext(run=RUN, iceberg_conn_id="lake"), NOTHING),
    "poll": FOUND,
    "watermark": WATERMARK,
    "stage": Stage(table="db.out"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_stays_to_the_letter(name):
    """The order of its keys, too, except in a checkpoint, whose text has them sorted."""
    is_sorted = isinstance(WRITTEN[name], Checkpoint)

    assert json.dumps(WRITTEN[name].to_json(), sort_keys=is_sorted) == json.dumps(SHAPES[name], sort_keys=is_sorted)


@pytest.mark.parametrize("name", [name for name in WRITTEN if name not in ("poll", "stage")])
def test_what_was_written_is_read(name):
    """Reading and writing again changes nothing."""
    assert type(WRITTEN[name]).from_json(SHAPES[name]).to_json() == SHAPES[name]
