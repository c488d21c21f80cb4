"""Use the installed package as its users would: capture and commit, in a real Airflow, on a real Iceberg table.

Three runs of one DAG: the first takes the whole table, the second only what came since, the third finds nothing and is
skipped. Everything lies in a temporary folder, SQLite being both Airflow's database and the Iceberg catalog.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

DAG_FILE = """
from airflow.sdk import DAG, task
from airflow_provider_ips import IpCaptureOperator, IpCommitOperator


@task
def daily(source):
    from airflow.providers.apache.iceberg.hooks.iceberg import IcebergHook

    catalog = IcebergHook("lake").get_conn()
    catalog.load_table("db.target").append(catalog.load_table(source).scan().to_arrow())


with DAG(dag_id="smoke", schedule=None) as dag:
    capture = IpCaptureOperator(task_id="capture", source_tables="db.playback", iceberg_conn_id="lake")
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> daily(capture.output["db.playback"]) >> commit
"""


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
                "AIRFLOW_CONN_LAKE": json.dumps({"conn_type": "iceberg", "extra": catalog_settings}),
            }
        )
        _check_installation()
        subprocess.run([sys.executable, "-I", "-m", "airflow", "db", "migrate"], check=True, stdout=subprocess.DEVNULL)
        _capture_and_commit(catalog_settings, folder / "dags")
    print("smoke: passed")


def _check_installation() -> None:
    import airflow_provider_ips

    home = Path(airflow_provider_ips.__file__)
    _expect(home.is_relative_to(sys.prefix), f"the package is the installed one ({home})")
    command = [sys.executable, "-I", "-m", "airflow", "providers", "list", "--output", "json"]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    mine = [provider["version"] for provider in listed if provider["package_name"] == "airflow-provider-ips"]
    _expect(mine == [airflow_provider_ips.__version__], f"airflow providers list shows it ({mine})")
    examples = list((home.parent / "example_dags").glob("*.py"))
    _expect(len(examples) > 0, f"example DAGs are installed ({len(examples)})")


def _capture_and_commit(catalog_settings: dict[str, str], dags: Path) -> None:
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lake", **catalog_settings)
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    catalog.create_namespace("db")
    playback = catalog.create_table("db.playback", schema)
    target = catalog.create_table("db.target", schema)

    def arrive(*ids: int) -> None:
        playback.append(pa.table({"id": list(ids), "day": ["2026-10-01"] * len(ids)}, schema=schema))

    def processed() -> list[int]:
        return sorted(target.refresh().scan().to_arrow()["id"].to_pylist())

    arrive(1, 2, 3)
    arrive(4, 5)
    states = _run_dag(dags, day=1)
    _expect(processed() == [1, 2, 3, 4, 5], f"the first run takes the whole table ({processed()}; {states})")

    arrive(6, 7)
    states = _run_dag(dags, day=2)
    _expect(
        processed() == [1, 2, 3, 4, 5, 6, 7], f"the second run takes only what came since ({processed()}; {states})"
    )

    states = _run_dag(dags, day=3)
    _expect(
        states == {"capture": "success", "daily": "skipped", "commit": "skipped"},
        f"with nothing to process the rest is skipped ({states})",
    )
    _expect(processed() == [1, 2, 3, 4, 5, 6, 7], f"and the target stays as it is ({processed()})")
    _expect(playback.refresh().scan().count() == len(processed()), "the source is as it was")


def _run_dag(dags: Path, *, day: int) -> dict[str, str]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dags)
    _expect(not bag.import_errors, f"the DAG file can be parsed ({bag.import_errors or 'no error'})")
    run = bag.dags["smoke"].test(logical_date=datetime(2026, 10, day, tzinfo=UTC))
    return {instance.task_id: str(instance.state) for instance in run.get_task_instances()}


def _expect(condition: bool, statement: str) -> None:  # noqa: FBT001 - reads as an assertion, and survives python -O
    print(f"smoke: {'ok' if condition else 'NOT TRUE'}: {statement}", flush=True)
    if not condition:
        sys.exit(1)


if __name__ == "__main__":
    main()
