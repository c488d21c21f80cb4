"""Jobs between capture and commit that no worker holds: deferred to the triggerer, or running on a cluster."""

from pathlib import Path

from tests.system.components.test_kills import kill

PASSED = {"capture": "success", "work": "success", "gate": "success", "commit": "success"}


def test_a_deferred_job_is_waited_for(story, airflow):
    """The commit comes behind it; what arrives meanwhile is the next run's."""
    deferring = story("deferring")
    deferring.tables([1])
    run = deferring.rest.trigger("deferring")
    deferring.rest.wait_for_task("deferring", run, "work", "deferred")
    deferring.append([2])
    assert deferring.committed() is None

    (Path(airflow.environment["IPS_CONTROL"]) / "deferring.arrived").touch()
    assert deferring.finish(run) == PASSED
    assert deferring.target == [1]
    assert deferring.run()[1] == PASSED
    assert deferring.target == [1, 2]


def test_a_job_on_a_cluster_is_found_again_but_not_taken_for_another_capture_s(story, airflow):
    """Its task dies, the next try finds the job running; a new capture in the same run needs a job of its own."""
    resumable = story("resumable")
    resumable.tables([1])
    resumable.hold("job")
    resumable.fail("gate")
    first = resumable.rest.trigger("resumable")
    resumable.until_held("job")
    kill(resumable, first, "work")
    resumable.release("job")
    assert resumable.finish(first)["gate"] == "failed"
    assert resumable.target == [1]
    assert _jobs(airflow) == 1

    resumable.release("gate")
    assert resumable.run()[1] == PASSED
    assert _jobs(airflow) == 2
    resumable.append([2])
    resumable.rest.clear("resumable", first)
    assert resumable.finish(first) == PASSED
    assert resumable.committed() == resumable.head
    assert resumable.target == [1, 2]


def _jobs(airflow):
    return len(list(Path(airflow.environment["IPS_CONTROL"]).glob("resumable.job*.running")))
