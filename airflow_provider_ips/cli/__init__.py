"""`airflow ips`: look at checkpoints, and move them by hand."""
