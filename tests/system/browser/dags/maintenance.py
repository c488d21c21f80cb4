"""The example DAG ips_maintenance of airflow-provider-ips, unpaused: it does what the API server cannot do."""

from dags_examples.maintenance import dag

dag.is_paused_upon_creation = False
