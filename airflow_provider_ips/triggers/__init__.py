"""The trigger that watches tables in Airflow's event loop, for deferred sensors and for asset watchers."""
