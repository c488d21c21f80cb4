"""Facts in, verdict out: what to capture and where a checkpoint moves. Imports neither Airflow nor PyIceberg."""
