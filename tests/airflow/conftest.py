"""A real Airflow on a SQLite file of its own, and a catalog per test."""

from tests.kit.airflow import airflow_database, events, job, lake, run_dag

__all__ = ["airflow_database", "events", "job", "lake", "run_dag"]
