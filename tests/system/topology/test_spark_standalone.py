"""The topology of `docker/` short of containers: Airflow submits to a Spark master, executors run on its worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.identifiers import Source
from scripts.lake import Lake, create_events_table, day_of_events, midnight
from scripts.spark_jars import jar_paths
from tests.system.topology.standalone import Standalone, environment, spark_standalone

if TYPE_CHECKING:
    import pyarrow as pa

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parents[3]
STACK = ROOT / "docker" / "spark"
SOURCE, TARGET = "db.playback", "db.playback_log"
DAG_ID = "append_incremental"
CONSUMER = f"{DAG_ID}.capture"
MONDAY = date(2026, 10, 5)


@dataclass(frozen=True, slots=True)
class Run:
    """How a run of the DAG went."""

    state: str
    tasks: dict[str, str]
    checkpoint: Checkpoint | None

    @property
    def committed_snapshot(self) -> str:
        assert self.checkpoint is not None
        position = self.checkpoint.position_of(Source(SOURCE))
        assert position is not None
        return str(position.snapshot_id)


@dataclass(frozen=True, slots=True)
class Site:
    """One Airflow and one lake in a folder, and a Spark elsewhere."""

    folder: Path
    lake: Lake
    spark: Standalone

    def play_by_hand(self, day: date) -> pa.Table:
        """Submit the job that fills the stack's first table, as its page says."""
        command = ["spark-submit", "--master", self.spark.master_url, str(STACK / "play.py"), day.isoformat()]
        self._run(*command)
        return self.lake.catalog().load_table(SOURCE).scan().to_arrow()

    def play(self, day: date) -> pa.Table:
        events = day_of_events(day, rows=100)
        self.lake.catalog().load_table(SOURCE).append(events)
        return events

    def source_snapshot(self) -> str:
        snapshot = self.lake.catalog().load_table(SOURCE).current_snapshot()
        assert snapshot is not None
        return str(snapshot.snapshot_id)

    def target_events(self) -> Counter[int]:
        return ids_of(self.lake.catalog().load_table(TARGET).scan().to_arrow())

    def jobs(self) -> list[tuple[str, str]]:
        return [(job["name"], job["state"]) for job in self.spark.applications()]

    def run_dag(self, day: date) -> Run:
        """Run the append example as it is published."""
        command = [sys.executable, "-m", "tests.system.topology.run_example"]
        output = self._run(*command, str(self.folder / "airflow"), DAG_ID, CONSUMER, midnight(day).isoformat())
        report = json.loads(output.splitlines()[-1])
        assert report["state"] == "success", output
        text = report["checkpoint"]
        return Run(
            state=report["state"],
            tasks=report["tasks"],
            checkpoint=None if text is None else Checkpoint.parse(text, consumer=CONSUMER),
        )

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self._environment(), cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        settings = environment(**self.lake.environment())
        host, _, port = self.spark.master_url.rpartition(":")
        settings["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps({"conn_type": "spark", "host": host, "port": int(port)})
        self._add_executor_settings(Path(settings["SPARK_CONF_DIR"]) / "spark-defaults.conf")
        return settings

    def _add_executor_settings(self, defaults: Path) -> None:
        """What the lake writes is for a Spark inside one process."""
        jars = os.pathsep.join(str(path) for path in jar_paths())
        more = {
            "spark.executor.extraClassPath": jars,
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.executor.memory": "512m",
        }
        with defaults.open("a") as file:
            file.writelines(f"{key} {value}\n" for key, value in more.items())


def ids_of(events: pa.Table) -> Counter[int]:
    return Counter(events["event_id"].to_pylist())


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    lake = Lake.on_sqlite(folder / "lake")
    # The SQL catalog makes its tables when it is first used, Spark's does not find them elsewhere.
    lake.catalog().create_namespace("db")
    with spark_standalone(folder) as spark:
        yield Site(folder, lake, spark)


@pytest.mark.parametrize("role", ["master", "worker"])
def test_the_health_checks_of_the_stack_find_both_well(site, role):
    address = site.spark.status_url if role == "master" else site.spark.worker_status_url

    subprocess.run([sys.executable, str(STACK / "healthy.py"), role, address], check=True, timeout=60)


def test_each_run_takes_what_came_since_the_last_one_to_the_worker(site):
    first_day = site.play_by_hand(MONDAY)
    first = site.run_dag(MONDAY)

    assert site.target_events() == ids_of(first_day)
    assert first.committed_snapshot == site.source_snapshot()
    by_hand, by_airflow = ("play 2026-10-05", "FINISHED"), ("arrow-spark", "FINISHED")
    assert Counter(site.jobs()) == Counter([by_hand, by_airflow])

    second_day = site.play(MONDAY + timedelta(days=1))
    second = site.run_dag(MONDAY + timedelta(days=1))

    # The job inserts all that it is given to read: an event of the first day would be there twice.
    assert site.target_events() == ids_of(first_day) + ids_of(second_day)
    assert second.committed_snapshot == site.source_snapshot() != first.committed_snapshot
    assert Counter(site.jobs()) == Counter([by_hand, by_airflow, by_airflow])
    assert site.spark.cores_in_use() == 0


def test_the_stacks_first_table_is_like_the_one_of_the_examples(site):
    """Whatever runs on the one runs on the other."""
    first_days = site.lake.catalog().load_table(SOURCE)
    examples = create_events_table(site.lake.catalog(), "db.of_the_examples")

    assert str(first_days.schema()) == str(examples.schema())
    assert str(first_days.spec()) == str(examples.spec())
