"""What moves branches: rollback, cherry-pick, write-audit-publish, and tables that begin anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.system.histories.appends import as_select
from tests.system.histories.java import data_files
from tests.system.histories.ledger import Column, Effect, Ledger
from tests.system.histories.registry import LINEAGE, step
from tests.system.histories.world import EngineRefusedError, NotNowError

if TYPE_CHECKING:
    from random import Random

    from tests.system.histories.world import World

BRANCH = "audit"
BASE_COLUMNS = (("id", "bigint"), ("v", "int"), ("p", "int"), ("d", "date"), ("s", "string"))


def create_table(world: World) -> None:
    """The first step of every history."""
    begin_ledger(world)
    listed = ", ".join(f"{c.name} {c.type}" for c in world.columns)
    world.lake.sql(f"create table {world.sql_name} ({listed}) {world.profile.ddl_in(world.format_version)}")
    world.settle()


def begin_ledger(world: World) -> None:
    """A table that has nothing yet."""
    world.ledger = Ledger(columns=[Column(uid=world.number(), name=n, type=t) for n, t in BASE_COLUMNS])
    world.heads = {"main": None}
    world.staged = []
    world.timeline = []
    world.format_version = world.profile.format_version
    world.partitioned_by_p_always = world.profile.partitioning == "p"
    world.has_equality_deletes = world.has_name_mapping = world.was_upgraded = world.must_not_expire = False


@step(LINEAGE)
def roll_back(world: World, rng: Random) -> None:
    """To an ancestor that is still there."""
    ancestors = [c.snapshot_id for c in world.ledger.chain(world.head)[1:] if _usable(world, c.snapshot_id)]
    if not ancestors:
        raise NotNowError
    target = rng.choice(ancestors[:4])
    world.procedure("rollback_to_snapshot", f"snapshot_id => {target}")
    world.heads["main"] = target
    world.settle()


@step(LINEAGE, weight=1)
def set_current_snapshot(world: World, rng: Random) -> None:
    """To any snapshot that is there, of whatever lineage."""
    others = [i for i in world.ledger.commits if _usable(world, i) and i != world.head]
    if not others:
        raise NotNowError
    target = rng.choice(others)
    world.procedure("set_current_snapshot", f"snapshot_id => {target}")
    world.heads["main"] = target
    world.settle()


def _usable(world: World, snapshot_id: int) -> bool:
    """Retained, and a state that the ledger knows."""
    return snapshot_id not in world.ledger.expired and world.ledger.commits[snapshot_id].effect.after is not None


@step(LINEAGE)
def create_branch(world: World, rng: Random) -> None:
    if BRANCH in world.heads or world.head is None:
        raise NotNowError
    world.spark(f"alter table {{t}} create branch {BRANCH}")
    world.heads[BRANCH] = world.head
    world.settle()


@step(LINEAGE, weight=3)
def insert_into_branch(world: World, rng: Random) -> None:
    if BRANCH not in world.heads:
        raise NotNowError
    rows = world.new_rows(rng)
    with world.engine():
        world.lake.sql(f"insert into {world.sql_name}.branch_{BRANCH} {as_select(world, rows.values())}")
    effect = Effect(appends=tuple(rows.values()), after={**world.rows(BRANCH), **rows})
    world.record("insert_into_branch", effect, branch=BRANCH)


@step(LINEAGE)
def fast_forward(world: World, rng: Random) -> None:
    """Publish what was audited."""
    if BRANCH not in world.heads or world.ledger.since(world.head, world.heads[BRANCH]) is None:
        raise NotNowError
    world.procedure("fast_forward", f"branch => 'main', to => '{BRANCH}'")
    world.heads["main"] = world.heads[BRANCH]
    world.settle()


@step(LINEAGE, weight=1)
def drop_branch(world: World, rng: Random) -> None:
    if BRANCH not in world.heads:
        raise NotNowError
    world.spark(f"alter table {{t}} drop branch {BRANCH}")
    del world.heads[BRANCH]
    world.settle()


@step(LINEAGE)
def stage_an_append(world: World, rng: Random) -> None:
    """A snapshot that no branch has yet."""
    rows = world.new_rows(rng)
    with world.engine():
        table = world.lake.java_table(world.name)
        update = table.newAppend().stageOnly()
        for file in data_files(world, table, list(rows.values())):
            update = update.appendFile(file)
        update.commit()
    effect = Effect(appends=tuple(rows.values()), after={**world.rows(), **rows})
    world.record("stage_an_append", effect, moves=False)
    world.staged.append(list(world.ledger.commits)[-1])


@step(LINEAGE)
def cherry_pick(world: World, rng: Random) -> None:
    """Publish a staged append: by a snapshot of its own, or as it is where main stands at its parent."""
    staged = [i for i in world.staged if i not in world.ledger.expired]
    if not staged:
        raise NotNowError
    picked = world.ledger.commits[rng.choice(staged)]
    world.staged.remove(picked.snapshot_id)
    world.procedure("cherrypick_snapshot", f"snapshot_id => {picked.snapshot_id}")
    if picked.parent_id == world.head:
        world.heads["main"] = picked.snapshot_id
        world.settle()
        return
    rows = picked.effect.appends
    by_id = {row.get(next(c.uid for c in world.columns if c.name == "id")): row for row in rows}
    world.record("cherry_pick", Effect(appends=rows, after={**world.rows(), **by_id}))


@step(LINEAGE, weight=1)
def drop_and_create_again(world: World, rng: Random) -> None:
    """Another table under the same name."""
    world.spark("drop table {t}")
    world.earlier_ledgers.append(world.ledger)
    create_table(world)


@step(LINEAGE, weight=1)
def create_or_replace(world: World, rng: Random) -> None:
    """The same table and its old snapshots, with a lineage, columns and a partitioning that begin anew."""
    base = {c.name: c for c in world.columns if (c.name, c.type) in BASE_COLUMNS}
    if len(base) < len(BASE_COLUMNS):
        raise NotNowError
    before = world.ledger.columns
    world.ledger.columns = [base[name] for name, _ in BASE_COLUMNS]
    rows = world.new_rows(rng)
    try:
        # The format cannot be lowered, and columns that keep their names keep their field ids.
        ddl = world.profile.ddl_in(world.format_version)
        world.spark(f"create or replace table {{t}} {ddl} as {as_select(world, rows.values())}")
    except EngineRefusedError:
        world.ledger.columns = before
        raise
    world.heads["main"] = None
    world.partitioned_by_p_always = False
    world.record("create_or_replace", Effect(appends=tuple(rows.values()), after=rows))
