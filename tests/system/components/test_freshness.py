"""A consumer that no run of its own would ever report, and the DAG that looks at it by its schedule."""

CONSUMER = "lagging.capture"


def test_a_breach_is_noticed_once_though_no_run_starts_and_once_when_it_is_over(story):
    """Nothing starts the DAG; `ips_watch` is started by the scheduler."""
    lagging = story("lagging")
    lagging.tables([1])
    lagging.run()
    lagging.append([2])

    lagging.rest.pause("ips_watch", paused=False)
    try:
        lagging.rest.wait_for(lambda: len(_looks(lagging)) > 2 and _said(lagging), "a breach to be noticed")
        _until_looked_again(lagging)
        (breach,) = _said(lagging)
        assert f"{CONSUMER} lags by" in breach

        lagging.run()
        lagging.rest.wait_for(lambda: len(_said(lagging)) > 1, "its end to be noticed")
        _until_looked_again(lagging)
        assert len(_said(lagging)) == 2
        assert "keeps its target" in _said(lagging)[-1]
    finally:
        lagging.rest.pause("ips_watch")
    assert lagging.target == [1, 2]


def _looks(lagging):
    """The runs of the DAG that have ended, oldest first."""
    runs = sorted(lagging.rest.runs("ips_watch"), key=lambda run: run["run_after"])
    assert {run["run_type"] for run in runs} <= {"scheduled"}
    assert not any(run["state"] == "failed" for run in runs)
    return [run["dag_run_id"] for run in runs if run["state"] == "success"]


def _said(lagging):
    found = (lagging.rest.xcom("ips_watch", run, "look", CONSUMER, may_lack=True) for run in _looks(lagging))
    return [message for message in found if message is not None]


def _until_looked_again(lagging):
    looks = len(_looks(lagging))
    lagging.rest.wait_for(lambda: len(_looks(lagging)) > looks, "another look")
