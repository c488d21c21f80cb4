"""What the package adds to Airflow's API server."""
