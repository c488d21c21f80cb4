"""Table histories read, and ICDC tables written and dropped, through PyIceberg and without Airflow."""
