"""Watching a table from Airflow's event loop, for deferred tasks and for assets."""
