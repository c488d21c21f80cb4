"""What an estimate says of a table, held against what captures and lookbacks of it really read."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, MonthTransform, YearTransform
from pyiceberg.types import TimestampType

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.iceberg import capture, estimate
from airflow_provider_ips.iceberg.partitions.file_days import NO_DAY, days_of_partition
from tests.kit.local_tables import new_catalog
from tests.kit.moves import commit_nothing, compact, expire
from tests.kit.tables import SCHEMA, append, create

FIRST = date(2026, 10, 1)
DAY = timedelta(days=1)
EVENTS = pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.timestamp("us", tz="UTC"))])


@pytest.fixture
def lake(tmp_path):
    return new_catalog(tmp_path)


def noon(day):
    return int(datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp() * 1000)


def aged(table, days):
    """Register the table again, with its snapshots committed at noon of these days."""
    table.refresh()
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    times = {s["snapshot-id"]: noon(day) for s, day in zip(metadata["snapshots"], days, strict=True)}
    for entry in (*metadata["snapshots"], *metadata["snapshot-log"]):
        entry["timestamp-ms"] = times[entry["snapshot-id"]]
    metadata |= {"last-updated-ms": max(times.values()), "metadata-log": []}
    path = Path(table.metadata_location.removeprefix("file://")).with_name("99999-aged.metadata.json")
    path.write_text(json.dumps(metadata))
    name = table.name()
    table.catalog.drop_table(name)
    return table.catalog.register_table(name, f"file://{path}")


def partitioned(lake):
    """An empty table that is partitioned by its day."""
    table = create(lake, "db.t")
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform(), "day")
    return table


def by_day(lake, *, is_partitioned=True):
    """Of dates, with rows of today, of yesterday and once of three weeks ago, and files of several days."""
    table = partitioned(lake) if is_partitioned else create(lake, "db.t")
    days = [FIRST + n * DAY for n in range(6)]
    for number, day in enumerate(days):
        append(table, list(range(1000)), day=day)
        if number:
            rows = pa.table({"id": range(200), "day": [day - DAY] * 100 + [day] * 100}, schema=SCHEMA)
            table.append(rows)
    append(table, [1, 2, 3], day=FIRST - 21 * DAY)
    return aged(table, [days[0], *(day for day in days[1:] for _ in range(2)), days[-1]])


def by_bounds(lake):
    """Of moments and without partitions, compacted once, with an empty commit."""
    table = lake.create_table("db.t", schema=EVENTS)
    days = []
    for number in range(6):
        day = datetime(2026, 10, 1, tzinfo=UTC) + number * DAY
        table.append(
            pa.table({"id": range(500), "at": [day + timedelta(minutes=n) for n in range(500)]}, schema=EVENTS)
        )
        days.append(day.date())
        if number == 3:
            compact(table)
            table.refresh()
            table.append(pa.table({"id": [], "at": []}, schema=EVENTS))
            days += [days[-1]] * 2
    return aged(table, days)


def rewritten(lake):
    """By day, with deletes of single rows, which rewrite files, and of a whole day."""
    table = partitioned(lake)
    days = []
    for number in range(5):
        day = FIRST + number * DAY
        append(table, list(range(100 * number, 100 * number + 100)), day=day)
        days.append(day)
        if number in (2, 4):
            table.refresh()
            table.delete(f"id == {100 * number - 50}")
            days.append(day)
    return aged(table, days)


def heads(table):
    """The last snapshot of each day, by day."""
    return {datetime.fromtimestamp(s.timestamp_ms / 1000, tz=UTC).date(): s.snapshot_id for s in table.snapshots()}


def files_of(scan):
    files = [task.file for task in scan.plan_files()]
    return len(files), sum(f.record_count for f in files), sum(f.file_size_in_bytes for f in files)


def of_table(lake, name):
    return files_of(lake.load_table(name).scan()) if name else (0, 0, 0)


def between(rows):
    return rows.least, rows.most


def figures(volume):
    return volume.files, volume.records, volume.size_bytes


@pytest.mark.parametrize("make", [by_day, by_bounds, rewritten])
def test_an_estimate_is_what_captures_and_lookbacks_then_read(lake, make):
    """Each day is captured for once, and each lookback is planned by PyIceberg; 10 % may be missed, and 0 % are."""
    table = make(lake)
    column = "at" if make is by_bounds else "day"
    end = max(heads(table))
    found = estimate(lake, "db.t", column=column, lookback="3d", runs="10d", now_ms=noon(end) + 1)

    assert len(found.days) == len(heads(table))
    settings = {name: getattr(found.settings, name) for name in ("data_operations", "on_superset", "equality_deletes")}
    before = None
    for day, (on, head) in zip(found.days, heads(table).items(), strict=True):
        assert day.day == on.isoformat()
        since = (on - 2 * DAY).isoformat()
        value = since if column == "day" else f"{since}T00:00:00+00:00"
        selected = files_of(table.scan(row_filter=f"{column} >= '{value}'", snapshot_id=head))
        assert figures(day.lookback) == pytest.approx(selected, rel=0.1)
        if before is not None:
            made = capture(lake, "db.t", into=f"icdc.{on:d%d}", since=before, until=head, **settings)
            tables = [of_table(lake, name) for name in (made.icdc_table, made.before_table)]
            assert figures(day.capture) == pytest.approx([sum(each) for each in zip(*tables, strict=True)], rel=0.1)
        before = head


def test_late_rows_and_rows_that_a_lookback_never_reads_are_counted(lake):
    """Of each run's rows, those of earlier days, and those before the window."""
    table = by_day(lake)
    found = estimate(lake, "db.t", lookback="14d", now_ms=noon(max(heads(table))) + DAY // timedelta(milliseconds=1))

    by = {day.day: day for day in found.days}
    assert [(between(by[d].late)[0], between(by[d].missed)[0]) for d in ("2026-10-01", "2026-10-02", "2026-10-06")] == [
        (0, 0),
        (100, 0),
        (103, 3),
    ]
    assert (between(found.totals.late), between(found.totals.missed)) == ((503, 503), (3, 3))
    assert found.settings.data_operations == ("append",)
    assert "late" in found.pattern
    assert found.operations == {"append": 12}


def test_files_that_may_hold_rows_of_several_days_give_a_range(lake):
    """Bounds say no more."""
    table = by_day(lake, is_partitioned=False)
    found = estimate(lake, "db.t", column="day", lookback="1d", now_ms=noon(max(heads(table))) + 1)

    assert found.column_known_by == "bounds"
    assert between(found.days[1].late) == (0, 200)
    assert between(found.days[-1].missed) == (3, 203)


@pytest.mark.parametrize(
    ("transform", "value", "days"),
    [
        (HourTransform(), 24 * 20_000 + 5, (20_000, 20_000)),
        (DayTransform(), 20_000, (20_000, 20_000)),
        (MonthTransform(), 1, (31, 58)),
        (YearTransform(), 2, (730, 1095)),
        (IdentityTransform(), 86_400_000_000 * 7 + 1, (7, 7)),
        (IdentityTransform(), -1, (-1, -1)),
        (DayTransform(), None, NO_DAY),
    ],
    ids=str,
)
def test_a_partition_says_which_days_it_has(transform, value, days):
    """Of every transform of time, with February 1970 and the leap year 1972."""
    partition_field = PartitionField(source_id=1, field_id=1000, transform=transform, name="p")
    assert days_of_partition(partition_field, TimestampType(), value) == days


def test_a_change_brings_the_mode_that_takes_it(lake):
    """And late rows are not guessed there."""
    found = estimate(lake, "db.t", lookback="3d", now_ms=noon(max(heads(rewritten(lake)))) + 1)

    assert found.settings.captures_changes
    assert 'data_operations=["append", "overwrite", "delete"], on_superset="allow"' in found.code
    assert found.totals.late is None
    assert "rewritten files" in found.days[2].note


def test_what_expired_is_unknown_and_not_zero(lake):
    """Neither figure of a day before the oldest retained snapshot is known."""
    table = by_day(lake)
    last = noon(max(heads(table)))
    expire(table)
    found = estimate(lake, "db.t", lookback="3d", now_ms=last + 1)

    assert [day.lookback is None for day in found.days] == [True] * 29 + [False]
    assert found.days[-1].capture is None
    assert "expired" in found.days[-1].note
    assert found.totals.saving is None
    assert "unknown" in found.verdict
    assert found.to_json()["days"][0]["lookback"] is None
    assert any("expired" in note for note in found.notes)


def test_files_without_bounds_are_said_to_be_read(lake):
    """An engine cannot leave them out."""
    table = create(lake, "db.t", properties={"write.metadata.metrics.default": "none"})
    append(table, [1, 2], day=FIRST)
    commit_nothing(table)
    found = estimate(lake, "db.t", column="day", lookback="1d", runs="2d")

    assert figures(found.days[-1].lookback)[:2] == (1, 2)
    assert between(found.days[-1].late) == (0, 2)
    assert any("1 files have no bounds of day" in note for note in found.notes)


def test_rows_without_a_date_are_said_to_be_missed(lake):
    """No condition on the column selects them."""
    table = partitioned(lake)
    append(table, [1, 2, 3], day=None)
    found = estimate(lake, "db.t", runs="2d")

    assert figures(found.days[-1].lookback) == (0, 0, 0)
    assert between(found.days[-1].missed) == (3, 3)
    assert any("3 rows have no day" in note for note in found.notes)


@pytest.mark.parametrize(("kind", "first"), [(pa.int32(), 20261001), (pa.string(), "2026-10-01")])
def test_dates_may_be_numbers_or_texts(lake, kind, first):
    """As many older tables have them."""
    table = lake.create_table("db.t", schema=pa.schema([pa.field("dateint", kind)]))
    table.append(pa.table({"dateint": pa.array([first], kind)}))
    found = estimate(lake, "db.t", column="dateint")

    assert between(found.days[-1].missed) == (1, 1)
    assert found.column_known_by == "bounds"


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"column": "id", "lookback": "x"}, "lookback='x'"),
        ({"column": "day", "lookback": "0d"}, "lookback='0d'"),
        ({"column": "day", "runs": "36h"}, "runs='36h'"),
        ({"column": "nowhere"}, "'nowhere' is not a column"),
        ({}, "not partitioned by time"),
    ],
    ids=str,
)
def test_what_cannot_be_estimated_is_refused(lake, parameters, named):
    create(lake, "db.t")
    with pytest.raises(InputError, match=named):
        estimate(lake, "db.t", **parameters)


def test_a_table_without_snapshots_has_no_days(lake):
    """And no saving is claimed."""
    create(lake, "db.t")
    found = estimate(lake, "db.t", column="day")

    assert found.days == ()
    assert "unknown" in found.verdict
