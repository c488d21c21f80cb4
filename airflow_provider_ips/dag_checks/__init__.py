"""What is refused when a DAG file is read, and what is then attached to the tasks of the DAG."""
