"""Task processes that are killed, as the kernel does when memory runs out, and Airflow's own retries after it."""

import os
import signal


def kill(world, dag_id, run_id, task_id):
    """SIGKILL the process in which a task runs, and wait until Airflow has noticed."""
    task = world.rest.wait_for_task(dag_id, run_id, task_id, "running")
    os.kill(task["pid"], signal.SIGKILL)
    world.rest.wait_for(
        lambda: world.rest.tasks(dag_id, run_id)[task_id]["try_number"] > task["try_number"], f"{task_id}'s next try"
    )


def test_each_task_is_killed_at_its_worst_moment(world):
    """Capture before its table is there, the job behind its append, commit before it drops: once each, and no more."""
    world.tables("killed", [1, 2])
    first = _capture_is_killed(world)
    assert world.rest.finish("killed", first) == {"capture": "success", "work": "success", "commit": "success"}
    assert world.target("killed") == [1, 2]
    assert world.lake.head("db.killed") != world.committed("killed")

    _job_is_killed(world)
    second = _commit_is_killed(world)
    assert world.rest.finish("killed", second)["commit"] == "success"
    assert world.target("killed") == [1, 2, 3]
    assert world.committed("killed") == world.lake.head("db.killed")
    assert world.captured("killed") == list(world.checkpoint("killed.capture").retained)


def _capture_is_killed(world):
    """Its range is noted, the ICDC table is not there yet; a row comes before the next try, which is not its own."""
    with world.lake.held():
        run_id = world.rest.trigger("killed")
        noted = world.rest.wait_for(lambda: world.pending("killed"), "the capture to note its range")
        kill(world, "killed", run_id, "capture")
    world.append("killed", [3])
    assert world.rest.finish("killed", run_id)["capture"] == "success"
    assert world.rest.xcom("killed", run_id, "capture", "capture_id") == noted.capture_id
    return run_id


def _job_is_killed(world):
    """It has appended, and Airflow has not heard of it."""
    world.orders.hold("killed.work.end")
    run_id = world.rest.trigger("killed", "second")
    world.rest.wait_for(lambda: world.orders.reached("killed.work.end"), "the job to append")
    world.orders.hold("killed.work.begin")
    kill(world, "killed", run_id, "work")
    world.orders.release("killed.work.end")


def _commit_is_killed(world):
    """The checkpoint has moved, and the table of the run before is still to be dropped."""
    world.rest.wait_for(lambda: world.orders.reached("killed.work.begin"), "the job's second try")
    before = world.committed("killed")
    with world.lake.held():
        world.orders.release("killed.work.begin")
        world.rest.wait_for(lambda: world.committed("killed") != before, "the commit to move the checkpoint")
        kill(world, "killed", "second", "commit")
    return "second"
