"""The commands `airflow ips …`: their definition for Airflow's parser, and the terminal that they run in."""
