"""Tasks and runs that people mark as a success or a failure, whatever they are doing."""

import time

import psutil

from airflow_provider_ips.runs.active_runs import LAST_HEARTBEAT


def test_no_mark_moves_a_checkpoint(story):
    """Each task and the whole run, either way: what was not processed comes with the next run, once."""
    marked = story("marked")
    marked.tables([1])
    for state in ("failed", "success"):
        assert _caught_in_capture(marked, state)["commit"] == "upstream_failed"
    for task, state in [("work", "failed"), ("work", "success"), (None, "success"), (None, "failed")]:
        _caught_in_work(marked, task, state)
        assert marked.committed() is None, (task, state)
    assert marked.target == []

    time.sleep(LAST_HEARTBEAT.total_seconds())  # so long a run that was marked failed counts as active
    run = _commit_is_marked(marked)
    assert marked.committed() is None
    marked.rest.clear("marked", run)
    assert marked.finish(run)["commit"] == "success"
    assert marked.target == [1]

    marked.rest.mark("marked", run, "commit", "failed")
    assert marked.committed() == marked.head
    marked.append([2])
    marked.run()
    assert marked.target == [1, 2]


def _caught_in_capture(marked, state):
    """Its range is noted, its table is not there yet."""
    with marked.lake.held():
        noted = marked.until_noted()
        run = marked.rest.trigger("marked")
        noted()
        pid = marked.rest.tasks("marked", run)["capture"]["pid"]
        marked.rest.mark("marked", run, "capture", state)
        _until_gone(marked, pid)
    return marked.finish(run)


def _caught_in_work(marked, task, state):
    """It has written nothing yet. A commit after it asks the target."""
    marked.hold("work.begin")
    run = marked.rest.trigger("marked")
    marked.until_held("work.begin")
    pid = marked.rest.tasks("marked", run)["work"]["pid"]
    if task is None:
        marked.rest.mark_run("marked", run, state)
    else:
        marked.rest.mark("marked", run, task, state)
    states = marked.finish(run)
    if (task, state) == ("work", "success"):
        assert states["commit"] == "failed"
        assert "has the stamp" in marked.log(run, "commit")
    _until_gone(marked, pid)
    marked.release("work.begin")


def _until_gone(marked, pid):
    """Airflow ends the process of a task that was marked, at its next heartbeat."""
    marked.rest.wait_for(lambda: not psutil.pid_exists(pid), f"process {pid} of a marked task to end")


def _commit_is_marked(marked):
    """The work is done, and somebody says that so is the commit."""
    marked.fail("gate")
    run, states = marked.run()
    assert states["commit"] == "upstream_failed"
    marked.rest.mark("marked", run, "commit", "success")
    marked.release("gate")
    return run


def test_a_mark_on_the_job_is_taken_at_its_word_without_a_target_to_ask(story):
    """Who says that the rows are processed has said so; with verify_target, as above, the target has the last word."""
    trusting = story("trusting")
    trusting.tables([1])
    trusting.fail("work.begin")
    run, states = trusting.run()
    assert (states["work"], states["commit"]) == ("failed", "upstream_failed")

    trusting.rest.mark("trusting", run, "work", "success")
    trusting.rest.clear("trusting", run, "gate", downstream=True)
    assert trusting.finish(run)["commit"] == "success"
    assert trusting.committed() == trusting.head
    assert trusting.target == []
