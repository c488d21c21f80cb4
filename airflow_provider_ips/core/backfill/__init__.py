"""A backfill in chunks: how it is cut, which values of a column a chunk covers, and which runs write the same rows."""
