"""Metadata files in their storage: how they are read, copied, listed and deleted, by as few requests as possible."""
