"""The hook that opens the Iceberg catalog of an Airflow connection."""
