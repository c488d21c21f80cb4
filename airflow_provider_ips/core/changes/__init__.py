"""The net effect of a range on files: what each snapshot did, and what became of every file."""
