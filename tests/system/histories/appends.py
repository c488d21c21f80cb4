"""Everything that only adds rows, by all three writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tests.system.histories.java import append_with
from tests.system.histories.ledger import Effect
from tests.system.histories.registry import APPEND, step
from tests.system.histories.values import FIRST_DAY, sql_rows
from tests.system.histories.world import NotNowError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

    from tests.system.histories.ledger import Row
    from tests.system.histories.world import World


def appended(world: World, rows: Mapping[int, Row], *, branch: str = "main") -> Effect:
    """The effect of rows that came to a branch."""
    return Effect(appends=tuple(rows.values()), after={**world.rows(branch), **rows})


def as_select(world: World, rows: Iterable[Row]) -> str:
    """Rows as a query, in the order of the table's columns."""
    return sql_rows(world.spelled(list(rows)), world.columns)


def as_arrow(world: World, rows: Iterable[Row]) -> pa.Table:
    """Rows as PyIceberg takes them."""
    names = [column.name for column in world.columns]
    records = [dict(zip(names, row, strict=True)) for row in world.spelled(list(rows))]
    return pa.Table.from_pylist(records, schema=world.load().schema().as_arrow())


def needs_pyiceberg(world: World) -> None:
    """PyIceberg 0.12 cannot write format v3, nor into buckets and the like without its Rust part."""
    transforms = {str(field.transform) for field in world.load().spec().fields}
    if world.format_version > 2 or transforms - {"identity", "void"}:
        raise NotNowError


@step(APPEND, weight=3)
def spark_insert(world: World, rng: Random) -> None:
    rows = world.new_rows(rng)
    world.spark(f"insert into {{t}} {as_select(world, rows.values())}")
    world.record("spark_insert", appended(world, rows))


@step(APPEND, weight=1)
def spark_insert_several_files(world: World, rng: Random) -> None:
    rows = world.new_rows(rng, count=4)
    world.spark(f"insert into {{t}} select /*+ repartition(3) */ * from ({as_select(world, rows.values())})")
    world.record("spark_insert_several_files", appended(world, rows))


@step(APPEND, weight=1)
def spark_insert_nothing(world: World, rng: Random) -> None:
    rows = world.new_rows(rng, count=1)
    world.spark(f"insert into {{t}} select * from ({as_select(world, rows.values())}) where false")
    world.record("spark_insert_nothing", Effect(after=world.rows()))


@step(APPEND, weight=1)
def spark_merge_of_new_rows(world: World, rng: Random) -> None:
    rows = world.new_rows(rng)
    source = as_select(world, rows.values())
    world.spark(f"merge into {{t}} t using ({source}) s on t.id = s.id when not matched then insert *")
    world.record("spark_merge_of_new_rows", appended(world, rows))


@step(APPEND, weight=1)
def spark_overwrite_of_a_new_partition(world: World, rng: Random) -> None:
    """A dynamic overwrite that finds nothing to replace calls itself an overwrite, and is an append."""
    if not world.partitioned_by_p_always:
        raise NotNowError
    rows = world.new_rows(rng, p=1000 + world.number())
    dynamic_overwrite(world, rows)
    world.record("spark_overwrite_of_a_new_partition", appended(world, rows))


def dynamic_overwrite(world: World, rows: Mapping[int, Row]) -> None:
    """INSERT OVERWRITE of the partitions that rows fall into."""
    setting = "spark.sql.sources.partitionOverwriteMode"
    world.lake.spark.conf.set(setting, "dynamic")
    try:
        world.spark(f"insert overwrite {{t}} {as_select(world, rows.values())}")
    finally:
        world.lake.spark.conf.unset(setting)


@step(APPEND, weight=4)
def pyiceberg_append(world: World, rng: Random) -> None:
    needs_pyiceberg(world)
    rows = world.new_rows(rng)
    with world.engine():
        world.load().append(as_arrow(world, rows.values()))
    world.record("pyiceberg_append", appended(world, rows))


@step(APPEND, weight=1)
def pyiceberg_two_appends_at_once(world: World, rng: Random) -> None:
    """Two snapshots in one commit, with the same time perhaps."""
    needs_pyiceberg(world)
    first, second = world.new_rows(rng), world.new_rows(rng)
    with world.engine(), world.load().transaction() as both:
        both.append(as_arrow(world, first.values()))
        both.append(as_arrow(world, second.values()))
    after = appended(world, first)
    last = Effect(appends=tuple(second.values()), after={**(after.after or {}), **second})
    world.record("pyiceberg_two_appends_at_once", after, last)


@step(APPEND, weight=1)
def pyiceberg_upsert_of_new_rows(world: World, rng: Random) -> None:
    needs_pyiceberg(world)
    if world.has_equality_deletes:
        raise NotNowError
    rows = world.new_rows(rng)
    with world.engine():
        world.load().upsert(as_arrow(world, rows.values()), join_cols=["id"])
    world.record("pyiceberg_upsert_of_new_rows", appended(world, rows))


@step(APPEND, weight=2)
def pyiceberg_add_files(world: World, rng: Random) -> None:
    """Files of another writer: without field ids, read by the table's name mapping, in a folder of their own."""
    needs_pyiceberg(world)
    rows = world.new_rows(rng, p=rng.randrange(3), d=None, s="a")
    path = world.lake.folder / "foreign" / f"{world.name}-{world.number()}.parquet"
    path.parent.mkdir(exist_ok=True)
    plain = as_arrow(world, rows.values())
    bare = pa.schema([pa.field(f.name, _plain_type(f.type)) for f in plain.schema])
    pq.write_table(pa.Table.from_pylist(plain.to_pylist(), schema=bare), path)
    with world.engine():
        world.load().add_files([f"file://{path}"])
    world.has_name_mapping = True
    world.record("pyiceberg_add_files", appended(world, rows))


def _plain_type(type_: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_large_string(type_) else type_


@step(APPEND, weight=3)
def java_fast_append(world: World, rng: Random) -> None:
    rows = world.new_rows(rng)
    append_with(world, "newFastAppend", list(rows.values()))
    world.record("java_fast_append", appended(world, rows))


@step(APPEND, weight=3)
def java_merge_append(world: World, rng: Random) -> None:
    rows = world.new_rows(rng, count=3)
    append_with(world, "newAppend", list(rows.values()))
    world.record("java_merge_append", appended(world, rows))


@step(APPEND, weight=2)
def java_append_of_one_file(world: World, rng: Random) -> None:
    """Enough rows in one file that several deletes can reach it, one after the other."""
    rows = world.new_rows(rng, count=8, p=1, d=FIRST_DAY, s="a")
    append_with(world, "newAppend", list(rows.values()))
    world.record("java_append_of_one_file", appended(world, rows))


@step(APPEND, weight=1)
def java_empty_append(world: World, rng: Random) -> None:
    append_with(world, rng.choice(("newFastAppend", "newAppend")), [])
    world.record("java_empty_append", Effect(after=world.rows()))


@step(APPEND, weight=1)
def java_row_delta_of_new_rows(world: World, rng: Random) -> None:
    """What a streaming writer commits when its batch has inserts only."""
    if world.format_version < 2:
        raise NotNowError
    rows = world.new_rows(rng)
    append_with(world, "newRowDelta", list(rows.values()), method="addRows")
    world.record("java_row_delta_of_new_rows", appended(world, rows))
