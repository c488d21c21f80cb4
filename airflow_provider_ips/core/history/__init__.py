"""A table's history as facts: snapshots, files, and which data files a delete applies to."""
