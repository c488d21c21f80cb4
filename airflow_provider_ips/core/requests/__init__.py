"""What a run is requested to capture: the usual range, or other rows, in a detached capture."""
