"""What capture, drop and gc cost on an object store that is far away."""
