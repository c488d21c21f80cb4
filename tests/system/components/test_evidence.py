"""What commits take for evidence in runs that people cleared, with lists that changed: all stories at once."""

import json
from dataclasses import dataclass, field

import pytest

TABLES = ("db.one", "db.two")
RELEASED = None
CLEARED = ("capture",)


@dataclass(frozen=True, kw_only=True, eq=False)
class Told:
    """One story: what its tasks do at first, what is changed and cleared, and what the run comes to."""

    name: str
    lists: tuple[list, ...] = ()
    first: dict = field(default_factory=dict)
    then: dict = field(default_factory=dict)
    cleared: tuple = (CLEARED,)
    """What is cleared, one after the other: the tasks, with all that is downstream of them unless they say `alone`."""

    states: dict
    says: dict = field(default_factory=dict)
    """By commit, what its log says of the evidence that is missing."""
    moved: tuple = ()
    """The consumers whose checkpoints have moved in the end."""


STORIES = (
    Told(
        name="shorter",
        lists=([1, 2, 3], [1, 2]),
        first={"work.3": "fail"},
        then={"work.3": RELEASED},
        states={"work[0]": "success", "work[1]": "success", "work[2]": "removed", "commit": "failed"},
        says={"commit": "'work[2]' is removed"},
    ),
    Told(
        name="chain",
        lists=([1, 2, 3], [1, 2]),
        first={"work.3": "fail"},
        then={"work.3": RELEASED},
        # In a chain of two mapped tasks Airflow may remove `second[1]` as well, though it has its element.
        states={"second[2]": "removed", "commit": "failed"},
        says={"commit": "'second[2]' is removed"},
    ),
    Told(
        name="empty",
        lists=([1, 2], []),
        first={"work.2": "fail"},
        states={"work[0]": "removed", "work[1]": "removed", "commit": "failed"},
        says={"commit": "'work[0]' is removed"},
    ),
    Told(
        name="longer",
        lists=([1], [1, 2]),
        first={"work.1": "fail"},
        then={"work.1": RELEASED},
        states={"work[0]": "success", "work[1]": "success", "commit": "success"},
        moved=("capture",),
    ),
    Told(
        name="alone",
        lists=([1, 2], [1, 2]),
        first={"work.2": "fail"},
        then={"work.2": RELEASED},
        cleared=((["work", 1],),),
        states={"work[0]": "success", "work[1]": "success", "commit": "success"},
        moved=("capture",),
    ),
    Told(
        name="skipped",
        lists=([1, 2], [1, 2]),
        first={"work.1": "fail", "work.2": "skip"},
        then={"work.1": RELEASED},
        states={"work[0]": "success", "work[1]": "skipped", "commit": "failed"},
        says={"commit": "'work[1]' is skipped"},
    ),
    Told(
        name="inner",
        first={"work.db.two": "fail"},
        cleared=((["one.inner.work", 1],),),
        states={"one.commit[0]": "success", "one.commit[1]": "failed"},
        says={"one.commit[1]": "'one.inner.work[1]' is failed"},
        moved=("one.inner.capture.db.one",),
    ),
    Told(
        name="outside",
        first={"work.3": "fail"},
        cleared=((["work", 0],),),
        states={"work[0]": "success", "work[2]": "failed", "each.commit[0]": "failed", "each.commit[1]": "failed"},
        says={"each.commit[0]": "'work[2]' is failed", "each.commit[1]": "'work[2]' is failed"},
    ),
    Told(
        name="reordered",
        lists=(["db.one", "db.two"], ["db.two", "db.one"]),
        first={"work.db.two": "fail"},
        cleared=(("listing", "alone"), (["every.work", 1],)),
        states={"every.work[1]": "success", "every.commit[0]": "success", "every.commit[1]": "failed"},
        says={"every.commit[1]": "has captured db.two, and instance 1"},
        moved=("every.capture.db.one",),
    ),
)


@pytest.fixture
def tell(story):
    """Tell all stories at the same time, each in a DAG of its own, and leave the runs as they ended."""
    worlds = {told: story(f"evidence_{told.name}", lake="evidence") for told in STORIES}
    lake = next(iter(worlds.values())).lake
    for table in TABLES:
        lake.create(table, [1])
    for told, world in worlds.items():
        _set(world, told.first, told.lists[:1])
    runs = {told: world.rest.trigger(world.name) for told, world in worlds.items()}
    for told, world in worlds.items():
        world.finish(runs[told])
        _set(world, told.then, told.lists[1:])
    for step in range(max(len(told.cleared) for told in STORIES)):
        clearing = [told for told in STORIES if step < len(told.cleared)]
        for told in clearing:
            tasks = [task for task in told.cleared[step] if task != "alone"]
            downstream = "alone" not in told.cleared[step]
            worlds[told].rest.clear(worlds[told].name, runs[told], *tasks, downstream=downstream)
        for told in clearing:
            worlds[told].finish(runs[told])
    return worlds, runs


def _set(world, orders, lists):
    for elements in lists:
        world.orders.put(f"{world.name}.list", json.dumps(elements))
    for point, word in orders.items():
        if word is RELEASED:
            world.release(point)
        else:
            world.orders.put(f"{world.name}.{point}", word)


def test_a_checkpoint_moves_only_if_every_task_did_its_part(tell):
    worlds, runs = tell
    problems = {told.name: found for told in STORIES if (found := _problems(told, worlds[told], runs[told]))}
    assert problems == {}


def _problems(told, world, run):
    states = world.rest.states(world.name, run)
    found = {name: states.get(name) for name in told.states} if told.states.items() - states.items() else {}
    for commit, text in told.says.items():
        log = _log(world, run, commit)
        if text not in log:
            found[f"log of {commit}"] = log[-2000:]
    captures = {name.partition("[")[0] for name in states if "capture" in name}
    consumers = [name if name == "capture" else f"{name}.{table}" for name in captures for table in TABLES]
    moved = {name for name in consumers if (kept := world.checkpoint(f"{world.name}.{name}")) and kept.positions}
    return found | ({"moved": moved} if moved != set(told.moved) else {})


def _log(world, run, commit):
    name, _, index = commit.removesuffix("]").partition("[")
    tries = world.rest.tasks(world.name, run)[commit]["try_number"]
    return world.rest.log(world.name, run, name, tries, map_index=int(index or -1))
