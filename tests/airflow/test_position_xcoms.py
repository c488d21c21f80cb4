"""Which snapshots a capture names as its start and end, for jobs that read the rest of a table as of them."""

import pytest

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Kind, Volume
from airflow_provider_ips.core.results.capture_record import SourceRecord
from airflow_provider_ips.core.settings import CaptureSettings, parse_sources
from airflow_provider_ips.runs.reports import positions_of

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
