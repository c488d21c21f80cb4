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

from airflow_provider_ips.core.checkpoint import Checkpoint
from airflow_provider_ips.core.identifiers import variable_key
from tests.airflow.tables import icdc_tables
from tests.components.deployment import deployed
from tests.components.jobs import Orders
from tests.components.lake import Lake
from tests.components.rest import Rest

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
    airflow = stack.enter_context(deployed(folder, dags=DAGS))
    # Made before anybody needs it: two workers would make the catalog's own tables at the same time.
    _ = airflow.lake.catalog
    airflow.rest.wait_for(lambda: airflow.rest.knows("killed"), "the DAG files to be read")
    config.stash[_ADDRESS] = {
        "folder": str(folder),
        "url": airflow.url,
        "headers": dict(airflow.rest.headers),
        "uri": airflow.lake.uri,
    }


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
    """What a story is told with."""

    rest: Rest
    lake: Lake
    orders: Orders

    def checkpoint(self, consumer):
        text = self.rest.variable(variable_key(consumer))
        return None if text is None else Checkpoint.parse(text, consumer=consumer)

    def committed(self, dag_id, source=None):
        """The snapshot up to which a DAG has committed; None where it has not."""
        checkpoint = self.checkpoint(f"{dag_id}.capture")
        position = checkpoint and checkpoint.position_of(source or f"db.{dag_id}", "main")
        return position.snapshot_id if position else None

    def pending(self, dag_id):
        checkpoint = self.checkpoint(f"{dag_id}.capture")
        return checkpoint and checkpoint.pending

    def tables(self, dag_id, ids=()):
        """Make the story's source, with rows, and its empty target."""
        self.lake.create(f"db.{dag_id}_target")
        self.lake.create(f"db.{dag_id}", ids)

    def append(self, dag_id, ids):
        self.lake.append(f"db.{dag_id}", ids)

    def target(self, dag_id):
        return self.lake.rows(f"db.{dag_id}_target")

    def captured(self, dag_id):
        """The ICDC tables there are of a story's source."""
        return [name for name in icdc_tables(self.lake.catalog) if name.startswith(f"icdc.db_{dag_id}_")]

    def run(self, dag_id, run_id=None, **options):
        """Trigger a run and wait for its end."""
        run_id = self.rest.trigger(dag_id, run_id, **options)
        return run_id, self.rest.finish(dag_id, run_id)


@pytest.fixture(scope="session")
def world(request):
    config = request.config
    address = getattr(config, "workerinput", {}).get("deployment") or config.stash[_ADDRESS]
    rest = Rest(address["url"], headers=address["headers"])
    folder = Path(address["folder"])
    lake = Lake(uri=address["uri"], warehouse=folder / "warehouse")
    return World(rest=rest, lake=lake, orders=Orders(folder / "control"))
