"""PyIceberg and PyArrow in place of Spark: captured days are aggregated anew, and the target tells by which capture."""

from collections import defaultdict

from tests.system.playback.events import make_source
from tests.system.playback.few_days import fail, gain_a_day, span

PLAIN, INCREMENTAL = "without_spark_plain", "without_spark_incremental"
RENAMED = "renamed_by_mistake"


def assert_recomputed(world, dag_id):
    """The target is what one aggregation of the whole source makes."""
    groups = defaultdict(list)
    for e in world.rows("db.playback"):
        groups[e["event_date"], e["title_id"]].append(e["watched_seconds"])
    expected = [(day, title, len(group), sum(group)) for (day, title), group in groups.items()]
    found = [(r["event_date"], r["title_id"], r["events"], r["watched_seconds"]) for r in world.rows(f"db.{dag_id}")]
    assert sorted(found) == sorted(expected)


def rename(world, old, new):
    with world.catalog.load_table(f"db.{INCREMENTAL}").update_schema() as update:
        update.rename_column(old, new)


def test_days_with_late_rows_are_made_anew(world):
    """Day after day equal to the plain twin, which reads everything; only the new files are captured."""
    make_source(world)
    for number in range(3):
        day = gain_a_day(world)
        _, record = world.run(INCREMENTAL, day)
        assert world.attempt(PLAIN, day).state == "success"
        assert_recomputed(world, INCREMENTAL)
        assert_recomputed(world, PLAIN)
        assert record["sources"][0]["files"] == number + 1
    stamped = world.catalog.load_table(f"db.{INCREMENTAL}").current_snapshot().summary
    assert stamped["ips-capture-id"] == record["capture_id"]


def test_work_that_failed_before_or_after_writing_is_covered(world):
    """Somebody renames a column of the target, then a worker dies behind its write: the next run covers both ranges."""
    day = gain_a_day(world)
    before = world.catalog.load_table(f"db.{INCREMENTAL}").current_snapshot().snapshot_id
    rename(world, "events", RENAMED)
    failed = world.attempt(INCREMENTAL, day)
    rename(world, RENAMED, "events")
    assert (failed.task_states["aggregate"], failed.task_states["commit"]) == ("failed", "upstream_failed")
    assert world.catalog.load_table(f"db.{INCREMENTAL}").current_snapshot().snapshot_id == before

    died = world.attempt(INCREMENTAL, gain_a_day(world), after={"aggregate": fail})
    assert died.task_states["commit"] == "upstream_failed"
    assert world.catalog.load_table(f"db.{INCREMENTAL}").current_snapshot().snapshot_id != before

    covered, _ = world.run(INCREMENTAL, gain_a_day(world))
    assert span(world, covered)[0] == span(world, died)[0] == span(world, failed)[0]
    assert_recomputed(world, INCREMENTAL)
