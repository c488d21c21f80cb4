"""Tasks and runs that people clear, before and after the commit."""

PASSED = {"capture": "success", "work": "success", "gate": "success", "commit": "success"}


def test_everything_is_cleared_before_and_after_the_commit(story):
    """The range stays that of the run, its rows are in the target once, and the checkpoint moves once."""
    cleared = story("cleared")
    cleared.tables([1, 2])
    first = cleared.head
    cleared.fail("gate")
    run, states = cleared.run()
    assert (states["gate"], states["commit"]) == ("failed", "upstream_failed")
    cleared.append([3])

    for tasks in (("work",), ("commit",), ("capture",), ()):
        states = _clear(cleared, run, tasks)
        assert (states["work"], states["commit"]) == ("success", "upstream_failed")
        assert cleared.committed() is None
    assert "already" in cleared.log(run, "work")

    cleared.release("gate")
    assert _clear(cleared, run, ("gate",), downstream=True) == PASSED
    outcomes = [_outcome(cleared, run)]
    for tasks in (("commit",), ("work",), ("capture",), ()):
        assert _clear(cleared, run, tasks) == PASSED
        assert cleared.committed() == first
        outcomes.append(_outcome(cleared, run))
    assert outcomes == ["advanced", "already_done", "already_done", "already_done", "replayed"]

    cleared.run()
    assert cleared.target == [1, 2, 3]
    assert cleared.committed() == cleared.head


def _clear(cleared, run, tasks, *, downstream=False):
    captured = cleared.rest.xcom("cleared", run, "capture", "capture_id")
    cleared.rest.clear("cleared", run, *tasks, downstream=downstream)
    states = cleared.finish(run)
    assert cleared.rest.xcom("cleared", run, "capture", "capture_id") == captured
    assert cleared.target == [1, 2]
    return states


def _outcome(cleared, run):
    return cleared.rest.xcom("cleared", run, "commit", "commit")["outcome"]


def test_an_older_run_is_not_repeated_over_newer_ones(story):
    """It says how to do that on purpose; one that never committed captures as new."""
    older = story("older")
    older.tables([1])
    first, _ = older.run()
    older.append([2])
    older.fail("work.begin")
    lost, states = older.run()
    assert states["work"] == "failed"
    older.release("work.begin")
    older.run()
    assert older.target == [1, 2]
    committed = older.committed()

    older.rest.clear("older", first)
    assert older.finish(first)["capture"] == "failed"
    assert "airflow ips rewind" in older.log(first, "capture")
    assert "airflow ips replay" in older.log(first, "capture")
    assert older.committed() == committed

    older.append([3])
    older.rest.clear("older", lost)
    assert older.finish(lost) == PASSED
    assert "captures as new" in older.log(lost, "capture")
    assert older.target == [1, 2, 3]
    assert older.committed() == older.head
