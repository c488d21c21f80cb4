"""The words in a capture's log, for someone who has never read this code."""

import pytest

from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import ColumnRange, Decision, Kind, SourceRecord, Verdict, Volume
from airflow_provider_ips.operators._log import size, source_lines, volume

NOON = 1_790_856_000_000


def position(snapshot_id):
    return Position(table_uuid="u", snapshot_id=snapshot_id, sequence_number=1, committed_at_ms=NOON)


def record(**changes):
    """Two files of ten, one compaction passed over."""
    facts = {
        "source": "db.events",
        "branch": "main",
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


def test_a_capture_in_plain_words():
    assert list(source_lines(record(), "lake.icdc.t")) == [
        f"db.events: captured what was added after {position(1)}, up to {position(3)}",
        "  snapshot 2 append: captured, adds files only (2 files, 1,500 rows, 2.0 KiB)",
        "  snapshot 3 replace: ignored, compaction adds no rows",
        "  2 files, 1,500 rows, 2.0 KiB of 10 files, 9,000 rows, 20.0 KiB: 18.0 KiB need not be read (90.0 %)",
        "  read it as lake.icdc.t",
    ]


def test_what_is_unknown_is_not_told_as_zero():
    unknown = Volume(files=2, records=None, size_bytes=None)

    lines = list(source_lines(record(captured=unknown, verdicts=()), "icdc.t"))

    assert lines[1] == (
        "  2 files, an unknown number of rows, an unknown number of bytes of 10 files, 9,000 rows, 20.0 KiB"
    )


def test_ranges_and_warnings_are_told():
    known = ColumnRange(column="id", lower=1, upper=9, known=True)
    unknown = ColumnRange(column="day", lower=None, upper=None, known=False, reason="1 of 2 files has none")

    lines = list(source_lines(record(ranges=(known,), partitions=(unknown,), warnings=("a resync",)), "icdc.t"))

    assert lines[-3:] == ["  id: 1 to 9", "  day: unknown (1 of 2 files has none)", "  warning: a resync"]


def test_a_first_run_begins_at_the_beginning_of_a_branch():
    first = next(iter(source_lines(record(kind=Kind.FULL, from_exclusive=None, branch="audit"), "icdc.t")))

    assert first == "db.events (branch audit): captured all live files at snapshot 3 (2026-10-01T12:00:00Z)"


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [(None, "an unknown number of bytes"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**4, "5.0 TiB")],
)
def test_sizes_are_told_as_people_read_them(size_bytes, shown):
    assert size(size_bytes) == shown


def test_one_of_a_thing_is_told_as_one():
    assert volume(Volume(files=1, records=1, size_bytes=1)) == "1 file, 1 row, 1 B"
