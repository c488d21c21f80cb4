"""Partitions and their columns: filters, the units of a backfill, and which values captured files hold."""
