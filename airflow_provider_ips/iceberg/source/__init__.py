"""A source table as a history: loaded once, with its older metadata files and its rules of retention."""
