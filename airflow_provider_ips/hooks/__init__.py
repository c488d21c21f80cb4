"""The catalog behind an Airflow connection."""
