"""What becomes of an event that comes while its stage is busy, paused or broken, by a real scheduler on PostgreSQL."""

from dataclasses import dataclass
from random import Random

import pytest
from pyiceberg.catalog import Catalog

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.identifiers import Source, variable_key
from tests.kit import tables
from tests.kit.jobs import Orders
from tests.kit.rest import Rest
from tests.system.cascades.stages import Stage, is_idle

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]


@dataclass
class Wakened:
    """A stage, its source, and whoever appends to it and tells."""

    name: str
    rest: Rest
    catalog: Catalog
    orders: Orders
    last_id: int = 0

    @property
    def stage(self):
        return Stage(dag_id=self.name, source=f"db.{self.name}", target="")

    def append(self, *, tell=True):
        """Rows, and the event that tells of them: what the commit of the stage before would do."""
        self.last_id += 1
        tables.append(self.catalog.load_table(self.stage.source), [self.last_id])
        if tell:
            assets = self.rest.ask("GET", "/assets", params={"limit": 100})["assets"]
            asset_id = next(asset["id"] for asset in assets if asset["name"] == self.name)
            self.rest.ask("POST", "/assets/events", json={"asset_id": asset_id, "extra": {}})

    @property
    def runs(self):
        return self.rest.runs(self.name)

    @property
    def is_behind(self):
        document = self.rest.variable(variable_key(self.stage.consumer))
        checkpoint = document and Checkpoint.parse(document, consumer=self.stage.consumer)
        position = checkpoint and checkpoint.position_of(Source(self.stage.source))
        head = self.catalog.load_table(self.stage.source).current_snapshot()
        return not position or head is None or position.snapshot_id != head.snapshot_id

    def until_caught_up(self):
        self.rest.wait_for(lambda: not self.is_behind, f"{self.name} to catch up")

    def until_idle(self):
        self.rest.wait_for(lambda: is_idle(self.rest, self.stage), f"{self.name} to be idle")

    def until_held(self):
        self.rest.wait_for(lambda: self.orders.reached(f"{self.name}.work"), f"{self.name} to be held")

    def hold(self):
        self.orders.hold(f"{self.name}.work")

    def fail(self):
        self.orders.fail(f"{self.name}.work")

    def release(self):
        self.orders.release(f"{self.name}.work")


@pytest.fixture
def stage(airflow):
    """A stage of dags/nets.py that has caught up with a source of some rows."""
    running, lake, _ = airflow
    begun = []

    def begin(name):
        catalog = lake.catalog()
        for namespace in ("db", "icdc"):
            catalog.create_namespace_if_not_exists(namespace)
        if not catalog.table_exists(f"db.{name}"):
            tables.create(catalog, f"db.{name}")
        there = catalog.load_table(f"db.{name}").scan().to_arrow().num_rows
        begun.append(name)
        running.rest.pause(name, paused=False)
        found = Wakened(name, running.rest, catalog, Orders(running.environment["IPS_CONTROL"]), there)
        found.append()
        found.until_caught_up()
        return found

    yield begin
    for name in begun:
        running.rest.pause(name)


def test_events_that_come_while_the_stage_runs_become_one_run_behind_it(stage):
    """With max_active_runs=1 they wait in Airflow's queue, however many, and none of their rows is left behind."""
    busy = stage("eventful")
    busy.hold()
    before = len(busy.runs)
    busy.append()
    busy.until_held()
    for _ in range(3):
        busy.append()
    busy.release()
    busy.until_caught_up()
    busy.until_idle()
    assert len(busy.runs) == before + 2


def test_no_row_is_left_behind_by_a_storm_of_events(stage):
    """Events at random moments of short runs, without a clock: at the end the stage is where its source is."""
    busy, random = stage("eventful"), Random(8)  # noqa: S311 - moments, no secret
    for _ in range(10):
        runs = len(busy.runs)
        for _ in range(random.randint(1, 3)):
            busy.append()
        if random.random() < 0.5:
            busy.rest.wait_for(lambda runs=runs: len(busy.runs) > runs, "a run to begin")
    busy.until_caught_up()
    busy.until_idle()
    assert not busy.is_behind


def test_a_stage_that_failed_stands_still_until_the_next_event(stage):
    """An event is used up by the run that it starts, however that ends; the next one's run covers both."""
    broken = stage("eventful")
    broken.fail()
    broken.append()
    broken.rest.wait_for(lambda: broken.runs[-1]["state"] == "failed", "the stage to fail")
    broken.release()
    broken.until_idle()
    runs = len(broken.runs)
    assert broken.is_behind
    broken.append()
    broken.until_caught_up()
    assert len(broken.runs) == runs + 1


def test_an_event_is_lost_on_a_stage_that_is_paused(stage):
    """Airflow queues nothing for it, so that unpausing alone starts no run; the next event's run covers both."""
    paused = stage("eventful")
    paused.until_idle()
    runs = len(paused.runs)
    paused.rest.pause("eventful")
    paused.append()
    paused.rest.pause("eventful", paused=False)
    assert is_idle(paused.rest, paused.stage)
    paused.append()
    paused.until_caught_up()
    paused.until_idle()
    assert len(paused.runs) == runs + 1


def test_a_clock_makes_up_for_an_event_that_was_lost(stage):
    """Rows of which nobody told, or told while the stage was paused."""
    netted = stage("netted")
    netted.append(tell=False)
    netted.until_caught_up()
    netted.rest.pause("netted")
    netted.append()
    netted.rest.pause("netted", paused=False)
    netted.until_caught_up()


def test_a_clock_makes_up_for_a_run_that_failed(stage):
    """Nobody appends any more, and the stage catches up all the same."""
    netted = stage("netted")
    before = len(netted.runs)
    netted.fail()
    netted.append()
    netted.rest.wait_for(lambda: any(r["state"] == "failed" for r in netted.runs[before:]), "the stage to fail")
    assert netted.is_behind
    netted.release()
    netted.until_caught_up()
