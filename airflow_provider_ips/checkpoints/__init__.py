"""Keeps each consumer's checkpoint, in an Airflow Variable or in an Iceberg log table."""
