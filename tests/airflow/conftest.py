"""A real Airflow on a SQLite file of its own, and a catalog per test."""

import pytest

from tests.kit.airflow import airflow_database, events, job, lake, run_dag

__all__ = ["airflow_database", "events", "job", "lake", "run_dag"]


@pytest.fixture
def serve_below(monkeypatch):
    """Let a proxy serve this Airflow below a path, as a server finds it when it starts."""
    from airflow_provider_ips.ui.urls import prefix

    def serve(path):
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"https://example.org{path}/")
        prefix.cache_clear()

    yield serve
    monkeypatch.undo()
    prefix.cache_clear()
