"""One deployment for all stories, started by the process that pytest was called in; workers of xdist share it.

Each story has DAGs and tables of its own, so that they run beside each other and wait for nobody.
"""

import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.identifiers import Source, variable_key
from tests.kit.deployed_lake import Lake
from tests.kit.deployment import Deployment, deployed
from tests.kit.jobs import Orders
from tests.kit.rest import Rest
from tests.kit.tables import icdc_tables

STORIES = (
    *("killed", "cleared", "older", "marked", "trusting", "mapped"),
    *("deferring", "resumable", "watching", "rivals", "patient", "backfilled", "sharing", "reused", "depending"),
    *("by_interval", "by_partition", "managed", "evidence", "wrapping", "lagging"),
)
"""Each has a catalog of this name, and mostly a DAG."""

DAGS = Path(__file__).parent / "dags"
_PARTS = pytest.StashKey[ExitStack]()
_ADDRESS = pytest.StashKey[dict[str, Any]]()


def pytest_sessionstart(session):
    """Start the deployment once, whether or not there are workers."""
    config = session.config
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    folder = Path(tempfile.mkdtemp(prefix="ips-components-"))
    stack = config.stash[_PARTS] = ExitStack()
    stack.callback(_tidy, folder, session)
    airflow = stack.enter_context(deployed(folder, dags=DAGS, lakes=STORIES))
    airflow.rest.wait_for(lambda: airflow.rest.knows("killed"), "the DAG files to be read")
    config.stash[_ADDRESS] = airflow.address()


def pytest_configure_node(node):
    """Tell a worker where the deployment is."""
    node.workerinput["deployment"] = node.config.stash[_ADDRESS]


def pytest_sessionfinish(session):
    if stack := session.config.stash.get(_PARTS, None):
        stack.close()


def _tidy(folder, session):
    """Logs are for those who look for a failure."""
    if session.exitstatus:
        print(f"\nlogs of the deployment: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class World:
    """What a story is told with: a DAG of this name, a catalog of this name, a source and a target in it."""

    name: str
    rest: Rest
    lake: Lake
    orders: Orders

    def tables(self, ids=()):
        """Make the source, with rows, and an empty target."""
        self.lake.create(f"db.{self.name}_target")
        self.lake.create(f"db.{self.name}", ids)

    def append(self, ids):
        self.lake.append(f"db.{self.name}", ids)

    @property
    def target(self):
        return self.lake.rows(f"db.{self.name}_target")

    @property
    def head(self):
        return self.lake.head(f"db.{self.name}")

    def checkpoint(self, consumer=None):
        consumer = consumer or f"{self.name}.capture"
        text = self.rest.variable(variable_key(consumer))
        return None if text is None else Checkpoint.parse(text, consumer=consumer)

    def committed(self, consumer=None, source=None):
        """The snapshot up to which a consumer has committed; None where it has not."""
        checkpoint = self.checkpoint(consumer)
        position = checkpoint and checkpoint.position_of(Source(source or f"db.{self.name}"))
        return position.snapshot_id if position else None

    @property
    def pending(self):
        checkpoint = self.checkpoint()
        return checkpoint and checkpoint.pending

    @property
    def captured(self):
        """The ICDC tables there are."""
        return icdc_tables(self.lake.catalog)

    def run(self, run_id=None, **options):
        """Trigger a run and wait for its end."""
        run_id = self.rest.trigger(self.name, run_id, **options)
        return run_id, self.finish(run_id)

    def finish(self, run_id):
        return self.rest.finish(self.name, run_id)

    def log(self, run_id, task_id, try_number=None):
        """What a task said, by default in its last try."""
        tries = try_number or self.rest.tasks(self.name, run_id)[task_id]["try_number"]
        return self.rest.log(self.name, run_id, task_id, tries)

    def hold(self, point):
        self.orders.hold(f"{self.name}.{point}")

    def fail(self, point):
        self.orders.fail(f"{self.name}.{point}")

    def release(self, point):
        self.orders.release(f"{self.name}.{point}")

    def until_held(self, point):
        self.rest.wait_for(lambda: self.orders.reached(f"{self.name}.{point}"), f"{self.name}.{point} to be reached")

    def until_noted(self):
        """Wait for a capture to note another range than was noted, and return it."""
        before = self.pending
        return lambda: self.rest.wait_for(
            lambda: self.pending if self.pending != before else None, "the capture to note its range"
        )


@pytest.fixture(scope="session")
def airflow(request):
    """The deployment; one that nobody has started says how to."""
    config = request.config
    address = getattr(config, "workerinput", {}).get("deployment") or config.stash.get(_ADDRESS, None)
    if address is None:
        raise RuntimeError(
            "nobody has started the deployment: call pytest with tests/system/components, or make test-components"
        )
    return Deployment.at(address)


@pytest.fixture
def story(airflow):
    """Tell a story about the DAG of this name."""

    def begin(name, lake=None):
        orders = Orders(airflow.environment["IPS_CONTROL"])
        return World(name=name, rest=airflow.rest, lake=airflow.lakes[lake or name], orders=orders)

    return begin
