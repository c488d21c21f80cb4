"""What this package and other ways to read what is new in a table make of the same tables."""
