"""DAGs that backfill: a plan, and a mapped group of capture, work and commit, beside a live DAG of the same job."""

from contextlib import contextmanager
from datetime import date

import pyarrow as pa
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, task_group
from pyiceberg.catalog import load_catalog

from airflow_provider_ips import IpBackfillOperator, IpCommitOperator, ips_params
from tests.kit.pipelines import capturing

COUNTS = pa.schema([pa.field("day", pa.date32()), pa.field("rows", pa.int64()), pa.field("sum", pa.int64())])


class Daily:
    """A job that computes the days it is handed anew and replaces them in the target, as INSERT OVERWRITE does.

    With ``source`` the rows handed over tell the days only, and their rows are read there. With ``only_if_wrong`` days
    that are right already are left alone, as a MERGE does that compares.
    """

    def __init__(self, lake, *, source=None, only_if_wrong=False):
        self._name, self._properties = lake.name, dict(lake.properties)
        self._source, self._only_if_wrong = source, only_if_wrong
        self.days: list[list[int]] = []
        """The days of October that each call was handed."""

        self.fails_on: set[int] = set()

    def __call__(self, icdc):
        """Read the rows handed over; of a range, only their days, and all rows of these from the source."""
        catalog = load_catalog(self._name, **self._properties)
        rows = catalog.load_table(icdc).scan().to_arrow()
        days = sorted(set(rows["day"].to_pylist()))
        if self.fails_on & {day.day for day in days}:
            raise RuntimeError("the job failed, as the test wants it")
        if self._source is not None:
            rows = catalog.load_table(self._source).scan().to_arrow()
        right = per_day(catalog) if self._only_if_wrong else {}
        for day in days:
            ids = [row["id"] for row in rows.to_pylist() if row["day"] == day]
            if right.get(day.day) != (len(ids), sum(ids)):
                write_day(catalog, day, len(ids), sum(ids))
        self.days.append([day.day for day in days])


def write_day(catalog, day, rows, total):
    """Replace one day of the target."""
    found = pa.table({"day": [day], "rows": [rows], "sum": [total]}, schema=COUNTS)
    catalog.load_table("db.daily").overwrite(found, f"day = '{day}'")


def spoil(lake, *numbers):
    """Write days of the target as a job with a mistake in it does."""
    for number in numbers:
        write_day(lake, october(number), 0, -1)


def days_of(lake, seen):
    """A job that notes the days it is handed."""
    name, properties = lake.name, dict(lake.properties)

    def note(icdc):
        rows = load_catalog(name, **properties).load_table(icdc).scan().to_arrow()
        seen.append(sorted({day.day for day in rows["day"].to_pylist()}))

    return note


def daily_table(lake, name="db.daily"):
    """The target: one row a day, partitioned by it."""
    table = lake.create_table(name, schema=COUNTS)
    with table.update_spec() as spec:
        spec.add_identity("day")
    return table


def backfilling(dag_id, job, *, capture=None, commit=None, operator=IpBackfillOperator, dag=None, **plan):
    """A plan over ``db.days`` with the trigger form, and a group that is mapped over its chunks."""
    with DAG(dag_id, schedule=None, params=ips_params(), **(dag or {})) as made:
        planned = operator(**{"task_id": "plan", "source_table": "db.days", "iceberg_conn_id": "lake", **plan})

        @task_group
        def chunk(chunk):
            options = {"source": "db.days", **(capture or {})}
            source = options.pop("source_tables", options.pop("source"))
            captured = capturing(source, chunk=chunk, **options)
            work = PythonOperator(task_id="work", python_callable=job, op_args=[captured.output[source]])
            committed = IpCommitOperator(task_id="commit", capture=captured, **(commit or {}))
            captured >> work >> committed

        chunk.expand(chunk=planned.output)
    return made


@contextmanager
def left_queued(ran):
    """Have Airflow believe, for a while, that a run that has ended is queued, as one that was cleared is."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from sqlalchemy import update

    for state in (DagRunState.QUEUED, DagRunState.FAILED):
        with create_session() as session:
            session.execute(update(DagRun).where(DagRun.id == ran.dag_run.id).values(state=state))
        if state is DagRunState.QUEUED:
            yield


def october(number):
    """One of its days."""
    return date(2026, 10, number)


def per_day(lake, name="db.daily"):
    """What the target says: day of October to rows and sum."""
    rows = lake.load_table(name).scan().to_arrow().to_pylist()
    assert len(rows) == len({row["day"] for row in rows})
    return {row["day"].day: (row["rows"], row["sum"]) for row in rows}


def recomputed(lake, source="db.days"):
    """What it should say."""
    ids: dict[int, list[int]] = {}
    for row in lake.load_table(source).scan().to_arrow().to_pylist():
        ids.setdefault(row["day"].day, []).append(row["id"])
    return {day: (len(found), sum(found)) for day, found in ids.items()}
