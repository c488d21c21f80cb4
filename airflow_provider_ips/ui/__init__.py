"""The pages in Airflow's UI: their routes, who may see and change what, and what they show."""
