"""What stands for the Spark jobs between capture and commit, and how a test tells them to fail or to wait."""

import os
import time
from pathlib import Path

PATIENCE_S = 120


def append_once(source, target, capture_id, *, name, lake):
    """Append what was captured, unless the target carries its stamp already: the job of docs/patterns/append.md.

    A scheduler that dies has its tasks started again while the first attempts may still run. Where the target's commits
    are not retried, an append goes through only over the very metadata that was asked for the stamp.
    """
    from pyiceberg.table.snapshots import ancestors_of

    from airflow_provider_ips.core.advice.target_evidence import STAMP
    from airflow_provider_ips.hooks.ips import IpsHook
    from tests.kit.tables import scan

    obey(f"{name}.begin")
    catalog = IpsHook(lake).catalog
    table = catalog.load_table(target)
    if any(
        _stamp(snapshot, STAMP) == capture_id for snapshot in ancestors_of(table.current_snapshot(), table.metadata)
    ):
        print(f"{target} has the rows of {capture_id} already")
    else:
        rows = scan(catalog, source).to_arrow()
        table.append(rows, snapshot_properties={STAMP: capture_id})
        print(f"{rows.num_rows} rows into {target}")
    obey(f"{name}.end")


def _stamp(snapshot, key):
    return snapshot.summary and snapshot.summary.additional_properties.get(key)


def obey(point):
    """Fail, be skipped, or wait, where a test has told a task to; a word in a file reaches every process."""
    order = _folder() / point
    if not order.exists():
        return
    word = order.read_text()
    if word == "fail":
        raise RuntimeError(f"{point} was told to fail")
    if word == "skip":
        from airflow.sdk.exceptions import AirflowSkipException

        raise AirflowSkipException
    (_folder() / f"{point}.reached").touch()
    deadline = time.monotonic() + PATIENCE_S
    while order.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"nobody let {point} go on")
        time.sleep(0.05)


def _folder():
    return Path(os.environ["IPS_CONTROL"])


class Orders:
    """The test's side of it."""

    def __init__(self, folder):
        self._folder = Path(folder)

    def put(self, point, word):
        """Say what a point does; any text is kept for those who read it."""
        (self._folder / point).write_text(word)

    def fail(self, point):
        self.put(point, "fail")

    def hold(self, point):
        (self._folder / f"{point}.reached").unlink(missing_ok=True)
        (self._folder / point).write_text("hold")

    def reached(self, point):
        """Whether somebody waits there."""
        return (self._folder / f"{point}.reached").exists()

    def release(self, point):
        (self._folder / point).unlink()
