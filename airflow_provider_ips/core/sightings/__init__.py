"""What was seen of consumers and tables, for people: lag, runway and commits, each with the time when it was seen."""
