"""What a capture takes: manifests, and which of their entries."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_ips.core.files import FileKey
    from airflow_provider_ips.core.history import ManifestFacts
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.record import Kind, Verdict


class Take(StrEnum):
    """Which entries of a manifest are wanted."""

    WHOLE = "whole"
    """The manifest as it is: every live entry is wanted."""

    ADDED = "added"
    """The entries that the manifest's own snapshot added."""

    NEWER = "newer"
    """The live entries with a data sequence number above ``newer_than``."""

    CHOSEN = "chosen"
    """The live entries of the files in ``chosen``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One manifest and what to take of it."""

    manifest: ManifestFacts
    take: Take
    newer_than: int | None = None
    chosen: frozenset[FileKey] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePlan:
    """What a capture will hold, decided before anything is written."""

    kind: Kind
    from_exclusive: Position | None
    to_inclusive: Position
    verdicts: tuple[Verdict, ...] = ()
    selections: tuple[Selection, ...] = ()
    before: tuple[Selection, ...] = ()
    """Change capture: where the changed rows came from, as of ``from_exclusive``."""

    superset: bool = False
    """The captured files carry rows that did not change."""

    size_bytes: int | None = None
    before_bytes: int | None = 0
    predicate: str | None = None
    no_predicate: str = ""
    warnings: tuple[str, ...] = ()
    only_partitions: str | None = None
    """The condition on partition columns that everything selected meets."""

    @property
    def is_empty(self) -> bool:
        """Nothing to process."""
        return not (self.selections or self.before)
