"""The capture record page in Airflow's UI: its route, who may see it, and what it shows."""
