"""What happens to a table between a consumer's checkpoint and its next run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.compare.story import DAY, NEXT_DAY, OLD_DAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.compare.story import Story

    Step = Callable[[Story], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A history.

    ``then`` happens after a contender has decided what to read, and before the rows are read. ``filtered_by`` names
    columns on which a job filters, value by value: a partitioning that is misunderstood prunes rows that are there.
    """

    title: str
    what: str
    write: Step
    then: Step | None = None
    filtered_by: tuple[str, ...] = ()


SCENARIOS: Final[list[Scenario]] = []


def scenario(title: str, *, then: Step | None = None, filtered_by: tuple[str, ...] = ()) -> Callable[[Step], Step]:
    """Register a history under the name that the table in the docs shows; its docstring tells it."""

    def register(write: Step) -> Step:
        if not write.__doc__:
            raise ValueError(f"{title} needs a docstring: the docs tell what happens in it")
        added = Scenario(title=title, what=write.__doc__, write=write, then=then, filtered_by=filtered_by)
        SCENARIOS.append(added)
        return write

    return register


def consumed(story: Story, *, partitioned: str = "day", format_version: int = 2, **properties: str) -> list[int]:
    """Two days of rows that every consumer has read; give the ids of the older one."""
    story.create(partitioned=partitioned, format_version=format_version, **properties)
    older = story.insert(5, OLD_DAY)
    story.insert(5, DAY)
    story.checkpoint()
    return older


@scenario("append")
def append(story: Story) -> None:
    """Three appends, two by Spark and one by PyIceberg."""
    consumed(story)
    story.insert()
    story.by_pyiceberg(story.new_rows(2), how="append")
    story.insert(day=NEXT_DAY)


@scenario("late partition")
def late_partition(story: Story) -> None:
    """Rows of today, and rows for a day of last month."""
    consumed(story)
    story.insert(day=NEXT_DAY)
    story.insert(day=OLD_DAY)


@scenario("overwrite into a new partition")
def overwrite_into_new(story: Story) -> None:
    """Spark's dynamic INSERT OVERWRITE into a day that had no rows, then an append."""
    consumed(story)
    story.overwrite_partition(NEXT_DAY)
    story.insert()


@scenario("overwrite of a partition")
def overwrite_of_old(story: Story) -> None:
    """An append, then Spark's dynamic INSERT OVERWRITE of a day that had rows."""
    consumed(story)
    story.insert(day=NEXT_DAY)
    story.overwrite_partition(OLD_DAY)


@scenario("empty run")
def empty_run(story: Story) -> None:
    """Nothing has happened since the checkpoint."""
    consumed(story)


@scenario("merge, copy-on-write")
def merge(story: Story) -> None:
    """An append, then a MERGE that changes two old rows and inserts two."""
    older = consumed(story, write_merge_mode="copy-on-write")
    story.insert()
    story.merge(story.random.sample(older, 2), inserted=2)


@scenario("merge, merge-on-read")
def merge_on_read(story: Story) -> None:
    """An append, then a MERGE that changes two old rows and inserts two, with position deletes."""
    older = consumed(story, write_merge_mode="merge-on-read")
    story.insert()
    story.merge(story.random.sample(older, 2), inserted=2)


@scenario("update of the partition column")
def moved(story: Story) -> None:
    """An append, then an UPDATE that moves an old and a new row to another day, copy-on-write."""
    older = consumed(story, write_update_mode="copy-on-write")
    newer = story.insert()
    story.move([story.random.choice(older), story.random.choice(newer)], NEXT_DAY)


@scenario("merge that only inserts")
def merge_of_new_rows(story: Story) -> None:
    """A MERGE whose keys are all new."""
    consumed(story)
    story.merge([], inserted=3)


@scenario("delete, merge-on-read")
def delete_merge_on_read(story: Story) -> None:
    """An append, then a DELETE of one old row and one new row by position deletes."""
    older = consumed(story, write_delete_mode="merge-on-read")
    newer = story.insert()
    story.delete([story.random.choice(older), story.random.choice(newer)])


@scenario("delete, deletion vectors (v3)")
def delete_by_vectors(story: Story) -> None:
    """An append, then two DELETEs of rows of the same files, on a v3 table."""
    older = consumed(story, format_version=3, write_delete_mode="merge-on-read")
    newer = story.insert()
    story.delete([older[0], newer[0]])
    story.delete([older[1], newer[1]])


@scenario("delete before and after")
def delete_before_and_after(story: Story) -> None:
    """A DELETE by position before the checkpoint; then an upgrade to v3, an append, and a DELETE in the same file."""
    story.create(write_delete_mode="merge-on-read")
    older = story.insert(5, OLD_DAY)
    story.delete([older[0]])
    story.checkpoint()
    story.sql("alter table {t} set tblproperties ('format-version'='3')")
    newer = story.insert()
    story.delete([older[1], newer[0]])


@scenario("delete, equality deletes")
def delete_by_equality(story: Story) -> None:
    """An append, then a delete file that names values instead of rows, as streaming writers leave them."""
    older = consumed(story, partitioned="")
    newer = story.insert()
    story.delete_by_equality([older[0], newer[0]])


@scenario("retention")
def retention(story: Story) -> None:
    """An append, then a DELETE of the oldest day, which drops whole files."""
    older = consumed(story)
    story.insert(day=NEXT_DAY)
    story.ledger.remove(older)
    story.sql(f"delete from {{t}} where day = '{OLD_DAY}'")


@scenario("PyIceberg overwrite")
def pyiceberg_overwrite(story: Story) -> None:
    """Two rows are replaced, by a delete and an append."""
    older = consumed(story)
    replaced = story.random.sample(older, 2)
    story.by_pyiceberg(story.changed(replaced), how="overwrite", replaced=replaced)


@scenario("PyIceberg upsert")
def pyiceberg_upsert(story: Story) -> None:
    """Two rows get a new value, and two are new."""
    older = consumed(story)
    changed = story.changed(story.random.sample(older, 2))
    story.by_pyiceberg([*changed, *story.new_rows(2, OLD_DAY)], how="upsert")


@scenario("compaction")
def compaction(story: Story) -> None:
    """Appends with a rewrite of all data files between them."""
    consumed(story)
    story.insert()
    story.insert(day=OLD_DAY)
    story.compact()
    story.insert()


@scenario("compaction, then update")
def compaction_then_update(story: Story) -> None:
    """An append, a rewrite of all data files, and an UPDATE of an old and a new row in the rewritten files."""
    older = consumed(story, write_update_mode="copy-on-write")
    newer = story.insert()
    story.compact()
    story.update([story.random.choice(older), story.random.choice(newer)])


@scenario("updates around a compaction (v3)")
def updates_around_compaction(story: Story) -> None:
    """On a v3 table: an append, a copy-on-write UPDATE, a rewrite of all data files, another UPDATE."""
    older = consumed(story, format_version=3, write_update_mode="copy-on-write")
    newer = story.insert()
    story.update([older[0], newer[0]])
    story.compact()
    story.update([older[1], newer[1]])


@scenario("update, then compaction")
def update_then_compaction(story: Story) -> None:
    """An append, an UPDATE of an old and a new row by position deletes, and a rewrite that applies them."""
    older = consumed(story, write_update_mode="merge-on-read")
    newer = story.insert()
    story.update([story.random.choice(older), story.random.choice(newer)])
    story.compact()


@scenario("column dropped and added")
def column_replaced(story: Story) -> None:
    """An append, then a column is dropped and one of the same name and type is added, then an append."""
    consumed(story)
    story.insert()
    story.replace_column("note")
    story.insert()


@scenario("partition spec change", filtered_by=("day", "note"))
def spec_change(story: Story) -> None:
    """An append, then a partitioning by another column, then an append."""
    consumed(story)
    story.insert()
    story.sql("alter table {t} replace partition field day with note")
    story.insert()


@scenario("partition spec change at the end", filtered_by=("day", "note"))
def spec_change_at_the_end(story: Story) -> None:
    """An append, then a partitioning by another column, under which nothing has been written yet."""
    consumed(story)
    story.insert()
    story.sql("alter table {t} replace partition field day with note")


@scenario("name-mapped files")
def name_mapped(story: Story) -> None:
    """PyIceberg's add_files registers a Parquet file without field ids, its columns in another order."""
    story.create(partitioned="")
    story.add_files(story.new_rows(3), ("id", "value", "note", "day"))
    story.checkpoint()
    story.add_files(story.new_rows(3), ("id", "note", "value", "day"))


@scenario("rollback in the range")
def rollback_in_range(story: Story) -> None:
    """An append, another that is rolled back, and a third."""
    consumed(story)
    story.insert()
    good = story.head
    story.insert()
    story.roll_back(good)
    story.insert()


@scenario("rollback past the checkpoint")
def rollback_past_checkpoint(story: Story) -> None:
    """The newest rows that were consumed are rolled back, then others are appended."""
    story.create()
    story.insert(5, OLD_DAY)
    good = story.head
    story.insert(5, DAY)
    story.checkpoint()
    story.roll_back(good)
    story.insert()


@scenario("table dropped and created again")
def recreated(story: Story) -> None:
    """Another table has the name now, and two appends."""
    consumed(story)
    story.recreate()
    story.insert()
    story.insert()


@scenario("expired checkpoint")
def expired_checkpoint(story: Story) -> None:
    """Two appends, then everything but the newest snapshot expires."""
    consumed(story)
    story.insert()
    story.insert()
    story.expire()


@scenario("compaction and expiry before capture")
def compacted_and_expired(story: Story) -> None:
    """Two appends, a rewrite of all data files, and everything but the newest snapshot expires."""
    consumed(story)
    story.insert()
    story.insert()
    story.compact()
    story.expire()


def compact_and_expire(story: Story) -> None:
    """What an eager maintenance job does."""
    story.compact()
    story.expire()


@scenario("compaction and expiry before reading", then=compact_and_expire)
def compacted_and_expired_later(story: Story) -> None:
    """Two appends; once the range is decided, the files are rewritten and their snapshots expire, then it is read."""
    consumed(story)
    story.insert()
    story.insert()
