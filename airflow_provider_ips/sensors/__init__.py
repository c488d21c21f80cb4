"""Tasks that wait until a table has gained something."""
