"""The release checklist, as a command (``make release-check``)."""
