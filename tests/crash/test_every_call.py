"""Whatever call of a capture or a commit ends badly, every row is processed by exactly one committed range.

A run is recorded call by call. Then, for each call, the same run meets a death before it, a death after it, a failure,
and a success without an answer; and is followed by a retry of the task, or by another run in its place.
"""

import itertools
import os

import pytest

from airflow_provider_ips.iceberg.garbage import find_icdc
from tests.crash.calls import JOURNAL, DiedError, End
from tests.crash.world import CONSUMER, SOURCES, Failed, World, run_of

READS = ("load", "list", "read", "exists", "get", "keys")
"""Calls that change nothing: dying after one is dying before the next, and without an answer is failing."""

RECOVERIES = ("retry", "new run")
EVERY_COMBINATION = os.environ.get("IPS_CRASH_POINTS") == "all"
"""By default every call ends badly in every way that differs, and the two recoveries take turns (`make test-crash`)."""


@pytest.fixture(scope="module", params=["variable", "iceberg"])
def kind(request):
    return request.param


@pytest.fixture(autouse=True)
def quiet():
    JOURNAL.stop()
    yield
    JOURNAL.stop()


@pytest.fixture(scope="module", params=["first", "later"])
def story(request, kind, tmp_path_factory):
    """A world in front of a run: its first, or one that has a range to capture and tables to drop."""
    JOURNAL.stop()
    world = World(tmp_path_factory.mktemp("world"), kind)
    world.append(1, 2)
    rows = [1, 2]
    if request.param == "later":
        world.run("r0")
        world.append(3)
        world.append(4)
        rows = [1, 2, 3, 4]
    world.save()
    return world, rows


def recorded(world, task):
    """The calls that one task makes when nothing goes wrong."""
    world.restore()
    run = run_of("r1")
    outcome = None
    if task == "commit":
        outcome = world.capture(run)
        world.work(outcome)
    JOURNAL.start()
    if outcome is None:
        world.capture(run)
    else:
        world.commit(run, outcome)
    names = list(JOURNAL.names)
    JOURNAL.stop()
    return names


def reads_only(name):
    return any(f".{verb}" in name for verb in READS)


def points_of(names, kind, *, is_first):
    """Which calls end how, and what comes after."""
    turn = itertools.cycle([0, 1, 1, 0, 1])  # of odd length, or each end would always meet the same recovery
    for at, name in enumerate(names):
        if kind == "iceberg" and not name.startswith("store > "):
            continue  # the same calls as with Variables
        is_read = reads_only(name)
        if is_read and is_first and not EVERY_COMBINATION:
            continue  # a later run makes the same calls, and more
        ends = (End.DIES_BEFORE, End.FAILS) if is_read else tuple(End)
        if EVERY_COMBINATION:
            yield from ((at, *both) for both in itertools.product(ends, RECOVERIES))
            continue
        for end in ends[:1] if is_read and at % 2 else ends[1:2] if is_read else ends:
            yield at, end, RECOVERIES[next(turn)]


def attempt(task, *args):
    """Run a task that may die or fail; nothing else may come out of it."""
    try:
        return task(*args)
    except (DiedError, Failed):
        return None


def live_through(world, task, at, end, recovery):
    """One run in which one call ends badly, and what Airflow or people do about it."""
    run, outcome = run_of("r1"), None
    if task == "commit":
        outcome = world.capture(run)
        world.work(outcome)
    JOURNAL.start(at, end)
    if outcome is None:
        outcome = attempt(world.capture, run)
        done = False
    else:
        done = attempt(world.commit, run, outcome) is not None
    reached = JOURNAL.was_reached
    JOURNAL.stop()
    assert reached, "the call was not made again: a recorded run must be like the next one"
    if not done and recovery == "retry":
        outcome = outcome or world.capture(run)
        if not outcome.settled:
            world.work(outcome)
            world.commit(run, outcome)
    elif not done:
        world.run("r2")


def check(world, rows):
    """Nothing lost, nothing twice: each row in exactly one committed range."""
    checkpoint = world.checkpoint()
    committed = [c.capture_id for c in checkpoint.history if c.wrote]
    catalog = world.open()
    for source in SOURCES:
        seen = sorted(i for capture_id in committed for i in world.processed[capture_id].get(source, ()))
        assert seen == rows
        head = catalog.load_table(source).current_snapshot().snapshot_id
        assert checkpoint.position_of(source, "main").snapshot_id == head
    assert checkpoint.pending is None


def check_orphans(world):
    """No file and no table is left that nobody needs and gc does not find; those that are needed are all there."""
    checkpoint, catalog = world.checkpoint(), world.open()
    world.collect()
    tables = find_icdc(catalog, "icdc")
    newest = next(c for c in reversed(checkpoint.history) if c.wrote)
    assert {table.name for table in tables} == set(newest.icdc_tables) == set(checkpoint.retained)
    assert world.icdc_files() == {file for table in tables for file in table.files}
    if world.kind == "iceberg":
        check_log(world, catalog)


def check_log(world, catalog):
    log = catalog.load_table(world.store(is_plain=True).table_name(CONSUMER))
    named = {log.metadata_location, *(entry.metadata_file for entry in log.metadata.metadata_log)}
    assert {f for f in world.log_files() if f.endswith(".json")} == named


@pytest.mark.parametrize("task", ["capture", "commit"])
def test_no_call_can_lose_or_repeat_a_row(story, task):
    world, rows = story
    names = recorded(world, task)
    assert len(names) > 3
    for at, end, recovery in points_of(names, world.kind, is_first=len(rows) == 2):
        world.restore()
        try:
            live_through(world, task, at, end, recovery)
            check(world, rows)
            if EVERY_COMBINATION or not reads_only(names[at]):
                world.append(9)
                world.run("r3")
                check(world, [*rows, 9])
                check_orphans(world)
        except BaseException as error:
            error.add_note(f"{task}: call {at} ({names[at]}) {end.value}, then {recovery}")
            raise
