"""An unchanged DAG between capture and commit: what its failure, a clear, a replay and a lost worker do."""

import pytest

from tests.system.components.test_kills import kill

PASSED = {"capture": "success", "run": "success", "commit": "success"}


@pytest.fixture
def wrapping(story):
    """The source has two rows, and the target nothing."""
    told = story("wrapping")
    told.tables([1, 2])
    return told


def test_an_unchanged_dag_is_run_between_capture_and_commit(wrapping):
    """Each capture has one run of the wrapped DAG, however often it is attempted."""
    first = _it_reads_the_captured_table(wrapping)
    second = _a_failure_keeps_the_checkpoint(wrapping)
    _clearing_runs_the_same_run_again(wrapping, second)
    third = _a_lost_worker_starts_no_second_run_beside_the_first(wrapping)

    assert first not in (second, third)
    assert wrapping.target == [1, 2, 3, 4, 5]
    assert wrapping.committed() == wrapping.head


def _it_reads_the_captured_table(wrapping):
    run, states = wrapping.run()
    assert states == PASSED
    table = _captured(wrapping, run)
    assert [(run["dag_run_id"], run["conf"]) for run in wrapping.rest.runs("wrapped")] == [
        (table, {"SOURCE_TABLE": table})
    ]
    assert wrapping.target == [1, 2]
    return run


def _a_failure_keeps_the_checkpoint(wrapping):
    """Both attempts are attempts of one run; the next capture covers what the failed one had."""
    before = wrapping.committed()
    wrapping.append([3])
    wrapping.fail("check")
    failed, states = wrapping.run()
    assert (states["run"], states["commit"]) == ("failed", "upstream_failed")
    assert wrapping.committed() == before
    assert len(wrapping.rest.runs("wrapped")) == 2
    assert len(wrapping.rest.tries("wrapped", _captured(wrapping, failed), "check")) == 2

    wrapping.release("check")
    wrapping.append([4])
    run, states = wrapping.run()
    assert states == PASSED
    assert wrapping.target == [1, 2, 3, 4]
    return run


def _clearing_runs_the_same_run_again(wrapping, run):
    """One task: the same table again. All of them: a replay of the same range. Neither moves the checkpoint."""
    table, committed, runs = _captured(wrapping, run), wrapping.committed(), len(wrapping.rest.runs("wrapped"))
    for tasks, outcome in ((("run", "commit"), "already_done"), ((), "replayed")):
        tries = len(wrapping.rest.tries("wrapped", table, "work"))
        wrapping.rest.clear("wrapping", run, *tasks)
        assert wrapping.finish(run) == PASSED
        assert wrapping.rest.xcom("wrapping", run, "commit", "commit")["outcome"] == outcome
        assert len(wrapping.rest.tries("wrapped", table, "work")) == tries + 1
    assert (wrapping.committed(), len(wrapping.rest.runs("wrapped"))) == (committed, runs)


def _a_lost_worker_starts_no_second_run_beside_the_first(wrapping):
    wrapping.append([5])
    runs = len(wrapping.rest.runs("wrapped"))
    wrapping.hold("merge")
    run = wrapping.rest.trigger("wrapping")
    wrapping.until_held("merge")
    kill(wrapping, run, "run")
    wrapping.release("merge")
    assert wrapping.finish(run) == PASSED
    assert len(wrapping.rest.runs("wrapped")) == runs + 1
    return run


def _captured(wrapping, run):
    return wrapping.rest.xcom("wrapping", run, "capture", "db.wrapping")
