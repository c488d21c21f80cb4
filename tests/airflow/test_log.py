"""The words in the log of a capture and of a commit, for someone who has never read this code."""

import pytest

from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import ColumnRange, Decision, Kind, Verdict, Volume
from airflow_provider_ips.core.requests.request import RunKind, RunRequest
from airflow_provider_ips.core.results.capture_record import CaptureContext, CaptureRecord, SourceRecord
from airflow_provider_ips.runs.capture import skip_lines
from airflow_provider_ips.runs.commit import CommitReport
from airflow_provider_ips.runs.reports import commit_lines, next_line, size, source_lines, volume

NOON = 1_790_856_000_000


def position(snapshot_id):
    return Position(table_uuid="u", snapshot_id=snapshot_id, sequence_number=1, committed_at_ms=NOON)


def record(**changes):
    """Two files of ten, one compaction passed over."""
    facts = {
        "source": Source("db.events"),
        "key": "db.events",
        "kind": Kind.RANGE,
        "icdc_table": "icdc.t",
        "from_exclusive": position(1),
        "to_inclusive": position(3),
        "captured": Volume(files=2, records=1500, size_bytes=2048),
        "table": Volume(files=10, records=9000, size_bytes=20480),
        "verdicts": (
            Verdict(
                snapshot_id=2,
                operation="append",
                decision=Decision.CAPTURED,
                reason="adds files only",
                files=2,
                records=1500,
                size_bytes=2048,
            ),
            Verdict(snapshot_id=3, operation="replace", decision=Decision.IGNORED, reason="compaction adds no rows"),
        ),
    }
    return SourceRecord(**{**facts, **changes})


def capture_of(*sources, **context):
    run = RunIdentity(dag_id="dag", run_id="r", map_index=-1, run_after="2026-10-01T00:00:00+00:00")
    ran = CaptureContext(run=run, iceberg_conn_id="lake", **context)
    return CaptureRecord(capture_id="8c72", consumer="dag.capture", mode="ICDC", sources=sources, context=ran)


def test_captures_that_are_skipped_with_what_is_behind_are_named():
    """They might have rows left from a run that failed, and would not even look."""
    assert list(skip_lines([])) == ["Skipping downstream tasks."]
    assert list(skip_lines(["stage_2", "stage_3"])) == [
        "Skipping downstream tasks.",
        "Captures among them may have rows to process, of runs that failed: stage_2, stage_3.",
        "To let them look: ignore_downstream_trigger_rules=False here, trigger_rule='none_failed' there.",
    ]


def test_a_capture_at_a_glance():
    """One fact a line, amounts below each other, and the snapshots folded away."""
    assert list(source_lines(record(), "lake.icdc.t")) == [
        "db.events: captured what was added",
        f"  after      {position(1)}",
        f"  up to      {position(3)}",
        "  captured    2 files  1,500 rows   2.0 KiB",
        "  of         10 files  9,000 rows  20.0 KiB",
        "  not read   18.0 KiB (90.0 %)",
        "  read it as lake.icdc.t",
        "::group::Snapshots of db.events: 1 captured, 1 ignored",
        "2 append: captured, adds files only (2 files, 1,500 rows, 2.0 KiB)",
        "3 replace: ignored, compaction adds no rows",
        "::endgroup::",
    ]


def test_what_is_unknown_is_not_told_as_zero():
    unknown = Volume(files=2, records=None, size_bytes=None)

    lines = list(source_lines(record(captured=unknown, verdicts=()), "icdc.t"))

    assert lines[3] == "  captured    2 files  an unknown number of rows  an unknown number of bytes"
    assert not any("not read" in line for line in lines)


def test_ranges_and_warnings_are_told():
    known = ColumnRange(column="id", lower=1, upper=9, known=True)
    unknown = ColumnRange(column="day", lower=None, upper=None, known=False, reason="1 of 2 files has none")
    facts = {"ranges": (known,), "partitions": (unknown,), "warnings": ("a resync",), "verdicts": ()}

    lines = list(source_lines(record(**facts), "icdc.t"))

    assert lines[-3:] == [
        "  id         1 to 9",
        "  day        unknown (1 of 2 files has none)",
        "  warning    a resync",
    ]


def test_a_first_run_begins_at_the_beginning_of_a_branch():
    lines = list(
        source_lines(record(kind=Kind.FULL, from_exclusive=None, source=Source("db.events", "audit")), "icdc.t")
    )

    assert lines[:2] == [
        "db.events@audit: captured all live files",
        "  up to      snapshot 3 (2026-10-01T12:00:00Z)",
    ]


def test_a_table_that_gained_nothing_is_told_in_three_lines():
    empty = record(kind=Kind.EMPTY, icdc_table=None, verdicts=())

    assert list(source_lines(empty, None)) == [
        "db.events: gained nothing",
        f"  after      {position(1)}",
        f"  up to      {position(3)}",
    ]


@pytest.mark.parametrize(
    ("told", "facts"),
    [
        ("then the commit moves the checkpoint", {}),
        ("will not move on its own", {"is_committed": False}),
        ("the checkpoint stays where it is", {"detached": True}),
        ("the checkpoint stays where it is", {"replayed": True}),
        ("The next run looks again", {"icdc_table": None}),
        ("without the dry run", {"is_dry": True, "detached": True, "icdc_table": None}),
    ],
)
def test_a_capture_says_what_happens_next(told, facts):
    captured = capture_of(
        record(icdc_table=facts.get("icdc_table", "icdc.t")),
        replayed=facts.get("replayed", False),
        request=RunRequest(
            kind=RunKind.FULL if facts.get("detached") else RunKind.USUAL, dry_run=facts.get("is_dry", False)
        ),
    )

    line = next_line(captured, is_committed=facts.get("is_committed", True))

    assert line.startswith("Next: ")
    assert told in line


def test_a_commit_at_a_glance():
    captured = capture_of(record(), record(source=Source("db.events", "audit")))
    report = CommitReport(record=captured, outcome="advanced", dropped=["icdc.old"])

    assert list(commit_lines(report)) == [
        "The checkpoint moved to the end of the captured range.",
        "  consumer   dag.capture",
        "  capture    8c72",
        f"  up to      {position(3)} of db.events",
        f"  up to      {position(3)} of db.events@audit",
        "  dropped    icdc.old",
        "Next: nothing to do. The next run captures what comes after it.",
    ]


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [(None, "an unknown number of bytes"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**4, "5.0 TiB")],
)
def test_sizes_are_told_as_people_read_them(size_bytes, shown):
    assert size(size_bytes) == shown


def test_one_of_a_thing_is_told_as_one():
    assert volume(Volume(files=1, records=1, size_bytes=1)) == "1 file, 1 row, 1 B"
