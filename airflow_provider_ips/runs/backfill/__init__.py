"""One execution of a backfill: its request, its plan, and what later stages hold."""
