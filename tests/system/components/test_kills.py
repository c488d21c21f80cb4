"""Task processes that are killed, as the kernel does when memory runs out, and Airflow's own retries after it."""

import os
import signal

DONE = {"capture": "success", "work": "success", "commit": "success"}


def kill(story, run_id, task_id):
    """SIGKILL the process in which a task runs, and wait until Airflow has noticed."""
    task = story.rest.wait_for_task(story.name, run_id, task_id, "running")
    os.kill(task["pid"], signal.SIGKILL)
    story.rest.wait_for(
        lambda: story.rest.tasks(story.name, run_id)[task_id]["try_number"] > task["try_number"],
        f"{task_id}'s next try",
    )


def test_each_task_is_killed_at_its_worst_moment(story):
    """Capture before its table is there, the job behind its append, commit before it drops: once each, and no more."""
    killed = story("killed")
    killed.tables([1, 2])
    _capture_is_killed(killed)
    assert killed.target == [1, 2]
    assert killed.head != killed.committed()

    run_id = _job_is_killed(killed)
    _commit_is_killed(killed, run_id)
    assert killed.finish(run_id) == DONE
    assert killed.target == [1, 2, 3]
    assert killed.committed() == killed.head
    assert killed.captured == list(killed.checkpoint().retained)


def _capture_is_killed(killed):
    """Its range is noted, the ICDC table is not there yet; a row comes before the next try, which is not its own."""
    with killed.lake.held():
        noted = killed.until_noted()
        run_id = killed.rest.trigger("killed")
        pending = noted()
        kill(killed, run_id, "capture")
    killed.append([3])
    assert killed.finish(run_id) == DONE
    assert killed.rest.xcom("killed", run_id, "capture", "capture_id") == pending.capture_id


def _job_is_killed(killed):
    """It has appended, and Airflow has not heard of it."""
    killed.hold("work.end")
    run_id = killed.rest.trigger("killed")
    killed.until_held("work.end")
    killed.hold("work.begin")
    kill(killed, run_id, "work")
    killed.release("work.end")
    return run_id


def _commit_is_killed(killed, run_id):
    """The checkpoint has moved, and the table of the run before is still to be dropped."""
    killed.until_held("work.begin")
    before = killed.committed()
    with killed.lake.held():
        killed.release("work.begin")
        killed.rest.wait_for(lambda: killed.committed() != before, "the commit to move the checkpoint")
        kill(killed, run_id, "commit")
