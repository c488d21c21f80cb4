"""A whole Airflow that knows the cascade, a lake that its Spark jobs share with the test, and a session that writes."""

import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from scripts.lake import Lake
from scripts.local_airflow import EXAMPLES
from tests.kit.deployment import DATABASE_PASSWORD, Deployment, deployed
from tests.kit.postgres import postgres_server
from tests.kit.spark import session_on
from tests.system.cascades.stages import STAGES

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

    @cached_property
    def catalog(self):
        """Opened once: each catalog has connections to the database, and tests look every second."""
        return self.lake.catalog()


@pytest.fixture(scope="session")
def airflow(request):
    """The four parts on PostgreSQL, with the cascade's DAGs and those of this folder; logs stay after a failure."""
    folder = Path(tempfile.mkdtemp(prefix="ips-cascades-"))
    dags = folder / "dags"
    shutil.copytree(EXAMPLES / "jobs", dags / "jobs")
    for file in DAGS.glob("*.py"):
        shutil.copy(file, dags)
    (dags / "cascade.py").write_text(quicker((EXAMPLES / "cascade.py").read_text()))
    with postgres_server(password=DATABASE_PASSWORD) as address:
        lake = Lake.on_postgres(folder / "lake", address=address, user="postgres", password=DATABASE_PASSWORD)
        settings = {**lake.environment(), **SETTINGS}
        with deployed(folder, dags=dags, lakes=(), settings=settings, postgres=address) as running:
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
    # Its catalogs cache nothing: the jobs and this session see each other's commits at once.
    with session_on(lake, {"spark.sql.catalog.lake.cache-enabled": "false"}) as spark:
        yield World(airflow=running, lake=lake, spark=spark, jobs=jobs)
