"""Iceberg tables as Airflow assets: their names, their URIs, and what lineage calls them."""
