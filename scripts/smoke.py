"""Use the installed package as its users would: in a real Airflow, on a real Iceberg table, on each supported version.

    capture, job, commit   a first run, a run whose job fails and is cleared, the next one, and one with nothing to do
    sensor                 waits, deferred, until the consumer has rows to capture
    commands               `airflow ips list` and `doctor`
    record page            as the API server serves it
    watcher                a triggerer of its own sees an append, and Airflow has an event of the asset
    refusals               on Airflow 3.2, of what it lacks

Everything lies in a temporary folder, SQLite being both Airflow's database and the Iceberg catalog.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DAG_FILE = """
from pathlib import Path

from airflow.sdk import DAG, AssetWatcher, task
from airflow_provider_ips import (
    IcebergAppendSensor, IcebergAppendTrigger, IpCaptureOperator, IpCommitOperator, iceberg_asset
)


@task
def daily(source):
    from airflow.providers.apache.iceberg.hooks.iceberg import IcebergHook

    if Path(__file__).with_name("broken").exists():
        raise RuntimeError("the job fails, as the smoke test wants it")
    catalog = IcebergHook("lake").get_conn()
    catalog.load_table("db.target").append(catalog.load_table(source).scan().to_arrow())


with DAG(dag_id="smoke", schedule=None):
    capture = IpCaptureOperator(task_id="capture", source_tables="db.playback", iceberg_conn_id="lake")
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> daily(capture.output["db.playback"]) >> commit

with DAG(dag_id="waiting", schedule=None):
    IcebergAppendSensor(
        task_id="ready", table="db.playback", iceberg_conn_id="lake", consumer="smoke.capture", poke_interval=1,
        timeout=60, deferrable=True,
    )

watcher = AssetWatcher(
    name="rows", trigger=IcebergAppendTrigger(table="db.playback", iceberg_conn_id="lake", poll_interval=1)
)
woken_by = iceberg_asset("db.playback", iceberg_conn_id="lake", watchers=[watcher])

with DAG(dag_id="woken", schedule=[woken_by], is_paused_upon_creation=False):

    @task
    def work():
        pass

    work()
"""

PATIENCE_S = 300


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ips-smoke-") as name:
        folder = Path(name)
        catalog_settings = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"{folder.as_uri()}/warehouse",
        }
        (folder / "dags").mkdir()
        (folder / "dags" / "smoke.py").write_text(DAG_FILE)
        # Airflow reads its configuration when it is imported, so nothing of it is imported before this.
        os.environ.update(
            {
                "AIRFLOW_HOME": name,
                "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
                "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            }
        )
        _check_installation()
        _airflow("db", "migrate")
        # In the database and not in the environment: a triggerer then reads it by way of its supervisor.
        extra = json.dumps(catalog_settings)
        _airflow("connections", "add", "lake", "--conn-type", "iceberg", "--conn-extra", extra)
        lake = Lake(catalog_settings)
        _capture_and_commit(lake, folder / "dags")
        _wait_by_sensor(lake, folder / "dags")
        _use_commands()
        _open_record_page()
        _wake_by_watcher(lake, folder)
        _refuse_what_this_airflow_lacks()
    print("smoke: passed")


def _check_installation() -> None:
    import airflow_provider_ips

    home = Path(airflow_provider_ips.__file__)
    _expect(home.is_relative_to(sys.prefix), f"the package is the installed one ({home})")
    listed = json.loads(_airflow("providers", "list", "--output", "json"))
    mine = [provider["version"] for provider in listed if provider["package_name"] == "airflow-provider-ips"]
    _expect(mine == [airflow_provider_ips.__version__], f"airflow providers list shows it ({mine})")
    examples = list((home.parent / "example_dags").glob("*.py"))
    _expect(len(examples) > 0, f"example DAGs are installed ({len(examples)})")


class Lake:
    """The source and the target, and what is in them."""

    def __init__(self, catalog_settings: dict[str, str]) -> None:
        import pyarrow as pa
        from pyiceberg.catalog import load_catalog

        self._schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
        catalog = load_catalog("lake", **catalog_settings)
        catalog.create_namespace("db")
        self._source = catalog.create_table("db.playback", self._schema)
        self._target = catalog.create_table("db.target", self._schema)

    def arrive(self, *ids: int) -> None:
        import pyarrow as pa

        self._source.append(pa.table({"id": list(ids), "day": ["2026-10-01"] * len(ids)}, schema=self._schema))

    def count(self) -> int:
        return int(self._source.refresh().scan().count())

    def processed(self) -> list[int]:
        return sorted(self._target.refresh().scan().to_arrow()["id"].to_pylist())


def _capture_and_commit(lake: Lake, dags: Path) -> None:
    def expect_processed(last: int, statement: str, states: dict[str, str]) -> None:
        found = lake.processed()
        _expect(found == list(range(1, last + 1)), f"{statement} ({found}; {states})")

    lake.arrive(1, 2, 3)
    lake.arrive(4, 5)
    expect_processed(5, "the first run takes the whole table", _run_dag(dags, "smoke", day=1))

    lake.arrive(6, 7)
    (dags / "broken").touch()
    with _unsaid():
        states = _run_dag(dags, "smoke", day=2)
    _expect(states["daily"] == "failed", f"a job that fails ({states})")
    expect_processed(5, "leaves the target as it is", states)
    (dags / "broken").unlink()
    lake.arrive(8)
    expect_processed(7, "cleared, it gets the same rows, and none that came since", _run_dag(dags, "smoke", day=2))
    expect_processed(8, "the next run gets those", _run_dag(dags, "smoke", day=3))

    states = _run_dag(dags, "smoke", day=4)
    _expect(
        states == {"capture": "success", "daily": "skipped", "commit": "skipped"},
        f"with nothing to process the rest is skipped ({states})",
    )
    expect_processed(8, "and the target stays as it is", states)
    _expect(lake.count() == len(lake.processed()), "the source is as it was")


def _wait_by_sensor(lake: Lake, dags: Path) -> None:
    lake.arrive(9)
    states = _run_dag(dags, "waiting", day=1)
    _expect(
        states == {"ready": "success"}, f"a deferred sensor sees rows that the consumer has not captured ({states})"
    )


def _use_commands() -> None:
    (row,) = json.loads(_airflow("ips", "list", "--conn-id", "lake", "--output", "json"))
    _expect(row["consumer"] == "smoke.capture" and not row["problem"], f"airflow ips list shows the consumer ({row})")
    findings = json.loads(_airflow("ips", "doctor", "--conn-id", "lake", "--output", "json"))
    problems = [finding for finding in findings if finding["status"] == "problem"]
    _expect(
        bool(findings) and not problems, f"airflow ips doctor finds no problem ({len(findings)} checks; {problems})"
    )


def _open_record_page() -> None:
    from airflow.api_fastapi.app import create_app, get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.models.dagrun import DagRun
    from fastapi.testclient import TestClient

    run_id = _scalar(lambda select: select(DagRun.run_id).where(DagRun.dag_id == "smoke").order_by(DagRun.run_after))
    client = TestClient(create_app(apps="core"), follow_redirects=False)
    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="reader", role="VIEWER"))
    page = f"/ips/captures/smoke/{quote(run_id, safe='')}/capture"
    answer = client.get(page, headers={"Authorization": f"Bearer {token}"})
    _expect(answer.status_code == 200 and "db.playback" in answer.text, f"the record page is there ({answer})")  # noqa: PLR2004
    _expect(client.get(page).status_code != 200, "and not for everybody")  # noqa: PLR2004


def _wake_by_watcher(lake: Lake, folder: Path) -> None:
    from airflow.models.asset import AssetEvent, AssetModel
    from sqlalchemy import func

    def events() -> int:
        rows_of_the_table = AssetModel.uri == "iceberg://lake/db/playback"
        return int(
            _scalar(
                lambda select: (
                    select(func.count(AssetEvent.id))
                    .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
                    .where(rows_of_the_table)
                )
            )
        )

    _airflow("dags", "reserialize")
    with _triggerer(folder):
        _wait_for(lambda: events() >= 1, "a watcher tells about the table as it is")
        before = events()
        lake.arrive(10)
        _wait_for(lambda: events() > before, "and about an append")
        if (stored := _watermark()) is not None:
            _wait_for(lambda: "db.playback" in str(_watermark()), f"and keeps its position with the asset ({stored!r})")
    before = events()
    if stored is not None:
        with _triggerer(folder):
            time.sleep(5)
            _expect(events() == before, f"so that a restart repeats no event ({events()})")


def _watermark() -> str | None:
    """Read what watchers keep in Airflow; None where it keeps nothing for them."""
    try:
        from airflow.models.asset_state_store import AssetStateStoreModel
    except ImportError:
        return None
    return str(_scalar(lambda select: select(AssetStateStoreModel.value)))


def _refuse_what_this_airflow_lacks() -> None:
    from airflow import __version__

    from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, IpsError, iceberg_asset

    if not __version__.startswith("3.2."):
        return
    lacking: tuple[Callable[[], object], ...] = (
        lambda: IpCaptureOperator(task_id="capture", source_tables="db.t", checkpoint_store="variable"),
        lambda: IpCommitOperator(
            task_id="commit", capture="capture", target_assets=iceberg_asset("db.t"), partition_events=True
        ),
    )
    for make in lacking:
        try:
            make()
        except IpsError as error:
            reason = f"needs Airflow 3.3, and this is {__version__}"
            _expect(reason in error.problem, f"what this Airflow lacks is refused ({error})")
        else:
            _expect(False, "what this Airflow lacks is refused")  # noqa: FBT003


class _triggerer:  # noqa: N801 - used as a block
    """A triggerer in a process of its own, while the block runs."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "triggerer.log"

    def __enter__(self) -> None:
        with self._log.open("ab") as log:
            command = [sys.executable, "-I", "-m", "airflow", "triggerer", "--skip-serve-logs"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def __exit__(self, kind: object, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if kind is not None:
            print(self._log.read_text()[-4000:], file=sys.stderr)


def _airflow(*arguments: str) -> str:
    command = [sys.executable, "-I", "-m", "airflow", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    _expect(result.returncode == 0, f"airflow {' '.join(arguments[:2])}", result.stderr)
    return result.stdout


def _scalar(statement: Callable[..., Any]) -> Any:  # noqa: ANN401 - of the column's type
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        return session.scalar(statement(select))


def _run_dag(dags: Path, dag_id: str, *, day: int) -> dict[str, str]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dags)
    _expect(not bag.import_errors, f"the DAG file can be parsed ({bag.import_errors or 'no error'})")
    at = datetime(2026, 10, day, tzinfo=UTC)
    run = bag.dags[dag_id].test(logical_date=at, run_after=at)
    return {instance.task_id: str(instance.state) for instance in run.get_task_instances()}


@contextmanager
def _unsaid() -> Iterator[None]:
    """Keep the traceback of a job that is meant to fail out of the output, where readers look for what went wrong."""
    sys.stdout.flush()
    said = os.dup(1), os.dup(2)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - no file
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(said[0], 1)
        os.dup2(said[1], 2)


def _wait_for(condition: Callable[[], bool], statement: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < until:
        time.sleep(0.3)
    if not condition():
        raise TimeoutError(statement)
    _expect(True, statement)  # noqa: FBT003


def _expect(condition: bool, statement: str, details: str = "") -> None:  # noqa: FBT001 - reads as an assertion, and survives python -O
    print(f"smoke: {'ok' if condition else 'NOT TRUE'}: {statement}", flush=True)
    if not condition:
        print(details, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
