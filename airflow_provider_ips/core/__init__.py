"""Facts in, verdict out: what to capture and where a checkpoint moves, without Airflow or PyIceberg."""
