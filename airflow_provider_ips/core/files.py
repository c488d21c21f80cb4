"""Data files and delete files as manifests list them, and which delete reaches which data file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_ips.core.history import ManifestFacts


class Status(IntEnum):
    """What a manifest entry says of its file."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class Content(IntEnum):
    """What a file holds."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


FileKey = tuple[str, int]
"""A path, and where in it the content lies: one Puffin file holds the deletion vectors of many data files."""

Partition = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """One manifest entry with what it inherits from its manifest resolved."""

    path: str
    content: Content
    status: Status
    spec_id: int
    partition: Partition
    snapshot_id: int | None
    sequence_number: int
    records: int
    size_bytes: int
    offset: int = 0
    names: str | None = None
    """The one data file that a position delete or deletion vector applies to; None where it may be several."""
    has_row_id: bool = False

    @property
    def key(self) -> FileKey:
        """What tells it from every other live entry of a table."""
        return (self.path, self.offset)

    @property
    def is_equality(self) -> bool:
        """A delete by values, as streaming writers leave them."""
        return self.content is Content.EQUALITY_DELETES

    @property
    def is_live(self) -> bool:
        """The entry's snapshot still holds the file."""
        return self.status is not Status.DELETED


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """An entry and the manifest that it was read from."""

    manifest: ManifestFacts
    file: FileFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The data files that one delete file may apply to: one by name, or all of a partition up to a sequence number.

    An equality delete without partition values reaches all partitions of all specs. One that belongs to a partition
    of nulls is taken for such a one as well: reaching too far costs bytes, reaching too short costs rows.
    """

    names: str | None
    spec_id: int | None
    partition: Partition
    up_to: int

    @classmethod
    def of(cls, delete: FileFacts) -> Reach:
        """By the rules of the Iceberg specification."""
        if delete.content is Content.EQUALITY_DELETES:
            everywhere = all(value is None for value in delete.partition)
            return cls(
                names=None,
                spec_id=None if everywhere else delete.spec_id,
                partition=() if everywhere else delete.partition,
                up_to=delete.sequence_number - 1,
            )
        return cls(names=delete.names, spec_id=delete.spec_id, partition=delete.partition, up_to=delete.sequence_number)

    def covers(self, file: FileFacts) -> bool:
        """Tell whether the delete may apply to a data file."""
        if file.sequence_number > self.up_to:
            return False
        if self.names is not None:
            return self.names == file.path
        return self.spec_id is None or (self.spec_id, self.partition) == (file.spec_id, file.partition)


class Targets:
    """Data files, indexed so that each of many deletes is asked once whether it reaches any of them."""

    def __init__(self, files: Iterable[FileFacts]) -> None:
        self._paths: dict[str, int] = {}
        self._oldest: dict[tuple[int, Partition], int] = {}
        for file in files:
            self._paths[file.path] = min(file.sequence_number, self._paths.get(file.path, file.sequence_number))
            place = (file.spec_id, file.partition)
            self._oldest[place] = min(file.sequence_number, self._oldest.get(place, file.sequence_number))

    @property
    def oldest(self) -> int | None:
        """The lowest sequence number: no delete with a lower one reaches anything here."""
        return min(self._oldest.values(), default=None)

    def by(self, reach: Reach) -> bool:
        """Tell whether a delete with this reach applies to any of the files."""
        if reach.names is not None:
            oldest = self._paths.get(reach.names)
        elif reach.spec_id is None:
            oldest = self.oldest
        else:
            oldest = self._oldest.get((reach.spec_id, reach.partition))
        return oldest is not None and oldest <= reach.up_to
