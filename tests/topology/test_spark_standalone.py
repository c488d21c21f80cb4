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

from airflow_provider_ips.core.checkpoint import Checkpoint
from scripts.lake import Lake, create_events_table, day_of_events, midnight
from scripts.spark_jars import jar_paths
from tests.topology.standalone import Standalone, environment, spark_standalone

if TYPE_CHECKING:
    import pyarrow as pa

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parents[2]
SOURCE, TARGET = "db.playback", "db.playback_log"
DAG_ID = "ips_append"
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
        position = self.checkpoint.position_of(SOURCE, "main")
        assert position is not None
        return str(position.snapshot_id)


@dataclass(frozen=True, slots=True)
class Site:
    """One Airflow and one lake in a folder, and a Spark elsewhere."""

    folder: Path
    lake: Lake
    spark: Standalone

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
        command = ["-m", "tests.topology.run_example", str(self.folder / "airflow"), DAG_ID, CONSUMER]
        done = subprocess.run(
            [sys.executable, *command, midnight(day).isoformat()],
            env=self._environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        log = f"{done.stdout[-10000:]}\n{done.stderr[-5000:]}"
        assert done.returncode == 0, log
        report = json.loads(done.stdout.splitlines()[-1])
        assert report["state"] == "success", log
        text = report["checkpoint"]
        return Run(
            state=report["state"],
            tasks=report["tasks"],
            checkpoint=None if text is None else Checkpoint.parse(text, consumer=CONSUMER),
        )

    def _environment(self) -> dict[str, str]:
        settings = environment(**self.lake.environment())
        host, _, port = self.spark.master_url.rpartition(":")
        settings["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps({"conn_type": "spark", "host": host, "port": int(port)})
        self._add_executor_settings(Path(settings["SPARK_CONF_DIR"]) / "spark-defaults.conf")
        return settings

    def _add_executor_settings(self, defaults: Path) -> None:
        """What the lake writes is for a Spark inside one process."""
        jars = os.pathsep.join(str(path) for path in jar_paths())
        more = {"spark.executor.extraClassPath": jars, "spark.executor.memory": "512m"}
        with defaults.open("a") as file:
            file.writelines(f"{key} {value}\n" for key, value in more.items())


def ids_of(events: pa.Table) -> Counter[int]:
    return Counter(events["event_id"].to_pylist())


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    lake = Lake.on_sqlite(folder / "lake")
    create_events_table(lake.catalog(), SOURCE)
    with spark_standalone(folder) as spark:
        yield Site(folder, lake, spark)


def test_each_run_takes_what_came_since_the_last_one_to_the_worker_and_a_run_without_news_takes_nothing(site):
    first_day = site.play(MONDAY)
    first = site.run_dag(MONDAY)

    assert site.target_events() == ids_of(first_day)
    assert first.committed_snapshot == site.source_snapshot()
    assert site.jobs() == [("arrow-spark", "FINISHED")]

    second_day = site.play(MONDAY + timedelta(days=1))
    second = site.run_dag(MONDAY + timedelta(days=1))

    # The job inserts all that it is given to read: an event of the first day would be there twice.
    assert site.target_events() == ids_of(first_day) + ids_of(second_day)
    assert second.committed_snapshot == site.source_snapshot() != first.committed_snapshot
    assert site.jobs() == [("arrow-spark", "FINISHED")] * 2

    third = site.run_dag(MONDAY + timedelta(days=2))

    assert third.tasks == {"capture": "success", "insert": "skipped", "commit": "skipped"}
    assert third.committed_snapshot == second.committed_snapshot
    assert len(site.jobs()) == 2
    assert site.spark.cores_in_use() == 0
