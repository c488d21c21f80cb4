"""A DAG that follows changes: the job reads both tables, and what a failed run may have left is corrected."""

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCommitOperator
from airflow_provider_ips.core.checkpoint.manual_changes import abandon, rewind
from airflow_provider_ips.core.settings import ALL_OPERATIONS
from tests.kit.pipelines import capturing, checkpoint_of, default_store
from tests.kit.tables import append, create, icdc_tables, rows

SOURCE = "db.events"


@pytest.fixture
def events(lake):
    """A source of two files."""
    table = create(lake, SOURCE)
    append(table, [1, 2, 3])
    append(table, [4])
    return table


def following(dag_id, job, **options):
    """Capture all three operations, and hand both tables to the job."""
    with DAG(dag_id, schedule=None) as dag:
        captured = capturing(SOURCE, **{"data_operations": ALL_OPERATIONS, "on_superset": "allow", **options})
        names = [captured.output[SOURCE], captured.output[f"{SOURCE}.before"]]
        work = PythonOperator(task_id="work", python_callable=job, op_args=names)
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)
    return dag


def test_the_job_reads_what_is_new_and_what_it_came_from(events, job, run_dag):
    """A first run has an origin without rows; later ones have both tables, whatever the range held."""
    dag = following("following_changes", job)
    run_dag(dag)
    events.delete("id = 2")
    changed = run_dag(dag)
    append(events, [5])
    run_dag(dag)
    events.delete("id = 4")
    run_dag(dag)

    assert job.seen == [[[1, 2, 3, 4], []], [[1, 3], [1, 2, 3]], [[5], []], [[], [4]]]
    record = changed.xcom("capture")["sources"][0]
    assert record["superset"] is True
    assert (record["predicate"], record["no_predicate"]) == (None, "format version 2 keeps no row lineage")
    assert (record["before"]["files"], record["before"]["records"]) == (1, 3)


def test_both_tables_are_dropped_together(lake, events, job, run_dag):
    """By the next commit, and no source file with them."""
    dag = following("following_dropped", job)
    run_dag(dag)
    events.delete("id = 2")
    ran = run_dag(dag)

    made = [ran.xcom(key) for key in (SOURCE, f"{SOURCE}.before")]
    assert icdc_tables(lake) == sorted(made)
    append(events, [5])
    run_dag(dag)
    assert not set(made) & set(icdc_tables(lake))
    assert rows(lake, SOURCE) == [1, 3, 4, 5]


def test_a_superset_fails_the_capture_unless_it_is_allowed(events, job, run_dag):
    """Before anything is written, and the message names the way on."""
    dag = following("following_superset", job, on_superset="fail")
    run_dag(dag)
    events.delete("id = 2")

    ran = run_dag(dag)

    assert "set on_superset='allow'" in str(ran.errors["capture"])
    assert checkpoint_of("following_superset.capture").pending is None


def test_what_a_failed_run_may_have_written_comes_before(events, job, run_dag):
    """Rows that were appended and removed since the checkpoint are in the origin once a run has failed over them."""
    dag = following("following_failed_between", job)
    run_dag(dag)
    append(events, [7])
    job.fails = True
    run_dag(dag)
    events.delete("id = 7")
    job.fails = False

    run_dag(dag)

    assert job.seen[-1] == [[], [7]]
    assert checkpoint_of("following_failed_between.capture").pending is None


@pytest.mark.parametrize("how", ["rewound", "abandoned"])
def test_what_was_undone_may_have_been_written(events, job, run_dag, how):
    """Rows of a run that was rewound or abandoned are in the origin, too, once the source has deleted them."""
    dag, name = following(f"following_{how}", job), f"following_{how}.capture"
    run_dag(dag)
    append(events, [7])
    job.fails = how == "abandoned"
    run_dag(dag)
    job.fails = False
    document = checkpoint_of(name)
    undone = abandon(document) if how == "abandoned" else rewind(document, capture_id=document.history[-1].capture_id)
    default_store().write(undone, expected_revision=document.revision)
    events.delete("id = 7")

    run_dag(dag)

    assert job.seen[-1] == [[], [7]]
    assert checkpoint_of(name).begun == ()


def test_without_a_failed_run_rows_that_came_and_went_leave_no_trace(events, job, run_dag):
    """Nobody has seen them."""
    dag = following("following_came_and_went", job)
    run_dag(dag)
    append(events, [7])
    events.delete("id = 7")

    ran = run_dag(dag)

    assert ran.states["work"] == "skipped"
    assert len(job.seen) == 1


def test_a_failed_first_run_is_corrected_by_the_next(events, job, run_dag):
    """Both are full; what went in between is in the origin of the second, also when that one is retried."""
    dag = following("following_first_failed", job)
    job.fails = True
    run_dag(dag)
    events.delete("id = 4")
    run_dag(dag)
    append(events, [8])
    job.fails = False

    run_dag(dag)

    assert job.seen == [[[1, 2, 3, 8], [4]]]
