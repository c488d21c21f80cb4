"""What one capture takes: a verdict on each snapshot, the limits of its range, or all live files."""
