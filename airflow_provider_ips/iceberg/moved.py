"""What a moved manifest turned out to hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile


@dataclass(slots=True, kw_only=True)
class Moved:
    """A manifest of the ICDC table, and what it holds that the plan could not know. None: no entry was wanted."""

    manifest: ManifestFile | None
    files: int = 0
    records: int = 0
    size_bytes: int | None = None
