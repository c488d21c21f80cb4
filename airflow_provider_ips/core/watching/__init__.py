"""What a sensor or trigger waits for, what its tables have gained, and whether that is enough to start."""
