"""Iceberg tables as Airflow assets: their names, their URIs, and their names in OpenLineage."""
