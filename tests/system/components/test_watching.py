"""DAGs that the table starts, under a writer that appends and compacts, while the triggerer is killed."""

from tests.kit.moves import commit_nothing, compact

ROUNDS = 4


def test_a_killed_triggerer_strands_no_row_and_compaction_starts_nothing(story, airflow):
    """Asset and sensor: each appended row is processed once, whether it came before, during or after the outage."""
    watched, sensing = story("watched", "watching"), story("sensing", "watching")
    for dag in (watched, sensing):
        dag.lake.create(f"db.{dag.name}_target")
    table = watched.lake.create("db.watching", [0])
    rows = [0]
    runs = [sensing.rest.trigger("sensing")]
    _until_processed(watched, sensing, rows)

    for number in range(1, ROUNDS + 1):
        runs.append(sensing.rest.trigger("sensing"))
        sensing.rest.wait_for_task("sensing", runs[-1], "arrived", "deferred")
        if number % 2:
            airflow.kill("triggerer")
        for row in (10 * number, 10 * number + 1):
            watched.lake.append("db.watching", [row])
            compact(table)
            rows.append(row)
        commit_nothing(table)
        if number % 2:
            airflow.start("triggerer")
        _until_processed(watched, sensing, rows)

    _compaction_alone_starts_nothing(watched, sensing, table, rows)
    for dag in (watched, sensing):
        assert dag.target == sorted(rows)


def _until_processed(watched, sensing, rows):
    for dag in (watched, sensing):
        dag.rest.wait_for(lambda dag=dag: set(dag.target) == set(rows), f"{dag.name} to process {rows}")
    _until_idle(watched)
    _until_idle(sensing)


def _until_idle(dag):
    dag.rest.wait_for(
        lambda: all(run["state"] in ("success", "failed") for run in dag.rest.runs(dag.name)), f"{dag.name} to be idle"
    )


def _compaction_alone_starts_nothing(watched, sensing, table, rows):
    """What is told next is the append behind it, once."""
    events, runs = len(watched.rest.asset_events()), len(watched.rest.runs("watched"))
    run = sensing.rest.trigger("sensing")
    sensing.rest.wait_for_task("sensing", run, "arrived", "deferred")
    compact(table)
    commit_nothing(table)
    compact(table)
    watched.lake.append("db.watching", [99])
    rows.append(99)
    _until_processed(watched, sensing, rows)
    assert len(watched.rest.asset_events()) == events + 1
    assert len(watched.rest.runs("watched")) == runs + 1
    seen = sensing.rest.xcom("sensing", run, "arrived", "return_value")
    assert [each["records"] for each in seen["tables"]] == [1]
