"""Facts in, verdict out: what a table's history means for a consumer, without Airflow, PyIceberg or any file."""
