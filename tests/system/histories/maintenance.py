"""What changes files and no row: compaction, manifests, expiry, formats, schemas and partitionings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.system.histories.ledger import Column, Effect
from tests.system.histories.registry import EVOLUTION, MAINTENANCE, step
from tests.system.histories.values import OPTIONAL_TYPES, PROMOTIONS
from tests.system.histories.world import NotNowError

if TYPE_CHECKING:
    from random import Random

    from tests.system.histories.world import World

FIXED = ("id", "v", "p", "d", "s")


def _same_rows(world: World, name: str) -> None:
    """Whatever a procedure committed changed no row, however many snapshots it took."""
    known = world.ledger.commits
    new = [s for s in world.load().metadata.snapshots if s.snapshot_id not in known]
    world.record(name, *(Effect(after=world.rows()) for _ in new))


@step(MAINTENANCE, weight=3)
def compact(world: World, rng: Random) -> None:
    options = ["'rewrite-all', 'true'"]
    if rng.random() < 0.3:
        options = ["'min-input-files', '2'", "'delete-file-threshold', '1'"]
    if world.format_version == 2 and rng.random() < 0.3:
        options.append("'remove-dangling-deletes', 'true'")
    if rng.random() < 0.2:  # in several snapshots
        options += ["'partial-progress.enabled', 'true'", "'partial-progress.max-commits', '3'"]
    arguments = [f"options => map({', '.join(options)})"]
    if rng.random() < 0.3:
        arguments.append("strategy => 'sort', sort_order => 'id'")
    if rng.random() < 0.3:
        arguments.append("where => 'p = 1'")
    world.procedure("rewrite_data_files", ", ".join(arguments))
    _same_rows(world, "compact")


@step(MAINTENANCE)
def rewrite_manifests(world: World, rng: Random) -> None:
    world.procedure("rewrite_manifests")
    _same_rows(world, "rewrite_manifests")


@step(MAINTENANCE, weight=1)
def rewrite_position_deletes(world: World, rng: Random) -> None:
    if world.format_version < 2:
        raise NotNowError
    world.procedure("rewrite_position_delete_files", "options => map('rewrite-all', 'true')")
    _same_rows(world, "rewrite_position_deletes")


@step(MAINTENANCE, weight=1)
def expire_snapshots(world: World, rng: Random) -> None:
    """All but the last few of each branch."""
    if world.must_not_expire:
        raise NotNowError
    with world.engine():
        update = world.lake.java_table(world.name).expireSnapshots()
        update.expireOlderThan(world.now_ms() + 1).retainLast(rng.randint(1, 4)).commit()
    world.settle()


@step(MAINTENANCE, weight=1)
def expire_one_snapshot(world: World, rng: Random) -> None:
    """One from the middle, which leaves a hole in the lineage."""
    heads = set(world.heads.values())
    middle = [i for i in world.ledger.commits if i not in world.ledger.expired | heads]
    if not middle or world.must_not_expire:
        raise NotNowError
    with world.engine():
        table = world.lake.java_table(world.name)
        table.expireSnapshots().expireSnapshotId(rng.choice(middle)).commit()
    world.settle()


@step(EVOLUTION)
def add_column(world: World, rng: Random) -> None:
    kind = rng.choice(OPTIONAL_TYPES)
    number = world.number()
    free = [f"c{i}" for i in range(3) if f"c{i}" not in {c.name for c in world.columns}]
    # With a name mapping a new column under an old name would read the old one's values in files without ids.
    name = free[0] if free and not world.has_name_mapping else f"c{number}"
    place = rng.choice(("", "first", "after v"))
    world.spark(f"alter table {{t}} add column {name} {kind} {place}")
    column = Column(uid=number, name=name, type=kind)
    at = {"": len(world.columns), "first": 0, "after v": 1 + [c.name for c in world.columns].index("v")}[place]
    world.columns.insert(at, column)


@step(EVOLUTION)
def rename_column(world: World, rng: Random) -> None:
    column = _optional(world, rng)
    name = f"r{world.number()}"
    world.spark(f"alter table {{t}} rename column {column.name} to {name}")
    world.columns[world.columns.index(column)] = replace(column, name=name)


@step(EVOLUTION)
def drop_column(world: World, rng: Random) -> None:
    column = _optional(world, rng)
    world.spark(f"alter table {{t}} drop column {column.name}")
    world.columns.remove(column)


@step(EVOLUTION)
def promote_column(world: World, rng: Random) -> None:
    candidates = [c for c in world.columns if c.type in PROMOTIONS]
    if not candidates:
        raise NotNowError
    column = rng.choice(candidates)
    wider = PROMOTIONS[column.type]
    world.spark(f"alter table {{t}} alter column {column.name} type {wider}")
    world.columns[world.columns.index(column)] = replace(column, type=wider)


@step(EVOLUTION, weight=1)
def move_column(world: World, rng: Random) -> None:
    column = _optional(world, rng)
    world.spark(f"alter table {{t}} alter column {column.name} first")
    world.columns.remove(column)
    world.columns.insert(0, column)


def _optional(world: World, rng: Random) -> Column:
    """One of the columns that come and go. The fixed ones are what steps talk about."""
    candidates = [c for c in world.columns if c.name not in FIXED]
    if not candidates:
        raise NotNowError
    return rng.choice(candidates)


@step(EVOLUTION, weight=1)
def add_column_with_a_default(world: World, rng: Random) -> None:
    """Rows from before it have the default, not null. Only Java can say it."""
    if world.format_version < 3:
        raise NotNowError
    number = world.number()
    with world.engine():
        iceberg = world.lake.jvm.org.apache.iceberg
        default = iceberg.expressions.Literal.of(7)
        update = world.lake.java_table(world.name).updateSchema()
        update.addColumn(f"n{number}", iceberg.types.Types.IntegerType.get(), None, default).commit()
    world.columns.append(Column(uid=number, name=f"n{number}", type="int", default=7))


@step(EVOLUTION)
def change_partitioning(world: World, rng: Random) -> None:
    """Add a field, drop one, or do both at once."""
    fields = [f.name for f in world.load().spec().fields if f.transform.__class__.__name__ != "VoidTransform"]
    wanted = rng.choice(("p", "bucket(2, id)", "months(d)", "truncate(2, s)", "bucket(3, s)"))
    if fields and rng.random() < 0.5:
        world.spark(f"alter table {{t}} drop partition field {rng.choice(fields)}")
    else:
        world.spark(f"alter table {{t}} add partition field {wanted}")
    world.partitioned_by_p_always = False


@step(EVOLUTION)
def upgrade_format(world: World, rng: Random) -> None:
    if world.format_version > 2:
        raise NotNowError
    wanted = world.format_version + 1
    world.spark(f"alter table {{t}} set tblproperties ('format-version'='{wanted}')")
    world.format_version = wanted
    world.was_upgraded = True


@step(EVOLUTION, weight=1)
def change_how_writers_write(world: World, rng: Random) -> None:
    merging = rng.choice(("true", "false"))
    pairs = {"commit.manifest-merge.enabled": merging, "commit.manifest.min-count-to-merge": rng.choice(("2", "100"))}
    if world.format_version > 1:
        mode = rng.choice(("copy-on-write", "merge-on-read"))
        pairs |= {f"write.{what}.mode": mode for what in ("delete", "update", "merge")}
    listed = ", ".join(f"'{key}'='{value}'" for key, value in pairs.items())
    world.spark(f"alter table {{t}} set tblproperties ({listed})")
