"""What was captured: the record of a run, and of each of its sources."""
