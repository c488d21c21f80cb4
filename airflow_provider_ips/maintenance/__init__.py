"""What people do to checkpoints and ICDC tables, for the command line and for the maintenance DAG alike."""
