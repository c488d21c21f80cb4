"""A random week of changes flows through three stages in three DAGs, started by events of tables alone.

``CASCADE_DAYS`` says how many days, ``CASCADE_SEED`` which week; the seed is in the message of every failure.
"""

import os
from random import Random

import pytest

from tests.kit.rest import until
from tests.system.cascades.stages import SOURCE, STAGES, WATCHED, found, has_come_to_rest, is_idle, recomputed
from tests.system.cascades.week import Writer

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(3600)]

DAYS = int(os.environ.get("CASCADE_DAYS", "7"))
SEED = int(os.environ.get("CASCADE_SEED", "20347"))
"""Two days of this week have the most kinds of change: on a table of v3 a delete, copy-on-write, and a MERGE,
merge-on-read; compaction of the source and of two targets; then a day dropped and one delivered again."""
PATIENCE_S = 400
MIDDLE = STAGES[1]
UNTROUBLED, RETRIED, GIVEN_UP = "untroubled", "retried", "given up"


def test_every_stage_equals_a_full_recomputation_after_every_step(world):
    """Late rows, corrections and deletions arrive at the last stage, whatever failed or was compacted on the way.

    On untroubled days a step is one commit. On the others commits come while stages run, fail, and catch up, and
    the day is the step.
    """
    random = Random(SEED)  # noqa: S311 - a week, no secret
    writer = Writer(world.spark, random)
    writer.create()
    troubles = [GIVEN_UP, RETRIED, UNTROUBLED]
    changes = random.sample(writer.changes, len(writer.changes))
    for number in range(DAYS):
        # A stage that was given up is caught up with by the next day's events, so that the last day has to end well.
        trouble = UNTROUBLED if number + 1 == DAYS and number % 3 == 0 else troubles[number % 3]
        writer.told.append(f"-- day {number + 1}, middle stage {trouble}")
        events_before = events_of_the_source(world)
        commits = [writer.begin_day, *(changes[(2 * number + i) % len(changes)] for i in (0, 1))]
        if trouble == UNTROUBLED:
            for commit in commits:
                a_step(world, writer, commit)
        else:
            a_troubled_day(world, writer, commits, trouble)
        assert_equal(world, writer, STAGES[:1] if trouble == GIVEN_UP else STAGES)
        assert 1 <= events_of_the_source(world) - events_before <= len(commits)
        tidy_up(writer, random)
    assert {run["run_type"] for stage in STAGES for run in world.rest.runs(stage.dag_id)} == {"asset_triggered"}


def a_step(world, writer, commit):
    """One commit, rest, and nothing that a full recomputation would tell otherwise."""
    writer.do(commit)
    patiently(lambda: has_come_to_rest(world), f"rest; seed {SEED}: {writer.told}")
    assert_equal(world, writer, STAGES)


def a_troubled_day(world, writer, commits, trouble):
    """Commits, some while stages are running, one of which fails; and rest at the end."""
    after_writing = writer.random.random() < 0.5
    world.jobs.break_level("titles", after_writing=after_writing)
    writer.told.append(f"its job fails {'after' if after_writing else 'before'} it writes")
    runs = len(world.rest.runs(MIDDLE.dag_id))
    for number, commit in enumerate(commits):
        if number:
            meet_a_stage(world, writer.random)
        writer.do(commit)
    if trouble == RETRIED:
        patiently(lambda: has_failed_once(world, runs), "the middle stage to fail")
        world.jobs.repair()
    resting = STAGES[:1] if trouble == GIVEN_UP else STAGES
    patiently(lambda: has_come_to_rest(world, resting), f"rest; seed {SEED}: {writer.told}")
    if trouble == GIVEN_UP:
        patiently(lambda: is_given_up(world, runs), "the middle stage to be given up")
        world.jobs.repair()


def patiently(answer, what):
    """Ask now and then: asking costs the processors that the stages run on."""
    until(answer, seconds=PATIENCE_S, what=what, pause_s=1)


def meet_a_stage(world, random):
    """Wait until some stage is running, or do not: a change may come at any moment."""
    stage = random.choice([None, *STAGES[:2]])
    if stage is not None:
        patiently(lambda: not is_idle(world.rest, stage) or has_come_to_rest(world), "a stage to run")


def has_failed_once(world, runs):
    """The middle stage's job has ended badly in a run that began this day, and is to be tried again."""
    new = world.rest.runs(MIDDLE.dag_id)[runs:]
    jobs = [world.rest.tasks(MIDDLE.dag_id, run["dag_run_id"]).get("aggregate") for run in new]
    return any(job and (job["state"] == "up_for_retry" or job["try_number"] > 1) for job in jobs)


def is_given_up(world, runs):
    """No try is left, and nobody started another run."""
    new = world.rest.runs(MIDDLE.dag_id)[runs:]
    return is_idle(world.rest, MIDDLE) and any(run["state"] == "failed" for run in new)


def tidy_up(writer, random):
    """Compaction of any of the tables, between the days: nobody is to notice."""
    for name in (SOURCE, *(stage.target for stage in STAGES)):
        if random.random() < 0.4 and writer.spark.catalog.tableExists(f"lake.{name}"):
            writer.do(writer.compact, f"lake.{name}")


def events_of_the_source(world):
    return sum(event["name"] == WATCHED for event in world.rest.asset_events())


def assert_equal(world, writer, stages):
    expected = dict(zip(STAGES, recomputed(writer.rows()), strict=True))
    for stage in stages:
        there, wanted = found(world, stage), expected[stage]
        wrong, missing = sorted(there - wanted)[:5], sorted(wanted - there)[:5]
        assert there == wanted, f"{stage.target} has {wrong}, not {missing}; seed {SEED}: {writer.told}"
