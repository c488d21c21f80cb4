"""Metadata files in their storage: how they are read, copied and listed."""
