"""The links that the Airflow UI shows on captures and commits."""
