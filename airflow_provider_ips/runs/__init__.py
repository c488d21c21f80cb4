"""One execution of a capture, a commit or a backfill, step by step."""
