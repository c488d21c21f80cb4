"""What a capture hands to the tasks behind it, run by run, on a real table and a real Airflow."""

from tests.airflow.pipelines import incremental
from tests.airflow.tables import append, create


def test_first_run_captures_the_whole_table(lake, run_dag):
    """initial="full": all live files, and the checkpoint stands at the head afterwards."""
    table = create(lake, "db.events")
    append(table, [1, 2, 3])
    seen = []

    ran = run_dag(incremental("first", lake, "db.events", seen))

    assert ran.states == {"capture": "success", "work": "success", "commit": "success"}
    assert seen == [[1, 2, 3]]


def test_second_run_captures_only_what_came_since(lake, run_dag):
    table = create(lake, "db.events")
    append(table, [1, 2, 3])
    seen = []
    dag = incremental("second", lake, "db.events", seen)
    run_dag(dag)
    append(table, [4])
    append(table, [5, 6])

    run_dag(dag)

    assert seen == [[1, 2, 3], [4, 5, 6]]
