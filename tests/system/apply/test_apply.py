"""What jobs write by `airflow_provider_ips.apply`, compared with everything computed from the beginning."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_ips.apply import ApplyError, append_once, apply_changes, reaggregate
from airflow_provider_ips.iceberg import capture

if TYPE_CHECKING:
    from tests.kit.spark import LakeOfTwoEngines

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

ALL = ("append", "overwrite", "delete")
ROUNDS = 3


class World:
    """A source and a target, and captures from where the last one ended."""

    def __init__(self, lake: LakeOfTwoEngines, name: str, columns: str, target: str, mode: str = "merge-on-read"):
        self.lake, self.name = lake, name
        self.source, self.target = f"lake.db.{name}", f"lake.db.{name}_target"
        modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("delete", "update", "merge"))
        lake.spark.sql(f"CREATE TABLE {self.source} ({columns}) USING iceberg TBLPROPERTIES ({modes})")
        lake.spark.sql(f"CREATE TABLE {self.target} ({target}) USING iceberg TBLPROPERTIES ({modes})")
        self.number = 0
        self.since: Any = None

    def run(self, statement):
        self.lake.spark.sql(statement.format(t=self.source))

    def capture(self, **settings):
        self.number += 1
        made = capture(
            self.lake.catalog, f"db.{self.name}", into=f"icdc.{self.name}_{self.number}", since=self.since, **settings
        )
        self.since = made.to_inclusive
        return [None if table is None else f"lake.{table}" for table in (made.icdc_table, made.before_table)]

    def rows(self, what="*", table=None):
        return self.lake.sql(f"SELECT {what} FROM {table or self.target}")

    def commits(self):
        return self.lake.spark.table(f"{self.target}.snapshots").count()


def seeded(number):
    """The same story each time."""
    return random.Random(number)  # noqa: S311 - not for secrets


def random_changes(world, chance, keys=6):
    """One to three statements: inserts of new keys, updates, deletes."""
    live = {row[0] for row in world.rows("k", world.source)}
    for _ in range(chance.randint(1, 3)):
        key, value = chance.randrange(keys), chance.randrange(4)
        if key not in live:
            world.run(f"INSERT INTO {{t}} VALUES ({key}, {value}, 'g{value % 2}')")
            live.add(key)
        elif chance.random() < 0.6:
            world.run(f"UPDATE {{t}} SET v = {value}, g = 'g{value % 2}' WHERE k = {key}")
        else:
            world.run(f"DELETE FROM {{t}} WHERE k = {key}")
            live.discard(key)


@pytest.mark.parametrize(("mode", "by"), [("copy-on-write", "source"), ("merge-on-read", "complete")])
def test_a_dimension_follows_its_source_through_random_changes(lake, mode, by):
    """Inserts, updates and deletes; every capture is applied twice, and the second time writes nothing."""
    world = World(lake, f"dim_{by}", "k INT, v INT, g STRING", "k INT, v INT, g STRING", mode)
    chance = seeded(7)
    world.run("INSERT INTO {t} VALUES (0, 0, 'g0'), (1, 1, 'g1'), (2, 2, 'g0')")
    options: dict[str, Any] = {"on_superset": "complete"} if by == "complete" else {"on_superset": "allow"}
    for _ in range(ROUNDS):
        captured, before = world.capture(data_operations=ALL, **options)
        source = world.source if by == "source" else None
        for _ in range(2):
            if captured is not None or before is not None:
                apply_changes(lake.spark, captured or before, before, world.target, ["k"], source=source)
        assert world.rows() == world.rows(table=world.source)
        random_changes(world, chance)


def test_groups_follow_their_rows_through_random_changes(lake):
    """Groups that lose their last row go, and NULL is a group."""
    world = World(lake, "groups", "k INT, v INT, g STRING", "g STRING, n BIGINT, total BIGINT")
    chance = seeded(11)
    world.run("INSERT INTO {t} VALUES (0, 0, 'g0'), (1, 1, NULL), (2, 2, 'g2')")
    aggregates = {"n": "count(*)", "total": "sum(v)"}
    for _ in range(ROUNDS):
        captured, before = world.capture(data_operations=ALL, on_superset="allow")
        for _ in range(2):
            reaggregate(lake.spark, captured or before, before, world.source, world.target, ["g"], aggregates)
        recomputed = lake.sql(f"SELECT g, count(*), sum(v) FROM {world.source} GROUP BY g")
        assert world.rows() == recomputed
        random_changes(world, chance)


def test_groups_may_be_expressions(lake):
    """Such as the day of a time."""
    world = World(lake, "days", "id INT, at TIMESTAMP", "day DATE, n BIGINT")
    world.run("INSERT INTO {t} VALUES (1, TIMESTAMP '2026-10-01 10:00:00'), (2, TIMESTAMP '2026-10-02 10:00:00')")
    captured, before = world.capture()
    reaggregate(lake.spark, captured, before, world.source, world.target, {"day": "date(at)"}, {"n": "count(*)"})

    assert world.rows("string(day), n") == [("2026-10-01", 1), ("2026-10-02", 1)]


# --- a log of events --------------------------------------------------------------------------------------------

DELETES = {"apply_as_deletes": "op = 'D'"}
EVENTS = "k INT, seq INT, v INT, op STRING"


def random_events(chance, start, keys=3):
    """Events with sequence numbers of their own, in any order."""
    return [
        (chance.randrange(keys), start + n, chance.choice([None, 1, 2, 3]), "D" if chance.random() < 0.25 else "U")
        for n in range(6)
    ]


def with_one_deletion(events):
    """The target keeps no trace of a deletion at a time when its key has no version: the page says so."""
    firsts: dict[int, int] = {}
    for k, seq, _, op in events:
        if op == "D":
            firsts.setdefault(k, seq)
    return [(k, seq, v, "D" if firsts.get(k) == seq else "U") for k, seq, v, _ in events]


def sql_rows(events):
    return ", ".join(f"({k}, {s}, {'NULL' if v is None else v}, '{op}')" for k, s, v, op in events)


def newest(events, *, ignore_nulls):
    """Type 1 from the beginning: the state of each key after its events in order."""
    state: dict[int, tuple[int | None, int | None]] = {}
    for k, seq, v, op in sorted(events, key=lambda event: event[1]):
        if op == "D":
            state.pop(k, None)
        else:
            old = state.get(k, (None, None))[1]
            state[k] = (seq, old if ignore_nulls and v is None else v)
    return sorted([(k, seq, v) for k, (seq, v) in state.items()], key=repr)


def versions(events):
    """Type 2 from the beginning."""
    found = []
    for key in {event[0] for event in events}:
        of_key = sorted((e for e in events if e[0] == key), key=lambda event: event[1])
        current = None
        for _, seq, v, op in of_key:
            if current is not None:
                found.append((key, current[1], current[0], seq))
            current = (seq, v) if op == "U" else None
        if current is not None:
            found.append((key, current[1], current[0], None))
    return sorted(found, key=repr)


@pytest.mark.parametrize("ignore_nulls", [False, True])
def test_the_newest_event_of_each_key_wins(lake, ignore_nulls):
    """Over random events with deletions; with NULLs as "leave it" as well."""
    world = World(lake, f"newest_{ignore_nulls}", EVENTS, "k INT, seq INT, v INT")
    chance = seeded(3)
    events = []
    for number in range(ROUNDS):
        batch = random_events(chance, number * 10)
        events += batch
        world.run(f"INSERT INTO {{t}} VALUES {sql_rows(chance.sample(batch, len(batch)))}")
        captured, before = world.capture()
        for _ in range(2):
            apply_changes(
                lake.spark,
                captured,
                before,
                world.target,
                ["k"],
                sequence_by="seq",
                apply_as_deletes="op = 'D'",
                except_column_list=["op"],
                ignore_null_updates=ignore_nulls,
            )
        assert world.rows() == newest(events, ignore_nulls=ignore_nulls)


def test_events_of_any_order_leave_the_newest_with_tombstones(lake):
    """A deletion is remembered, so that an older row that comes later brings nothing back."""
    world = World(lake, "tombs", EVENTS, "k INT, seq INT, v INT, gone BOOLEAN")
    chance = seeded(5)
    events = [event for n in range(ROUNDS) for event in random_events(chance, n * 10)]
    chance.shuffle(events)
    for n in range(ROUNDS):
        world.run(f"INSERT INTO {{t}} VALUES {sql_rows(events[n * 6 : n * 6 + 6])}")
        captured, before = world.capture()
        options: dict[str, Any] = {
            "apply_as_deletes": "op = 'D'",
            "except_column_list": ["op"],
            "tombstone_column": "gone",
        }
        apply_changes(lake.spark, captured, before, world.target, ["k"], sequence_by=["seq"], **options)
        so_far = newest(events[: n * 6 + 6], ignore_nulls=False)
        assert lake.sql(f"SELECT k, seq, v FROM {world.target} WHERE NOT gone") == so_far


def test_versions_are_those_of_all_events_in_order(lake):
    """Type 2: events of any order, each capture applied twice."""
    world = World(lake, "versions", EVENTS, "k INT, v INT, __START_AT INT, __END_AT INT")
    chance = seeded(13)
    events = [(key, -1, 0, "U") for key in range(3)]
    later = [event for n in range(ROUNDS) for event in random_events(chance, n * 10)]
    later = with_one_deletion(later)
    chance.shuffle(later)
    for n in range(ROUNDS + 1):
        batch = events[:] if n == 0 else later[n * 6 - 6 : n * 6]
        events = batch if n == 0 else events + batch
        world.run(f"INSERT INTO {{t}} VALUES {sql_rows(batch)}")
        captured, before = world.capture()
        options: dict[str, Any] = {
            "apply_as_deletes": "op = 'D'",
            "except_column_list": ["op", "seq"],
            "stored_as_scd_type": 2,
        }
        for _ in range(2):
            apply_changes(lake.spark, captured, before, world.target, ["k"], sequence_by="seq", **options)
        assert world.rows() == versions(events)


def test_columns_without_history_change_in_place(lake):
    """Only a new email makes a version; the newest login is that of the newest event, in whatever order they come."""
    columns = "k INT, seq INT, email STRING, login STRING"
    world = World(lake, "tracked", columns, f"{columns}, __START_AT INT, __END_AT INT")
    for batch in ("(1, 1, 'a', 'mo')", "(1, 5, 'a', 'fr'), (1, 7, 'b', 'sa')", "(1, 3, 'a', 'we')"):
        world.run(f"INSERT INTO {{t}} VALUES {batch}")
        captured, before = world.capture()
        options: dict[str, Any] = {"stored_as_scd_type": "2", "track_history_except_column_list": ["login"]}
        apply_changes(lake.spark, captured, before, world.target, ["k"], sequence_by="seq", **options)

    assert world.rows("email, login, __START_AT, __END_AT") == [("a", "fr", 1, 7), ("b", "sa", 7, None)]


def test_a_complete_branch_is_applied_without_its_source(lake):
    """What was captured by which settings is said by the snapshot of the branch."""
    world = World(lake, "whole_branch", "k INT, v INT", "k INT, v INT")
    world.run("INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 1), (2, 2)")
    captured, before = world.capture(data_operations=ALL, on_superset="complete")
    apply_changes(lake.spark, captured, before, world.target, ["k"])
    world.run("DELETE FROM {t} WHERE k = 1")
    options: dict[str, Any] = {"data_operations": ALL, "on_superset": "complete"}
    made = capture(lake.catalog, "db.whole_branch", since=world.since, mode="BRANCH", **options)
    apply_changes(lake.spark, f"lake.{made.icdc_table}", f"lake.{made.before_table}", world.target, ["k"])

    assert world.rows() == [(2, 2)]


def test_a_late_deletion_empties_no_newer_row(lake):
    """With NULLs as "leave it": neither the deletion at 5 nor the value at 8 is newer than the row at 10."""
    world = World(lake, "late", EVENTS, "k INT, seq INT, v INT")
    for batch in ("(1, 10, 1, 'U')", "(1, 5, NULL, 'D'), (1, 8, 2, 'U'), (1, 12, NULL, 'U')"):
        world.run(f"INSERT INTO {{t}} VALUES {batch}")
        captured, before = world.capture()
        options: dict[str, Any] = {
            **DELETES,
            "except_column_list": ["op"],
            "ignore_null_updates": True,
            "sequence_by": "seq",
        }
        for _ in range(2):
            apply_changes(lake.spark, captured, before, world.target, ["k"], **options)

    assert world.rows() == [(1, 12, 1)]


def test_a_row_that_its_source_deleted_is_kept_as_a_tombstone(lake):
    """With its last values, until the key is there again."""
    world = World(lake, "graves", "k INT, v INT", "k INT, v INT, gone BOOLEAN")
    seen = []
    for statement in (
        "INSERT INTO {t} VALUES (1, 1), (2, 2)",
        "DELETE FROM {t} WHERE k = 1",
        "INSERT INTO {t} VALUES (1, 3)",
    ):
        world.run(statement)
        captured, before = world.capture(data_operations=ALL, on_superset="allow")
        options: dict[str, Any] = {"tombstone_column": "gone", "source": world.source}
        for _ in range(2):
            apply_changes(lake.spark, captured, before, world.target, ["k"], **options)
        seen.append(world.rows("k, v, gone"))

    assert seen[1:] == [[(1, 1, True), (2, 2, False)], [(1, 3, False), (2, 2, False)]]


def test_a_deletion_before_its_version_started_is_refused(lake):
    """The version would stay valid. A time that is NULL would do the same."""
    world = World(lake, "early", "k INT, seq INT, v INT", "k INT, v INT, __START_AT INT, __END_AT INT")
    options: dict[str, Any] = {
        "stored_as_scd_type": 2,
        "sequence_by": "seq",
        "except_column_list": ["seq"],
        "source": world.source,
    }
    world.run("INSERT INTO {t} VALUES (1, 5, 1)")
    captured, before = world.capture(data_operations=ALL, on_superset="allow")
    apply_changes(lake.spark, captured, before, world.target, ["k"], deleted_at="9", **options)
    world.run("DELETE FROM {t}")
    captured, before = world.capture(data_operations=ALL, on_superset="allow")
    for deleted_at in ("4", "5", "NULL"):
        with pytest.raises(ApplyError, match=r"\{'k': 1\} that is valid now started at 5"):
            apply_changes(lake.spark, captured, before, world.target, ["k"], deleted_at=deleted_at, **options)

    assert world.rows() == [(1, 1, 5, None)]


def test_a_deleted_row_ends_its_version(lake):
    """Type 2 of a source that is changed itself: the end is what the job says, the same at a retry."""
    world = World(lake, "ends", "k INT, seq INT, v INT", "k INT, v INT, __START_AT INT, __END_AT INT")
    for statement in ("INSERT INTO {t} VALUES (1, 1, 1), (2, 1, 2)", "DELETE FROM {t} WHERE k = 1"):
        world.run(statement)
        captured, before = world.capture(data_operations=ALL, on_superset="complete")
        options: dict[str, Any] = {
            "stored_as_scd_type": 2,
            "deleted_at": "9",
            "except_column_list": ["seq"],
            "source": world.source,
        }
        for _ in range(2):
            apply_changes(lake.spark, captured or before, before, world.target, ["k"], sequence_by="seq", **options)

    assert world.rows() == [(1, 1, 1, 9), (2, 2, 1, None)]


# --- append once ------------------------------------------------------------------------------------------------


def test_a_retry_appends_nothing(lake):
    """Recognised by the stamp, also below later commits of others."""
    world = World(lake, "once", "id INT", "id INT")
    world.run("INSERT INTO {t} VALUES (1), (2)")
    captured, _ = world.capture()

    assert append_once(lake.spark, captured, world.target, "capture-1")
    lake.spark.sql(f"INSERT INTO {world.target} VALUES (3)")
    assert not append_once(lake.spark, captured, world.target, "capture-1")
    assert world.rows() == [(1,), (2,), (3,)]


# --- refused before anything is written --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "options", "named"),
    [
        ("(1, 1, 1)", {"keys": ["nowhere"]}, "no columns \\['nowhere'\\]"),
        ("(1, 1, 1)", {"keys": []}, "keys=\\[\\]"),
        ("(1, 1, 1)", {"keys": "k"}, "keys='k'"),
        ("(NULL, 1, 1)", {}, "k is NULL"),
        ("(NULL, 1, 1)", {"source": "{t}"}, "k is NULL"),
        ("(1, NULL, 1)", {"sequence_by": "seq"}, "seq is NULL"),
        ("(1, 1, 1), (1, 2, 2)", {}, "several captured rows have the key {'k': 1}"),
        ("(1, 1, 1), (1, 1, 2)", {"sequence_by": "seq"}, "the same \\['seq'\\]"),
        ("(1, 1, 1)", {"stored_as_scd_type": 3}, "stored_as_scd_type=3"),
        ("(1, 1, 1)", {"stored_as_scd_type": 2}, "versions are dated by exactly one"),
        ("(1, 1, 1)", {"stored_as_scd_type": 2, "sequence_by": "seq"}, "has no columns \\['__START_AT', '__END_AT'\\]"),
        ("(1, 1, 1)", {"tombstone_column": "gone"}, "has no columns \\['gone'\\]"),
        ("(1, 1, 1)", {"column_list": ["x"]}, "\\['x'\\] are not columns"),
        ("(1, 1, 1)", {"column_list": ["v"], "except_column_list": ["v"]}, "both given"),
    ],
    ids=str,
)
def test_what_would_be_wrong_is_refused(lake, rows, options, named):
    """With the key or column, and the target as it was."""
    number = abs(hash(str((rows, options, named)))) % 10**9
    world = World(lake, f"refused_{number}", "k INT, seq INT, v INT", "k INT, seq INT, v INT")
    world.run(f"INSERT INTO {{t}} VALUES {rows}")
    captured, before = world.capture()
    options = {name: world.source if value == "{t}" else value for name, value in options.items()}
    with pytest.raises(ApplyError, match=named):
        apply_changes(lake.spark, captured, before, world.target, options.pop("keys", ["k"]), **options)
    assert world.commits() == 0


def test_a_target_that_lacks_columns_is_refused(lake):
    """By each function."""
    world = World(lake, "lacking", "k INT, v INT", "k INT")
    world.run("INSERT INTO {t} VALUES (1, 1)")
    captured, before = world.capture()
    calls = [
        lambda: apply_changes(lake.spark, captured, before, world.target, ["k"]),
        lambda: append_once(lake.spark, captured, world.target, "c"),
        lambda: reaggregate(lake.spark, captured, before, world.source, world.target, ["k"], {"n": "count(*)"}),
    ]
    for call in calls:
        with pytest.raises(ApplyError, match="has no columns"):
            call()
    with pytest.raises(ApplyError, match="no capture id"):
        append_once(lake.spark, captured, world.target)
    assert world.commits() == 0


def test_a_capture_that_may_lack_unchanged_rows_is_refused(lake):
    """They would be taken for deleted: rows of a file of which another row was deleted.

    That holds for DataFrames, of which nothing is known, and for a branch, whose table says nothing about it.
    """
    world = World(lake, "partial", "k INT, v INT", "k INT, v INT")
    world.run("INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 1), (2, 2)")
    world.capture()
    since = world.since
    world.run("UPDATE {t} SET v = 3 WHERE k = 1")
    captured, before = world.capture(data_operations=ALL, on_superset="allow")
    branch = capture(lake.catalog, "db.partial", since=since, mode="BRANCH", data_operations=ALL, on_superset="allow")
    handed_over: list[tuple[Any, Any]] = [
        (captured, before),
        (lake.spark.table(captured), lake.spark.table(before)),
        (f"lake.{branch.icdc_table}", f"lake.{branch.before_table}"),
    ]
    for rows, rows_before in handed_over:
        with pytest.raises(ApplyError, match="on_superset"):
            apply_changes(lake.spark, rows, rows_before, world.target, ["k"])
    options: dict[str, Any] = {"source": world.source, "sequence_by": "v", "stored_as_scd_type": 2}
    with pytest.raises(ApplyError, match="deleted_at"):
        apply_changes(lake.spark, captured, before, world.target, ["k"], **options)
