"""The two tasks that make a DAG incremental: capture and commit."""
