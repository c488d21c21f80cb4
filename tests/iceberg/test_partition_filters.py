"""A partition filter captures exactly the rows that meet it, or is refused; held against the rows themselves."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings
from airflow_provider_ips.iceberg import capture
from airflow_provider_ips.iceberg.partitions.narrowing import narrow
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource, open_source
from tests.iceberg.filtered_tables import Condition, Filed, conditions, make
from tests.kit.local_tables import SCHEMA, append, head, new_catalog, new_table, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyiceberg.table import Table

    from airflow_provider_ips.core.history.files import FileFacts, ManifestFacts
    from airflow_provider_ips.core.history.selections import CapturePlan

MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}


def by(*fields: tuple[str, Any]) -> Callable[[Any], None]:
    """Add partition fields."""

    def evolve(update: Any) -> None:
        for column, transform in fields:
            update.add_field(column, transform)

    return evolve


def without(*names: str) -> Callable[[Any], None]:
    """Take partition fields away."""

    def evolve(update: Any) -> None:
        for name in names:
            update.remove_field(name)

    return evolve


IDENTITY: Any = IdentityTransform()
LAYOUTS: dict[str, tuple[tuple[Callable[[Any], None], ...], tuple[str, ...]]] = {
    "identities": ((by(("day", IDENTITY), ("name", IDENTITY)),), ("day", "name")),
    "amounts": ((by(("amount", IDENTITY), ("flag", IDENTITY), ("id", IDENTITY)),), ("amount", "flag", "id")),
    "days": ((by(("ts", DayTransform())),), ("ts",)),
    "hours": ((by(("tz", HourTransform())),), ("tz",)),
    "days_of_days": ((by(("day", DayTransform())),), ("day",)),
    "months": ((by(("ts", MonthTransform()), ("day", YearTransform())),), ("ts", "day")),
    "truncated": ((by(("id", TruncateTransform(10)), ("name", TruncateTransform(2))),), ("id", "name")),
    "decimals": ((by(("amount", TruncateTransform(100))),), ("amount",)),
    "buckets": ((by(("id", BucketTransform(4)), ("name", BucketTransform(3))),), ("id", "name")),
    "twice": ((by(("id", BucketTransform(4)), ("id", TruncateTransform(10))),), ("id",)),
    "evolved": ((by(("day", IDENTITY)), by(("name", TruncateTransform(1)))), ("day",)),
    "dropped": ((by(("day", IDENTITY)), by(("name", TruncateTransform(1))), without("day")), ("day",)),
    "voided": ((by(("day", IDENTITY)), by(("name", TruncateTransform(1))), without("day")), ("day",)),
    "at_first_whole": ((lambda _: None, by(("day", IDENTITY))), ("day",)),
}
EXACT = ("identities", "amounts", "days_of_days")
"""Layouts under which no condition on the partition columns can select a part."""

BLIND = ("dropped", "voided", "at_first_whole")
"""Layouts with files of a spec that does not know the column."""


@pytest.fixture(scope="module")
def filed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Filed]:
    """Every layout once, half of them with manifests merged so that most are mixed."""
    catalog = new_catalog(tmp_path_factory.mktemp("filters"))
    options = {name: MERGING for i, name in enumerate(LAYOUTS) if i % 2}
    options["voided"] = {"format-version": "1"}  # where a field that is taken away stays, as void
    return {
        name: make(catalog, f"db.{name}", *specs, properties=options.get(name, {}))
        for name, (specs, _) in LAYOUTS.items()
    }


@pytest.fixture(scope="module")
def opened(filed: dict[str, Filed]) -> dict[str, tuple[IcebergSource, CapturePlan]]:
    """Each table's full plan."""
    found = {}
    for name, each in filed.items():
        source = open_source(each.table.catalog, Source(f"db.{name}"))
        found[name] = source, plan_capture(source, committed=None, settings=CaptureSettings())
    return found


def selected(source: IcebergSource, plan: CapturePlan) -> set[str]:
    """The paths that a plan takes."""
    return {
        file.path
        for selection in plan.selections
        for file in source.reads_entries(selection.manifest)
        if file.is_live and (not selection.chosen or file.key in selection.chosen)
    }


def attempted(source: IcebergSource, plan: CapturePlan, condition: Condition) -> tuple[CapturePlan | None, str]:
    """A narrowed plan, or why there is none."""
    try:
        return narrow(source, plan, condition.text), ""
    except InputError as error:
        return None, str(error)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_exactly_the_rows_that_meet_it_or_a_refusal(layout: str, filed: Any, opened: Any) -> None:
    """Every file is taken whole or left out whole, and rightly so; what would cut one is refused."""
    source, plan = opened[layout]
    files = filed[layout].files
    outcomes = []

    @settings(
        max_examples=60,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(condition=conditions(*LAYOUTS[layout][1]))
    def holds(condition: Condition) -> None:
        narrowed, refusal = attempted(source, plan, condition)
        outcomes.append(narrowed is not None)
        if narrowed is None:
            assert "only part of partition" in refusal or "does not divide" in refusal
            assert layout not in EXACT, (condition.text, refusal)
            return
        met = {path: {condition.holds(row) is True for row in rows} for path, rows in files.items()}
        assert selected(source, narrowed) == {path for path, kinds in met.items() if kinds == {True}}, condition.text
        assert all(len(kinds) == 1 for kinds in met.values()), condition.text

    holds()
    assert any(outcomes) is (layout not in BLIND)


ALIGNED = [
    ("days", "ts >= '2026-10-01'"),
    ("days", "ts >= '2026-10-01' and ts < '2026-10-02'"),
    ("days", "ts between '2026-10-01T00:00:00' and '2026-10-01T23:59:59.999999'"),
    ("days", "ts >= '1970-01-01' or ts is null"),
    ("hours", "tz >= '2026-10-01T05:00:00+00:00' and not tz >= '2026-10-01T06:00:00+00:00'"),
    ("hours", "tz >= '2026-10-01T07:00:00+02:00'"),
    ("hours", "tz < '2026-10-01'"),
    ("months", "ts >= '2026-10-01' and day < '2027-01-01'"),
    ("truncated", "id >= 10 and id < 20"),
    ("truncated", "id between 10 and 19 and name like 'ab%'"),
    ("truncated", "name = 'a' or name = 'b'"),
    ("decimals", "amount >= 10.00"),
    ("buckets", "id is null and name is not null"),
    ("evolved", "day >= '2026-10-01'"),
]


@pytest.mark.parametrize(("layout", "condition"), ALIGNED)
def test_what_begins_and_ends_where_partitions_do_is_no_part(layout: str, condition: str, opened: Any) -> None:
    """Refusals must not go so far that a transform's own boundaries are refused."""
    source, plan = opened[layout]

    narrow(source, plan, condition)


CUT = [
    ("days", "ts >= '2026-10-01T05:00:00'", "only part of partition ts_day=2026-10-01"),
    ("truncated", "id > 10", "only part of partition id_trunc_10=10"),
    ("buckets", "id = 5", "only part of partition"),
    ("dropped", "day = '2026-10-01'", "which does not divide by 'day'"),
    ("at_first_whole", "day = '2026-10-01'", "which does not divide by 'day'"),
    ("days", "other = 1", "is not partitioned by it"),
    ("days", "ts = 5", "with 5"),
    ("days", "ts >= '2026-10-01T00:00:00+00:00'", "without a zone"),
    ("hours", "tz >= '2026-10-01T05:00:00'", "with its zone"),
]


@pytest.mark.parametrize(("layout", "condition", "problem"), CUT)
def test_what_cuts_a_partition_is_refused_with_the_reason(
    layout: str, condition: str, problem: str, opened: Any
) -> None:
    """Nothing is dropped in silence, and nothing comes along."""
    source, plan = opened[layout]

    with pytest.raises(InputError) as refused:
        narrow(source, plan, condition)

    assert problem in str(refused.value)


@pytest.mark.parametrize("layout", ["identities", "days"])
def test_manifests_of_selected_partitions_alone_are_taken_as_they_are(layout: str, opened: Any) -> None:
    """They are copied byte for byte, as without a filter."""
    source, plan = opened[layout]
    column = LAYOUTS[layout][1][0]

    narrowed = narrow(source, plan, f"{column} is not null or {column} is null")

    assert narrowed.selections == plan.selections


@pytest.mark.parametrize(
    ("condition", "is_met"), [("= 7", False), ("in (7, 8)", False), ("!= 7", True), ("not in (7, 8)", True)]
)
def test_a_bucket_without_files_is_distinguished_from_those_with_files(
    condition: str, *, is_met: bool, tmp_path: Path
) -> None:
    """A value is in its bucket and in no other."""
    few = make(new_catalog(tmp_path), "db.few", by(("id", BucketTransform(1000))), properties={})
    source = open_source(few.table.catalog, Source("db.few"))
    plan = plan_capture(source, committed=None, settings=CaptureSettings())

    found = selected(source, narrow(source, plan, f"id {condition}"))

    assert found == {path for path, rows_ in few.files.items() if is_met and rows_[0]["id"] is not None}


class Counting(IcebergSource):
    """Knows how many manifests were read."""

    reads = 0

    def reads_entries(self, manifest: ManifestFacts) -> Iterator[FileFacts]:
        """One read."""
        self.reads += 1
        return super().reads_entries(manifest)


@pytest.fixture
def three_days(tmp_path: Path) -> Table:
    """One manifest a day."""
    table = new_table(new_catalog(tmp_path))
    with table.update_spec() as update:
        update.add_identity("day")
    for day in (1, 2, 3):
        append(table, day, day=date(2026, 10, day))
    return table


def test_manifest_lists_decide_where_they_can(three_days: Table) -> None:
    """No manifest is read that holds selected partitions alone, or none."""
    source = Counting(three_days.refresh(), "db.t", "main")
    plan = plan_capture(source, committed=None, settings=CaptureSettings())

    narrowed = narrow(source, plan, "day >= '2026-10-02'")

    assert len(narrowed.selections) == 2
    assert source.reads == 0


def test_without_airflow(three_days: Table) -> None:
    """The same filter, and the same dry run, for scripts."""
    catalog = three_days.catalog
    first = capture(catalog, "db.t", into="icdc.dry", partitions="day = '2026-10-02'", dry_run=True)
    there = [catalog.table_exists("icdc.dry")] if catalog.namespace_exists("icdc") else []
    record = capture(catalog, "db.t", into="icdc.wet", partitions="day = '2026-10-02'")

    assert there == []
    assert (first.captured.files, first.captured.records) == (1, 1) == (record.captured.files, record.captured.records)
    assert rows(catalog, "icdc.wet") == [2]
    with pytest.raises(InputError, match="selects none of the partitions"):
        capture(catalog, "db.t", into="icdc.none", partitions="day > '2027-01-01'")


def test_changes_are_narrowed_on_both_sides(three_days: Table) -> None:
    """What was changed in other partitions stays out, and so does where it came from."""
    days = [date(2026, 10, 1), date(2026, 10, 2)]
    three_days.append(pa.table({"id": [100, 200], "day": days, "note": ["", ""]}, schema=SCHEMA))
    since = head(three_days)
    three_days.overwrite(
        pa.table({"id": [20, 30], "day": [date(2026, 10, 2), date(2026, 10, 3)], "note": ["", ""]}, schema=SCHEMA),
        overwrite_filter="day >= '2026-10-02'",
    )
    record = capture(
        three_days.catalog,
        "db.t",
        since=since,
        into="icdc.changes",
        data_operations=ALL_OPERATIONS,
        on_superset="allow",
        partitions="day <= '2026-10-02'",
    )

    assert rows(three_days.catalog, "icdc.changes") == [20]
    assert rows(three_days.catalog, "icdc.changes_before") == [2, 200]
    assert record.captured.size_bytes is not None


def test_a_range_of_complete_files_takes_no_filter(three_days: Table) -> None:
    """Its job deletes all captured keys; a row that moved to an unselected day would not be inserted again."""
    since = head(three_days)
    moved = pa.table({"id": [2], "day": [date(2026, 10, 3)], "note": [""]}, schema=SCHEMA)
    three_days.overwrite(moved, overwrite_filter="id = 2")
    with pytest.raises(InputError, match="on_superset='complete'"):
        capture(
            three_days.catalog,
            "db.t",
            since=since,
            into="icdc.moved",
            data_operations=ALL_OPERATIONS,
            on_superset="complete",
            partitions="day = '2026-10-02'",
        )


def test_of_a_merged_manifest_only_what_changed_is_narrowed(tmp_path: Path) -> None:
    """Beside the file that was rewritten there is one of the same partition, which no change touched."""
    table = new_table(new_catalog(tmp_path), properties=MERGING)
    with table.update_spec() as update:
        update.add_identity("day")
    for number, day in ((200, 2), (201, 2), (100, 1)):
        append(table, number, day=date(2026, 10, day))
    since = head(table)
    new = pa.table({"id": [300], "day": [date(2026, 10, 2)], "note": [""]}, schema=SCHEMA)
    table.overwrite(new, overwrite_filter="id = 200")

    capture(
        table.catalog,
        "db.t",
        since=since,
        into="icdc.merged",
        data_operations=ALL_OPERATIONS,
        partitions="day = '2026-10-02'",
    )

    assert rows(table.catalog, "icdc.merged") == [300]
    assert rows(table.catalog, "icdc.merged_before") == [200]
