"""The commands of `airflow ips` and of the maintenance DAG: they show, check and change checkpoints and ICDC tables."""
