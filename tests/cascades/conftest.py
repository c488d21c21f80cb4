"""A whole Airflow that knows the cascade, a lake that its Spark jobs share with the test, and a session that writes."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scripts.lake import Lake
from scripts.local_airflow import EXAMPLES
from tests.cascades.stages import STAGES
from tests.components.deployment import PASSWORD, Deployment, deployed
from tests.examples.postgres_server import postgres_server

QUICKER = {
    "poll_interval=60": "poll_interval=1",
    '"retry_delay": timedelta(minutes=1)': '"retry_delay": timedelta(seconds=1)',
    # Events alone start the stages here, at whatever hour the test runs.
    '"0 6 * * *"': f'"0 {(datetime.now(UTC).hour + 12) % 24} * * *"',
}
"""What is changed in the copy of the example: how long it waits."""

DAGS = Path(__file__).parent / "dags"
SETTINGS = {
    # Two processors, and up to three drivers: a supervisor that waits for its turn is not dead.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "120",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "60",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "60",
}


@dataclass
class Jobs:
    """The job files that the DAGs submit: a broken release of one can be put in their place."""

    folder: Path

    def break_level(self, level, *, after_writing):
        """Let the job of one level fail, before it has done anything or when all is written."""
        call = "main(**vars(parser.parse_args()))"
        text = (EXAMPLES / "jobs" / "cascade.py").read_text()
        assert call in text
        order = (call, "FAIL") if after_writing else ("FAIL", call)
        fail = f'if parser.parse_args().level == "{level}":\n        raise SystemExit("a broken release")'
        broken = "\n    ".join(order).replace("FAIL", fail)
        self._put(text.replace(call, broken))

    def repair(self):
        self._put((EXAMPLES / "jobs" / "cascade.py").read_text())

    def _put(self, text):
        """At once: a job may be starting."""
        new = self.folder / "cascade.py.new"
        new.write_text(text)
        new.replace(self.folder / "cascade.py")


@dataclass
class World:
    """All that a test of cascades acts on."""

    airflow: Deployment
    lake: Lake
    spark: Any
    jobs: Jobs

    @property
    def rest(self):
        return self.airflow.rest


@pytest.fixture(scope="session")
def airflow(request):
    """The four parts on PostgreSQL, with the cascade's DAGs and those of this folder; logs stay after a failure."""
    folder = Path(tempfile.mkdtemp(prefix="ips-cascades-"))
    dags = folder / "dags"
    shutil.copytree(EXAMPLES / "jobs", dags / "jobs")
    for file in DAGS.glob("*.py"):
        shutil.copy(file, dags)
    (dags / "cascade.py").write_text(quicker((EXAMPLES / "cascade.py").read_text()))
    with postgres_server(password=PASSWORD) as address:
        lake = Lake.on_postgres(folder / "lake", address=address, user="postgres", password=PASSWORD)
        with deployed(folder, dags=dags, lakes=(), settings={**lake.environment(), **SETTINGS}) as running:
            running.rest.wait_for(lambda: running.rest.knows(STAGES[-1].dag_id), "the DAG files to be read")
            assert running.rest.import_errors() == []
            yield running, lake, Jobs(dags / "jobs")
    if request.session.testsfailed:
        print(f"\nlogs of the deployment: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)


def quicker(text):
    for slow, quick in QUICKER.items():
        assert slow in text
        text = text.replace(slow, quick)
    return text


@pytest.fixture
def world(airflow):
    """With a Spark session for whoever writes to the source, as a process of its own would."""
    running, lake, jobs = airflow
    with writing(lake) as spark:
        yield World(airflow=running, lake=lake, spark=spark, jobs=jobs)


@contextmanager
def writing(lake):
    """Open a session with the settings of the jobs, which see each other's commits at once."""
    os.environ.update({name: value for name, value in lake.environment().items() if not name.startswith("AIRFLOW")})
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.sql.catalog.lake.cache-enabled", "false")
    spark = builder.config("spark.driver.memory", "600m").getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
