"""Which manifests and entries a capture takes, and the plan that holds them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_provider_ips.core.history.files import FileKey, ManifestFacts
from airflow_provider_ips.core.identifiers import digest
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Kind, Verdict

ROW_EXACT: Final = "not needed: the capture is row-exact"
"""Why a capture without unchanged rows has no predicate."""


class Take(StrEnum):
    """Which entries of a manifest are taken."""

    WHOLE = "whole"
    """Every live entry: the manifest is copied as it is."""

    ADDED = "added"
    """The entries that the manifest's own snapshot added."""

    NEWER = "newer"
    """The live entries with a data sequence number above ``newer_than``."""

    CHOSEN = "chosen"
    """The live entries of the files in ``chosen``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A manifest and the entries that are taken from it."""

    manifest: ManifestFacts
    take: Take
    newer_than: int | None = None
    chosen: frozenset[FileKey] = frozenset()

    @property
    def _identity(self) -> list[object]:
        return [self.manifest.path, self.take.value, self.newer_than, sorted(self.chosen)]


def _identities(selections: Sequence[Selection]) -> list[str]:
    return sorted(json.dumps(selection._identity) for selection in selections)  # noqa: SLF001 - of this module


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePlan:
    """What a capture of one source will hold, decided before anything is written."""

    kind: Kind
    from_exclusive: Position | None
    to_inclusive: Position
    verdicts: tuple[Verdict, ...] = ()
    selections: tuple[Selection, ...] = ()
    before: tuple[Selection, ...] = ()
    """A capture of changes: the files that held changed and removed rows, as of ``from_exclusive``."""

    superset: bool = False
    """The captured files also hold rows that did not change."""

    size_bytes: int | None = None
    before_bytes: int | None = 0
    predicate: str | None = None
    """A condition in SQL that leaves out the unchanged rows of a superset."""

    no_predicate: str = ""
    """Why there is no predicate."""

    warnings: tuple[str, ...] = ()
    only_partitions: str | None = None
    """The condition on partition columns that the capture was narrowed to."""

    @property
    def is_empty(self) -> bool:
        return self.kind is Kind.EMPTY

    @property
    def selection(self) -> str:
        """Identify the captured rows: plans with the same value have the same range and take the same entries."""
        ends = [None if end is None else [end.table_uuid, end.snapshot_id] for end in self._ends]
        taken = (json.dumps([self.kind.value, ends]), *_identities(self.selections), "before")
        return digest(*taken, *_identities(self.before))

    @property
    def _ends(self) -> tuple[Position | None, Position]:
        return self.from_exclusive, self.to_inclusive


def selection_mark(rules: str, plan: CapturePlan, read_as: str) -> str:
    """Combine the settings that choose rows, the schema they are read by, and what was chosen: any change shows."""
    return f"{digest(rules)}.{read_as}.{plan.selection}"


def has_rules(mark: str | None, rules: str) -> bool:
    """Tell whether a mark was made with these settings. An unknown mark is never the same."""
    return mark is not None and mark.partition(".")[0] == digest(rules)
