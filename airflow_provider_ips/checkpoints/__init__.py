"""Where a consumer's checkpoint lives."""
