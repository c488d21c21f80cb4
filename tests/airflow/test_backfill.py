"""A managed backfill: planned in chunks, each a mapped instance that is processed, committed and cleared by itself."""

import pytest

from airflow_provider_ips.core.errors import InputError
from tests.airflow.backfills import Daily, backfilling, daily_table, october, per_day, recomputed
from tests.airflow.pipelines import checkpoint_of, incremental
from tests.airflow.tables import append, create, icdc_tables

CHUNK_DONE = {"chunk.capture": "success", "chunk.work": "success", "chunk.commit": "success"}


@pytest.fixture
def days(lake):
    """Rows of six days, partitioned by day, each day in a snapshot of its own; then one late row of the second."""
    table = create(lake, "db.days")
    with table.update_spec() as spec:
        spec.add_identity("day")
    for number in range(1, 7):
        append(table, [number, 10 * number], day=october(number))
    append(table, [200], day=october(2))
    daily_table(lake)
    return table


@pytest.fixture
def job(lake):
    return Daily(lake)


def instances(states, place):
    """The states of one chunk's tasks."""
    return {name.removesuffix(f"[{place}]"): state for name, state in states.items() if name.endswith(f"[{place}]")}


def test_partitions_are_backfilled_chunk_by_chunk(lake, days, job, run_dag):
    """Each is a mapped instance; together they are what the filter selects, and each day is computed once."""
    dag = backfilling("chunked", job, partitions="day >= '2026-10-02'", max_partitions=2)

    ran = run_dag(dag)

    assert [instances(ran.states, place) for place in range(3)] == [CHUNK_DONE] * 3
    assert sorted(job.days) == [[2, 3], [4, 5], [6]]
    assert per_day(lake) == {day: found for day, found in recomputed(lake).items() if day != 1}
    assert [chunk["label"] for chunk in ran.xcom("return_value", task="plan")] == [
        "day=2026-10-02 … day=2026-10-03",
        "day=2026-10-04 … day=2026-10-05",
        "day=2026-10-06",
    ]


def test_the_live_checkpoint_is_not_touched(lake, days, job, run_dag):
    """Not a byte of it, and the live run after it takes what came since the live run before."""
    live = incremental("live", "db.days", Daily(lake, source="db.days"))
    run_dag(live)
    before = _documents()

    ran = run_dag(backfilling("beside", job, partitions="day < '2026-10-03'"))

    assert ran.xcom("commit", task="chunk.commit", map_index=0)["outcome"] == "detached"
    assert _documents() == before
    assert checkpoint_of("live.capture").pending is None


def _documents():
    """Every Variable that is a checkpoint, as stored."""
    from airflow.models.variable import Variable as StoredVariable
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(StoredVariable))
        return {v.key: v.val for v in found if not v.key.startswith("ips_backfill-")}


def test_nothing_said_is_asked_back(lake, days, job, run_dag):
    ran = run_dag(backfilling("silent", job))

    assert isinstance(ran.errors["plan"], InputError)
    assert "nothing says what to backfill" in str(ran.errors["plan"])
    assert icdc_tables(lake) == []
