"""The real Airflow of the test's process, whose database the triggerer shares."""

from tests.kit.airflow import airflow_database, lake, run_dag

__all__ = ["airflow_database", "lake", "run_dag"]
