"""Everything that removes or changes rows, by all three writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.system.histories.appends import as_arrow, as_select, dynamic_overwrite, needs_pyiceberg
from tests.system.histories.java import by_partition, data_files, equality_delete, partition_path, position_delete
from tests.system.histories.ledger import Effect, Row
from tests.system.histories.registry import CHANGE, step
from tests.system.histories.world import NotNowError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

    from tests.system.histories.world import World


def change(world: World, *, gone: Iterable[int] = (), now: Mapping[int, Row] | None = None) -> Effect:
    """Rows that went and rows that are there since, of which a log of appends holds none."""
    removed = set(gone)
    kept = {i: row for i, row in world.rows().items() if i not in removed}
    return Effect(after={**kept, **(now or {})}, is_change=True)


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(str(i) for i in ids)


def needs_deletes(world: World) -> None:
    """Format v1 knows no delete files."""
    if world.format_version < 2:
        raise NotNowError


def needs_pyiceberg_to_read(world: World) -> None:
    """PyIceberg ignores equality deletes of files that it rewrites: rows come back."""
    needs_pyiceberg(world)
    if world.has_equality_deletes:
        raise NotNowError


@step(CHANGE)
def spark_update(world: World, rng: Random) -> None:
    rows = world.some_rows(rng)
    after = {i: world.changed(rng, row) for i, row in rows.items()}
    # One statement for each value of s would be many commits: all get the first one's.
    uid = next(c.uid for c in world.columns if c.name == "s")
    shared = next(iter(after.values())).get(uid)
    after = {i: row.with_values({uid: shared}) for i, row in after.items()}
    value = "null" if shared is None else f"'{shared}'"
    world.spark(f"update {{t}} set v = v + 1, s = {value} where id in ({_listed(rows)})")
    world.record("spark_update", change(world, now=after))


@step(CHANGE)
def spark_delete_rows(world: World, rng: Random) -> None:
    rows = world.some_rows(rng)
    world.spark(f"delete from {{t}} where id in ({_listed(rows)})")
    world.record("spark_delete_rows", change(world, gone=rows))


@step(CHANGE, weight=1)
def spark_delete_partition(world: World, rng: Random) -> None:
    """What retention does: whole files where the table is partitioned by it."""
    p = next(iter(world.some_rows(rng, most=1).values())).get(_uid(world, "p"))
    gone = [i for i, row in world.rows().items() if row.get(_uid(world, "p")) == p]
    world.spark(f"delete from {{t}} where p <=> {'null' if p is None else p}")
    world.record("spark_delete_partition", change(world, gone=gone))


@step(CHANGE, weight=1)
def spark_delete_nothing(world: World, rng: Random) -> None:
    """Spark may commit a snapshot for it or not; no row goes."""
    before = world.head
    world.spark("delete from {t} where id = -1")
    if world.load().metadata.current_snapshot_id != before:
        world.record("spark_delete_nothing", Effect(after=world.rows(), is_unclear=True))


@step(CHANGE)
def spark_merge(world: World, rng: Random) -> None:
    """Some rows change, some are new, and now and then some go."""
    old = {i: world.changed(rng, row) for i, row in world.some_rows(rng).items()}
    new = world.new_rows(rng)
    gone = rng.sample(sorted(old), 1) if rng.random() < 0.3 else []
    source = as_select(world, [*old.values(), *new.values()])
    delete = f"when matched and s.id in ({_listed(gone)}) then delete" if gone else ""
    world.spark(
        f"merge into {{t}} t using ({source}) s on t.id = s.id {delete} "
        "when matched then update set * when not matched then insert *"
    )
    now = {i: row for i, row in old.items() if i not in gone} | new
    world.record("spark_merge", change(world, gone=gone, now=now))


@step(CHANGE, weight=1)
def spark_overwrite_of_all(world: World, rng: Random) -> None:
    if not world.rows():
        raise NotNowError
    rows = world.new_rows(rng)
    world.spark(f"insert overwrite {{t}} {as_select(world, rows.values())}")
    world.record("spark_overwrite_of_all", change(world, gone=world.rows(), now=rows))


@step(CHANGE, weight=1)
def spark_overwrite_of_a_partition(world: World, rng: Random) -> None:
    if not world.partitioned_by_p_always:
        raise NotNowError
    p = next(iter(world.some_rows(rng, most=1).values())).get(_uid(world, "p"))
    gone = [i for i, row in world.rows().items() if row.get(_uid(world, "p")) == p]
    rows = world.new_rows(rng, p=p)
    dynamic_overwrite(world, rows)
    world.record("spark_overwrite_of_a_partition", change(world, gone=gone, now=rows))


@step(CHANGE, weight=1)
def spark_overwrite_of_a_named_partition(world: World, rng: Random) -> None:
    """The static form: PARTITION says what goes, whatever comes."""
    if not world.partitioned_by_p_always:
        raise NotNowError
    p = next(iter(world.some_rows(rng, most=1).values())).get(_uid(world, "p"))
    if p is None:
        raise NotNowError
    gone = [i for i, row in world.rows().items() if row.get(_uid(world, "p")) == p]
    rows = world.new_rows(rng, p=p)
    others = ", ".join(c.name for c in world.columns if c.name != "p")
    source = as_select(world, rows.values())
    world.spark(f"insert overwrite {{t}} partition (p = {p}) select {others} from ({source})")
    world.record("spark_overwrite_of_a_named_partition", change(world, gone=gone, now=rows))


@step(CHANGE, weight=1)
def pyiceberg_overwrite_of_partitions(world: World, rng: Random) -> None:
    """PyIceberg's dynamic overwrite: a delete and an append."""
    needs_pyiceberg_to_read(world)
    if not world.partitioned_by_p_always:
        raise NotNowError
    p = next(iter(world.some_rows(rng, most=1).values())).get(_uid(world, "p"))
    gone = [i for i, row in world.rows().items() if row.get(_uid(world, "p")) == p]
    rows = world.new_rows(rng, p=p)
    with world.engine():
        world.load().dynamic_partition_overwrite(as_arrow(world, rows.values()))
    after = change(world, gone=gone, now=rows).after
    effect = Effect(appends=tuple(rows.values()), after=after)
    world.record("pyiceberg_overwrite_of_partitions", effect, halves=True)


@step(CHANGE)
def pyiceberg_overwrite(world: World, rng: Random) -> None:
    """A delete, in up to two snapshots, and an append."""
    needs_pyiceberg_to_read(world)
    gone = world.some_rows(rng)
    rows = world.new_rows(rng)
    with world.engine():
        world.load().overwrite(as_arrow(world, rows.values()), overwrite_filter=f"id in ({_listed(gone)})")
    after = change(world, gone=gone, now=rows).after
    world.record("pyiceberg_overwrite", Effect(appends=tuple(rows.values()), after=after), halves=True)


@step(CHANGE)
def pyiceberg_upsert(world: World, rng: Random) -> None:
    """A delete, an append of the new versions, and an append of new rows."""
    needs_pyiceberg_to_read(world)
    old = {i: world.changed(rng, row) for i, row in world.some_rows(rng).items()}
    new = world.new_rows(rng)
    with world.engine():
        world.load().upsert(as_arrow(world, [*old.values(), *new.values()]), join_cols=["id"])
    after = change(world, now=old)
    updates = Effect(appends=tuple(old.values()), after=after.after)
    inserts = Effect(appends=tuple(new.values()), after={**(after.after or {}), **new})
    world.record("pyiceberg_upsert", updates, inserts, halves=True)


@step(CHANGE)
def pyiceberg_delete(world: World, rng: Random) -> None:
    needs_pyiceberg_to_read(world)
    gone = world.some_rows(rng)
    with world.engine():
        world.load().delete(f"id in ({_listed(gone)})")
    world.record("pyiceberg_delete", change(world, gone=gone), halves=True)


@step(CHANGE)
def java_equality_delete(world: World, rng: Random) -> None:
    """Rows go by their id in one commit with new versions of them, which the delete must not touch."""
    needs_deletes(world)
    spec = world.load().spec()
    if spec.fields and not world.partitioned_by_p_always:
        raise NotNowError  # equality deletes count for their own partition only, and the old row may lie in another
    gone = world.some_rows(rng)
    now = {i: world.changed(rng, row) for i, row in gone.items() if rng.random() < 0.5}
    with world.engine():
        table = world.lake.java_table(world.name)
        update = table.newRowDelta()
        for partition, rows in by_partition(world, spec, list(gone.values())).items():
            ids = [row.get(_uid(world, "id")) for row in rows]
            update = update.addDeletes(equality_delete(world, table, ids, partition))
        for file in data_files(world, table, list(now.values())):
            update = update.addRows(file)
        update.commit()
    world.has_equality_deletes = True
    world.record("java_equality_delete", change(world, gone=gone, now=now))


@step(CHANGE)
def java_position_delete(world: World, rng: Random) -> None:
    """One delete file for rows of several data files, as a partition's deletes are without ``referenced_data_file``."""
    if world.format_version != 2 or world.has_equality_deletes:
        raise NotNowError
    rows = world.some_rows(rng)
    spec = world.load().spec()
    by_partition: dict[str, dict[str, list[int]]] = {}
    for i, path, place, spec_id in world.spark(
        f"select id, _file, _pos, _spec_id from {{t}} where id in ({_listed(rows)})"
    ):
        if spec_id != spec.spec_id:
            raise NotNowError
        by_partition.setdefault(partition_path(world, spec, rows[i]), {}).setdefault(path, []).append(place)
    with world.engine():
        table = world.lake.java_table(world.name)
        update = table.newRowDelta()
        for partition, places in by_partition.items():
            update = update.addDeletes(position_delete(world, table, places, partition))
        update.commit()
    world.record("java_position_delete", change(world, gone=rows))


@step(CHANGE)
def java_replace_a_file(world: World, rng: Random) -> None:
    """OverwriteFiles: one data file goes, with all its rows, and new rows come in the same commit."""
    file, gone = _some_file(world, rng)
    rows = world.new_rows(rng)
    with world.engine():
        table = world.lake.java_table(world.name)
        update = table.newOverwrite().deleteFile(file)
        for new in data_files(world, table, list(rows.values())):
            update = update.addFile(new)
        update.commit()
    world.record("java_replace_a_file", change(world, gone=gone, now=rows))


@step(CHANGE)
def java_remove_a_file_and_bring_it_back(world: World, rng: Random) -> None:
    """The same file is removed by one commit and appended again by the next."""
    file, gone = _some_file(world, rng)
    with world.engine():
        world.lake.java_table(world.name).newDelete().deleteFile(file).commit()
    world.record("java_remove_a_file", change(world, gone=gone))
    with world.engine():
        world.lake.java_table(world.name).newAppend().appendFile(file).commit()
    after = {**world.rows(), **gone}
    world.must_not_expire = True
    world.record("java_bring_a_file_back", Effect(appends=tuple(gone.values()), after=after))


def _some_file(world: World, rng: Random) -> tuple[object, dict[int, Row]]:
    """A live data file of the table as Java has it, with the rows that are in it; none of them deleted before."""
    if not world.rows():
        raise NotNowError
    by_path: dict[str, list[int]] = {}
    for path, i in world.spark("select _file, id from {t}"):
        by_path.setdefault(path, []).append(i)
    with world.engine():
        tasks = world.lake.java_table(world.name).newScan().planFiles().iterator()
        plain = {}
        while tasks.hasNext():
            task = tasks.next()
            if task.deletes().isEmpty():
                plain[str(task.file().location())] = task.file()
    candidates = sorted(set(by_path) & set(plain), key=lambda path: min(by_path[path]))
    if not candidates:
        raise NotNowError
    path = rng.choice(candidates)
    return plain[path], {i: world.rows()[i] for i in by_path[path]}


def _uid(world: World, name: str) -> int:
    return next(c.uid for c in world.columns if c.name == name)
