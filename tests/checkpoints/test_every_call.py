"""Whatever call of a capture or a commit ends badly, every row is processed by exactly one committed range.

A run is recorded call by call. Then, for each call, the same run meets a death before it, a death after it, a failure,
and a success without an answer; and is followed by a retry of the task, or by another run in its place.
"""

import itertools
import os
from dataclasses import dataclass, replace

import pytest

from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.iceberg.icdc.leftovers import find_icdc_tables
from tests.checkpoints.crash_world import CHANGES, CONSUMER, SOURCES, Failed, World, run_of
from tests.kit.calls import JOURNAL, DiedError, End

READS = ("load", "list", "read", "exists", "get", "keys")
"""Calls that change nothing: dying after one is dying before the next, and without an answer is failing."""

RECOVERIES = ("retry", "new run")
EVERY_COMBINATION = os.environ.get("IPS_CRASH_POINTS") == "all"
"""By default every call ends badly in every way that differs, and the two recoveries take turns (`make test-crash`)."""


@pytest.fixture(autouse=True)
def quiet():
    JOURNAL.stop()
    yield
    JOURNAL.stop()


@dataclass(frozen=True, kw_only=True)
class Story:
    """A world in front of a run that will meet with an accident."""

    world: World
    run: str = "r1"
    reads_count: bool = True
    """Whether calls that only read are tried too; those of a first run are made by later ones again."""
    every_end: bool = True
    """Whether each call ends badly in each way, or the ways take turns."""


def first_run(folder, kind):
    """The whole tables, a store that is empty, and a namespace that is not there yet."""
    world = World(folder, kind)
    world.append(1, 2)
    return Story(world=world, reads_count=False)


def later_run(folder, kind):
    """A range to capture, and tables to drop."""
    story = first_run(folder, kind)
    story.world.run("r0")
    story.world.append(3)
    story.world.append(4)
    return replace(story, reads_count=True)


def run_over_changes(folder, kind):
    """Two tables for each source: rows that are new, and where changed ones came from."""
    world = World(folder, kind, CHANGES)
    world.append(1, 2)
    world.run("r0")
    world.append(3)
    world.delete(1)
    return Story(world=world, reads_count=False, every_end=False)


def run_in_branches(folder, kind):
    """Captures are commits to their sources, and so is their removal."""
    world = World(folder, kind, mode="BRANCH")
    world.append(1, 2)
    world.run("r0")
    world.append(3)
    world.append(4)
    return Story(world=world, reads_count=False)


def changes_in_branches(folder, kind):
    """Two branches of each source, by one commit."""
    world = World(folder, kind, CHANGES, mode="BRANCH")
    world.append(1, 2)
    world.run("r0")
    world.append(3)
    world.delete(1)
    return Story(world=world, reads_count=False, every_end=False)


def held_run(folder, kind):
    """Tables whose files branches of the sources hold: made before them, and removed after them."""
    world = World(folder, kind, holds=True)
    world.append(1, 2)
    world.run("r0")
    world.append(3)
    world.append(4)
    return Story(world=world, reads_count=False, every_end=False)


def cleared_run(folder, kind):
    """The newest run once more: its commit has dropped its tables, which are made again."""
    world = World(folder, kind, icdc_retention="drop")
    world.append(1, 2)
    world.run("r0")
    world.append(3)
    world.append(4)
    world.run("r1")
    return Story(world=world, reads_count=False, every_end=False)


STORIES = {
    "first-variable": (first_run, "variable"),
    "later-variable": (later_run, "variable"),
    "first-iceberg": (first_run, "iceberg"),
    "later-iceberg": (later_run, "iceberg"),
    "changes-variable": (run_over_changes, "variable"),
    "cleared-variable": (cleared_run, "variable"),
    "branches-changes-variable": (changes_in_branches, "variable"),
}
if EVERY_COMBINATION:
    STORIES["branches-variable"] = (run_in_branches, "variable")
    STORIES["held-variable"] = (held_run, "variable")


@pytest.fixture(scope="module", params=list(STORIES.values()), ids=list(STORIES))
def story(request, tmp_path_factory):
    """A world as it is before the accident."""
    JOURNAL.stop()
    play, kind = request.param
    played = play(tmp_path_factory.mktemp("world"), kind)
    played.world.save()
    return played


def recorded(story, task):
    """The calls that one task makes when nothing goes wrong."""
    world, run = story.world, run_of(story.run)
    world.restore()
    record = None
    if task == "commit":
        record = world.capture(run)
        world.work(record)
    JOURNAL.start()
    if record is None:
        world.capture(run)
    else:
        world.commit(run, record)
    names = list(JOURNAL.names)
    JOURNAL.stop()
    return names


def reads_only(name):
    return any(f".{verb}" in name for verb in READS)


def points_of(names, story):
    """Which calls end how, and what comes after."""
    turn = itertools.cycle([0, 1, 1, 0, 1])  # of odd length, or each end would always meet the same recovery
    for at, name in enumerate(names):
        if story.world.kind == "iceberg" and not name.startswith("store > "):
            continue  # the same calls as with Variables
        is_read = reads_only(name)
        if is_read and not story.reads_count and not EVERY_COMBINATION:
            continue
        ends = (End.DIES_BEFORE, End.FAILS) if is_read else tuple(End)
        if EVERY_COMBINATION:
            yield from ((at, *both) for both in itertools.product(ends, RECOVERIES))
            continue
        if is_read or not story.every_end:
            ends = (ends[at % len(ends)],)
        for end in ends:
            yield at, end, RECOVERIES[next(turn)]


def attempt(task, *args):
    """Run a task that may die or fail; nothing else may come out of it."""
    try:
        return task(*args)
    except (DiedError, Failed):
        return None


def live_through(story, task, at, end, recovery):
    """One run in which one call ends badly, and what Airflow or people do about it."""
    world, run, record = story.world, run_of(story.run), None
    if task == "commit":
        record = world.capture(run)
        world.work(record)
    JOURNAL.start(at, end)
    if record is None:
        record = attempt(world.capture, run)
        done = False
    else:
        done = attempt(world.commit, run, record) is not None
    reached = JOURNAL.was_reached
    JOURNAL.stop()
    assert reached, "the call was not made again: a recorded run must be like the next one"
    if not done and recovery == "retry" and task == "commit":
        world.commit(run, record)
    elif not done and recovery == "retry":
        record = record or world.capture(run)
        if not record.context.settled:
            world.work(record)
            world.commit(run, record)
    elif not done:
        if world.settings is CHANGES:
            world.delete(3)  # the job of the run that died may have written it
        checkpoint = world.checkpoint()
        if checkpoint is not None and checkpoint.replaying is not None:
            with pytest.raises(Failed):
                world.run("r2")
            world.run(story.run)
        world.run("r2")


def check(world, rows):
    """Nothing lost, nothing twice: each row in exactly one committed range, each range where the last one ended."""
    checkpoint = world.checkpoint()
    committed = [c for c in checkpoint.history if c.wrote]
    for source in SOURCES:
        if world.settings is CHANGES:
            assert sorted(world.targets[source]) == world.source_rows(source)
        else:
            assert sorted(i for c in committed for i in world.processed[c.capture_id].get(source, ())) == rows
        check_ranges(checkpoint, source)
        head = world.open().load_table(source).current_snapshot().snapshot_id
        assert checkpoint.position_of(Source(source)).snapshot_id == head
    assert (checkpoint.pending, checkpoint.replaying, checkpoint.uncommitted) == (None, None, ())


def check_ranges(checkpoint, source):
    """Adjacent ranges touch, from nothing to the position."""
    reached = None
    for taken in (r for c in checkpoint.history for r in c.ranges if r.source.table == source):
        assert taken.from_exclusive == reached
        reached = taken.to_inclusive
    assert reached == checkpoint.position_of(Source(source))


def check_orphans(world):
    """Every file and table that is no longer needed is found by gc, and all that are needed exist."""
    checkpoint, catalog = world.checkpoint(), world.open()
    world.collect()
    newest = next(c for c in reversed(checkpoint.history) if c.wrote)
    kept = set() if world.icdc_retention == "drop" else set(newest.icdc_tables)
    if world.mode == "BRANCH":
        assert world.branches() == kept
        return
    if world.holds:
        assert world.branches() == set(newest.made) - kept
    tables = find_icdc_tables(catalog, "icdc")
    assert {table.name for table in tables} == kept
    assert kept <= set(checkpoint.retained)
    used = {file for table in tables for file in table.files}
    # A manifest list of ours stands for all files of its attempt's folder.
    folders = {file.rpartition("/")[0] for file in used if file.endswith("/snap.avro")}
    assert used <= world.icdc_files()
    assert not [file for file in world.icdc_files() - used if file.rpartition("/")[0] not in folders]
    if world.kind == "iceberg":
        check_log(world, catalog)


def check_log(world, catalog):
    log = catalog.load_table(world.store(is_plain=True).table_name(CONSUMER))
    named = {log.metadata_location, *(entry.metadata_file for entry in log.metadata.metadata_log)}
    assert {f for f in world.log_files() if f.endswith(".json")} == named


@pytest.mark.parametrize("task", ["capture", "commit"])
def test_no_call_can_lose_or_repeat_a_row(story, task):
    world = story.world
    names = recorded(story, task)
    assert names
    rows = world.source_rows(SOURCES[0])
    for at, end, recovery in points_of(names, story):
        world.restore()
        try:
            live_through(story, task, at, end, recovery)
            check(world, rows)
            if EVERY_COMBINATION or not reads_only(names[at]):
                world.append(9)
                world.run("r3")
                check(world, [*rows, 9])
                check_orphans(world)
        except BaseException as error:
            error.add_note(f"{task}: call {at} ({names[at]}) {end.value}, then {recovery}")
            raise
