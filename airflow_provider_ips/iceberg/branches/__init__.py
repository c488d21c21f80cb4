"""Captures that are branches of their source: how they are published, found again, and taken away."""
