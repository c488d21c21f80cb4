"""Manifest lists and manifests: read as facts, checked for completeness, and spliced."""
