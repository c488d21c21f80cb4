"""Which snapshots a capture names as its start and end, for jobs that read the rest of a table as of them."""

from datetime import date
from pathlib import Path

import pytest

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Kind, Volume
from airflow_provider_ips.core.results.capture_record import SourceRecord
from airflow_provider_ips.core.settings import CaptureSettings, parse_sources
from airflow_provider_ips.iceberg import capture
from airflow_provider_ips.runs.reports import positions_of
from tests.kit.tables import append, create, rows

ROOT = Path(__file__).parents[2]

NOTHING = Volume(files=0, records=0, size_bytes=0)


def position(snapshot_id):
    return Position(table_uuid="u", snapshot_id=snapshot_id, sequence_number=1, committed_at_ms=1)


def pushed(kind, start, end):
    """What is pushed of a capture between two snapshots. None is that of a table without any."""
    record = SourceRecord(
        source=Source("db.t"),
        key="t",
        kind=kind,
        icdc_table=None,
        from_exclusive=None if start == "no position" else position(start),
        to_inclusive=position(end),
        captured=NOTHING,
        table=NOTHING,
    )
    found = dict(positions_of(record))
    return found["t.from"], found["t.to"]


@pytest.mark.parametrize(
    ("kind", "start", "end", "told"),
    [
        (Kind.RANGE, 7, 2**62 + 1, ("7", str(2**62 + 1))),
        (Kind.RANGE, None, 8, ("", "8")),
        (Kind.FULL, "no position", 8, ("", "8")),
        (Kind.FULL, 7, 8, ("", "8")),
        (Kind.FULL, "no position", None, ("", "")),
        (Kind.EMPTY, 7, 8, ("7", "8")),
        (Kind.EMPTY, "no position", 8, ("8", "8")),
        (Kind.RESYNC, 7, 8, ("7", "8")),
    ],
)
def test_the_rows_as_of_the_start_are_those_that_were_not_captured(kind, start, end, told):
    """All that is live leaves nothing before it; a first run from `latest` captures nothing and leaves everything."""
    assert pushed(kind, start, end) == told


def test_a_key_that_is_a_position_of_another_source_is_refused():
    """One value would overwrite the other, and a job would join a table with itself."""
    with pytest.raises(InputError, match=r"'db\.t\.from' is there twice"):
        parse_sources(["db.t", "db.t.from"], CaptureSettings())


@pytest.mark.parametrize("on_other_operation", ["fail", "skip_retention", "skip"])
def test_where_the_start_and_the_captured_rows_are_not_the_end_the_page_says_so(lake, on_other_operation):
    """A job that joins two tables reads one as of its start: rows that were removed since are still there."""
    table = create(lake, "db.log")
    with table.update_spec() as spec:
        spec.add_identity("day")
    append(table, [1], day=date(2026, 9, 1))
    append(table, [2], day=date(2026, 10, 1))
    start = table.refresh().current_snapshot().snapshot_id
    append(table, [3], day=date(2026, 10, 2))
    if on_other_operation != "fail":
        table.delete("day = '2026-09-01'")
    if on_other_operation == "skip":
        append(table, [4], day=date(2026, 10, 3))
        table.delete("day = '2026-10-03'")

    record = capture(lake, "db.log", since=start, into="icdc.log", on_other_operation=on_other_operation)

    def as_of(snapshot_id):
        return set(table.refresh().scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist())

    begun, captured, ended = as_of(start), set(rows(lake, "icdc.log")), as_of(record.to_inclusive.snapshot_id)
    lines = " ".join((ROOT / "docs/reference/xcoms.md").read_text().split())
    exceptions = lines.partition("The sum does not always add up:")[2].partition("##")[0]
    assert (begun | captured == ended) == (f'"{on_other_operation}"' not in exceptions)
    assert (captured <= ended) == (
        f'with `on_other_operation="{on_other_operation}"` some that `to` no longer' not in lines
    )
    assert (begun <= ended) == (f'"{on_other_operation}"' not in exceptions.partition("; and with")[2])
