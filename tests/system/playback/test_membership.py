"""Memberships are appended, late ones too, once: also when a task dies between its insert and its success."""

from datetime import date, timedelta
from functools import partial

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType

from scripts.lake import midnight
from tests.system.playback.events import sorted_rows
from tests.system.playback.few_days import fail, first_task_waits

PLAIN, INCREMENTAL = "membership_plain", "membership_incremental"
SCHEMA = Schema(
    NestedField(1, "event_id", LongType()),
    NestedField(2, "event_date", DateType()),
    NestedField(3, "account_id", IntegerType()),
    NestedField(4, "action", StringType()),
    NestedField(5, "cents_per_month", LongType()),
)
BY_DAY = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="event_date"))


def gain_a_day(world):
    """Three members of the day, and one of three days ago who is told of only now."""
    day = world.next_day()
    days: list[date] = [day, day, day, day - timedelta(days=3)]
    rows = [
        {
            "event_id": world.days * 100 + n,
            "event_date": when,
            "account_id": n,
            "action": "joined",
            "cents_per_month": 799 + n,
        }
        for n, when in enumerate(days)
    ]
    world.catalog.load_table("db.membership").append(pa.Table.from_pylist(rows, schema=SCHEMA.as_arrow()))
    return midnight(day)


def expected(world):
    return sorted_rows(
        {
            **{name: row[name] for name in ("event_id", "event_date", "account_id", "action")},
            "cents_per_year": 12 * row["cents_per_month"],
        }
        for row in world.rows("db.membership")
    )


def log_of(world, dag_id):
    return sorted_rows(world.rows(f"db.{dag_id}"))


def test_an_insert_whose_task_then_failed_is_not_repeated(world):
    """The job inserts, its task fails, the run is cleared: the log holds each row once, as the lookback's log does."""
    world.catalog.create_namespace("db")
    world.catalog.create_table("db.membership", SCHEMA, partition_spec=BY_DAY)
    world.run(INCREMENTAL, gain_a_day(world))

    day = gain_a_day(world)
    died = world.attempt(INCREMENTAL, day, after={"load": fail})
    assert died.task_states["load"] == "failed"
    assert log_of(world, INCREMENTAL) == expected(world), "the test shows nothing if the insert did not get through"
    cleared, record = world.run(INCREMENTAL, day)
    assert cleared.run_id == died.run_id
    world.run(PLAIN, day)

    assert log_of(world, INCREMENTAL) == expected(world)
    assert log_of(world, PLAIN) == expected(world)
    table = world.catalog.load_table(f"db.{INCREMENTAL}")
    stamps = [stamp for snapshot in table.snapshots() if (stamp := snapshot.summary["ips-capture-id"])]
    assert len(stamps) == len(set(stamps)) == 2
    assert stamps[-1] == record["capture_id"]
    assert set(table.metadata.refs) == {"main"}


def test_the_next_day_waits_for_one_whose_commit_was_lost(world):
    """It would cover the rows again under another id. Cleared, the day finds its insert, and the next one runs."""
    day = gain_a_day(world)
    lost = world.attempt(INCREMENTAL, day, after={"commit": fail})
    assert (lost.task_states["load"], lost.task_states["commit"]) == ("success", "failed")
    waits = partial(world.ask, first_task_waits, INCREMENTAL, day + timedelta(days=1))
    assert waits()
    assert not world.ask(first_task_waits, INCREMENTAL, None), "the page says that a run without a date waits for none"

    world.run(INCREMENTAL, day)
    assert not waits()
    world.run(INCREMENTAL, gain_a_day(world))
    assert log_of(world, INCREMENTAL) == expected(world)


def test_a_full_run_that_is_asked_for_inserts_nothing_again(world):
    """Whoever triggers a DAG can ask for one by its conf, form or not; what only inserts turns a deaf ear."""
    before = log_of(world, INCREMENTAL)
    idle = world.attempt(INCREMENTAL, gain_a_day(world).replace(hour=1), conf={"ips_run": "full"})
    assert idle.state == "success"
    assert log_of(world, INCREMENTAL) == expected(world) != before
