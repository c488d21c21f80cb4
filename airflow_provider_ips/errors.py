"""Every error that this package raises on purpose, for `except` clauses in your code.

The classes are defined in `airflow_provider_ips.core.errors`, where their tree is drawn, and keep that as their
module: errors that were pickled under that path can still be read.
"""

from __future__ import annotations

from airflow_provider_ips.core.errors import (
    ActiveRunError,
    CatalogError,
    CheckpointConflictError,
    CheckpointError,
    DamagedCheckpointError,
    EvidenceError,
    GapError,
    IcdcConflictError,
    InputError,
    IpsError,
    RefusedOperationError,
    SourceError,
    StoreUnavailableError,
    UnsupportedTableError,
    UnsupportedVersionError,
)

__all__ = [
    "ActiveRunError",
    "CatalogError",
    "CheckpointConflictError",
    "CheckpointError",
    "DamagedCheckpointError",
    "EvidenceError",
    "GapError",
    "IcdcConflictError",
    "InputError",
    "IpsError",
    "RefusedOperationError",
    "SourceError",
    "StoreUnavailableError",
    "UnsupportedTableError",
    "UnsupportedVersionError",
]
