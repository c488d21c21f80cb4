"""The overview of 1,000 consumers, as Airflow's API server makes it: `make bench-pages`.

Each consumer has a DAG with a capture and a commit, a checkpoint of 50 commits, and a sighting with 100 points,
encrypted as a deployment has them. Airflow is on SQLite, and the server is in this process. Fails at one second, or at
50 queries, also for a server's first answer. The least of three servers counts, for a busy machine makes some slower.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from cryptography.fernet import Fernet

from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import Position

if TYPE_CHECKING:
    from airflow.sdk import DAG

CONSUMERS: Final = 1000
COMMITS: Final = 50
POINTS: Final = 100
SERVERS: Final = 3
MOST_S: Final = 1.0
MOST_QUERIES: Final = 50


def main(arguments: list[str]) -> int:
    if arguments == ["ask"]:
        print(json.dumps(_ask()))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "AIRFLOW_HOME": folder,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__FERNET_KEY": Fernet.generate_key().decode(),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
            "_AIRFLOW_PROCESS_CONTEXT": "server",
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        }
        os.environ.update(environment)
        _store_all()
        asked = [sys.executable, "-m", "benchmarks.pages", "ask"]
        said = [subprocess.check_output(asked, text=True).splitlines()[-1] for _ in range(SERVERS)]
    answers = [json.loads(line) for line in said]
    first, later = (min(answer[name] for answer in answers) for name in ("first", "later"))
    queries = max(answer["queries"] for answer in answers)
    print(f"{CONSUMERS:,} consumers: first answer {first:.2f} s, later ones {later:.2f} s, {queries} queries")
    is_kept = first < MOST_S and queries < MOST_QUERIES
    print(f"at most {MOST_S:.0f} s and {MOST_QUERIES} queries: {'kept' if is_kept else 'exceeded'}")
    return 0 if is_kept else 1


def _ask() -> dict[str, float]:
    """Start a server, open the overview twice, and say how long that took."""
    from airflow import settings
    from airflow.api_fastapi.app import create_app, get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient
    from sqlalchemy import event

    browser = TestClient(create_app(apps="core"))
    browser.cookies.set(
        "_token", get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="admin", role="ADMIN"))
    )
    browser.get("/api/v2/monitor/health")  # as a deployment's probe does, before anybody opens a page
    queries: list[str] = []
    event.listen(settings.engine, "before_cursor_execute", lambda *call: queries.append(call[2]))
    seconds, asked = [], []
    for _ in range(2):
        queries.clear()
        began = time.perf_counter()
        answer = browser.get("/ips/")
        seconds.append(time.perf_counter() - began)
        if answer.status_code != HTTPStatus.OK or answer.text.count("<tr data-state") != CONSUMERS:
            raise RuntimeError(f"{answer.status_code}: {answer.text[:500]}")
        asked.append(len(queries))
    return {"first": seconds[0], "later": seconds[1], "queries": max(asked)}


def _store_all() -> None:
    """A DAG, a checkpoint and a sighting for each consumer, as the DAG processor, commits and looks leave them."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    initdb()
    with create_session() as session:
        session.merge(DagBundleModel(name="benchmark"))
    for number in range(CONSUMERS):
        dag = LazyDeserializedDAG.from_dag(_dag(f"dag_{number}", f"db.t{number}"))
        SerializedDAG.bulk_write_to_db("benchmark", None, [dag])
        SerializedDagModel.write_dag(dag, bundle_name="benchmark")
        _store_checkpoint(f"dag_{number}.capture", f"db.t{number}")


def _dag(dag_id: str, table: str) -> DAG:
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG

    from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

    with DAG(dag_id, schedule=None) as dag:
        capture = IpCaptureOperator(task_id="capture", source_tables=table, target_lag=timedelta(hours=2))
        capture >> EmptyOperator(task_id="job") >> IpCommitOperator(task_id="commit", capture=capture)
    return dag


def _store_checkpoint(consumer: str, table: str) -> None:
    from airflow.models.variable import Variable

    from airflow_provider_ips.core.checkpoint.document import Checkpoint
    from airflow_provider_ips.core.checkpoint.entries import CommittedCapture, SourcePosition, SourceRange
    from airflow_provider_ips.core.identifiers import variable_key
    from airflow_provider_ips.core.positions import RunIdentity
    from airflow_provider_ips.core.record import Kind

    def position(number: int) -> Position:
        return Position(table_uuid="u", snapshot_id=10**18 + number, sequence_number=number, committed_at_ms=number)

    run = RunIdentity(dag_id=consumer.rpartition(".")[0], run_id="scheduled__2026", map_index=-1, run_after="t")
    history = [
        CommittedCapture(
            capture_id=f"{number:012x}",
            run=run,
            committed_at_ms=_now_ms() - (COMMITS - number) * 3_600_000,
            ranges=(
                SourceRange(
                    source=Source(table),
                    kind=Kind.RANGE,
                    from_exclusive=position(number),
                    to_inclusive=position(number + 1),
                    icdc_table=f"icdc.{table.replace('.', '_')}_{number:012x}",
                ),
            ),
        )
        for number in range(COMMITS)
    ]
    positions = (SourcePosition(source=Source(table), position=position(COMMITS)),)
    checkpoint = Checkpoint(consumer=consumer, revision=COMMITS, positions=positions, history=tuple(history))
    Variable.set(variable_key(consumer), checkpoint.to_text())
    _store_sighting(consumer, Source(table), position(COMMITS))


def _store_sighting(consumer: str, source: Source, committed: Position) -> None:
    from airflow.models.variable import Variable

    from airflow_provider_ips.core.record import Volume
    from airflow_provider_ips.core.sightings.consumer_sighting import (
        ConsumerSighting,
        Lag,
        Point,
        SeenBy,
        SourceSighting,
        consumer_sighting_key,
    )

    now = _now_ms()
    amounts = Volume(files=3, records=3000, size_bytes=10**6)
    seen = SourceSighting(
        source=source,
        seen_at_ms=now,
        seen_by=SeenBy.WATCH,
        head=committed,
        table=Volume(files=1000, records=10**7, size_bytes=10**10),
        committed=committed,
        lag=Lag(commits=3, volume=amounts, oldest_unprocessed_at_ms=now - 600_000),
        runway_until_ms=now + 10**8,
    )
    points = tuple(Point(now - n * 60_000, n, n, n, 10**10) for n in reversed(range(POINTS)))
    sighting = ConsumerSighting(
        consumer=consumer,
        dag_id=consumer.rpartition(".")[0],
        task_id="capture",
        iceberg_conn_id="iceberg_default",
        seen_at_ms=now,
        seen_by=SeenBy.WATCH,
        sources=(seen,),
        target_lag_s=7200,
        points=points,
    )
    Variable.set(consumer_sighting_key(consumer), sighting.to_text())


def _now_ms() -> int:
    return int(time.time() * 1000)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
