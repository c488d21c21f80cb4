"""The sensor that waits until Iceberg tables have gained rows."""
