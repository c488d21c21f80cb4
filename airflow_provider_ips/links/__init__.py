"""What a click on a task of the Airflow UI leads to."""
