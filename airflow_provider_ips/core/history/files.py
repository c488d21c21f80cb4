"""Manifests, and the data files and delete files that they list, and which delete file applies to which data file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

DATA = "data"
DELETES = "deletes"


class Status(IntEnum):
    """What the snapshot of a manifest entry did with the file."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class Content(IntEnum):
    """What a file holds."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


FileKey = tuple[str, int, int]
"""A path, the offset of the content in it, and the data sequence number.

One Puffin file holds the deletion vectors of many data files, so they differ by offset. One path may be added by
several commits (``add_files`` with ``check_duplicate_files=False``): its entries differ by sequence number, and engines
read its rows once for each.
"""

Partition = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFacts:
    """One manifest, as a manifest list describes it. Counts are None where a v1 list leaves them out."""

    path: str
    length: int
    content: str
    spec_id: int
    added_snapshot_id: int | None
    sequence_number: int
    min_sequence_number: int
    added_files: int | None
    existing_files: int | None
    deleted_files: int | None
    added_rows: int | None
    existing_rows: int | None
    deleted_rows: int | None

    @property
    def counts_known(self) -> bool:
        """Whether the list says how many entries of each kind the manifest holds."""
        return None not in (self.added_files, self.existing_files, self.deleted_files)

    @property
    def live_files(self) -> int | None:
        """How many live files it lists; None if the list does not say."""
        return (
            None if self.added_files is None or self.existing_files is None else self.added_files + self.existing_files
        )

    @property
    def live_rows(self) -> int | None:
        """How many rows its live files hold; None if the list does not say."""
        return None if self.added_rows is None or self.existing_rows is None else self.added_rows + self.existing_rows

    @property
    def volume_known(self) -> bool:
        """Whether the list says how many files and rows are live in it."""
        return self.counts_known and None not in (self.added_rows, self.existing_rows, self.deleted_rows)

    @property
    def may_have_live_files(self) -> bool:
        """Whether it may list a live file; it may where the list does not give its counts."""
        return not self.counts_known or bool(self.added_files or self.existing_files)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """One manifest entry, with the values that it inherits from its manifest."""

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
    referenced_data_file: str | None = None
    """The one data file that a position delete file or deletion vector applies to; None if it may be several."""

    has_row_id: bool = False
    """Its rows have ids and sequence numbers of their own (``first_row_id`` is set)."""

    @property
    def key(self) -> FileKey:
        """What tells it from the other live entries of a table. Format version 1 has no sequence numbers: all are 0."""
        return (self.path, self.offset, self.sequence_number)

    @property
    def is_equality_delete(self) -> bool:
        """It deletes rows by their values, as streaming writers do."""
        return self.content is Content.EQUALITY_DELETES

    @property
    def is_live(self) -> bool:
        """The entry's snapshot still holds the file."""
        return self.status is not Status.DELETED


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedFile:
    """A file and the manifest that lists it."""

    manifest: ManifestFacts
    file: FileFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteScope:
    """The data files that one delete file may apply to.

    position delete, number 7, names file f            f, if its number is at most 7
    position delete, number 7, of partition day=1      files of day=1 with numbers up to 7
    equality delete, number 7, of partition day=1      files of day=1 with numbers up to 6
    equality delete, number 7, without partition       files of all partitions and specs with numbers up to 6

    An equality delete whose partition values are all null counts as one without partition: a scope that is too wide
    costs bytes, one that is too narrow costs rows.
    """

    referenced_data_file: str | None
    spec_id: int | None
    partition: Partition
    max_sequence_number: int

    @classmethod
    def of(cls, delete: FileFacts) -> DeleteScope:
        """The scope of a delete file by the Iceberg specification (scan planning)."""
        if delete.content is Content.EQUALITY_DELETES:
            everywhere = all(value is None for value in delete.partition)
            return cls(
                referenced_data_file=None,
                spec_id=None if everywhere else delete.spec_id,
                partition=() if everywhere else delete.partition,
                max_sequence_number=delete.sequence_number - 1,
            )
        return cls(
            referenced_data_file=delete.referenced_data_file,
            spec_id=delete.spec_id,
            partition=delete.partition,
            max_sequence_number=delete.sequence_number,
        )

    def covers(self, file: FileFacts) -> bool:
        """Whether the delete file may apply to a data file."""
        if file.sequence_number > self.max_sequence_number:
            return False
        if self.referenced_data_file is not None:
            return self.referenced_data_file == file.path
        return self.spec_id is None or (self.spec_id, self.partition) == (file.spec_id, file.partition)


class DataFileIndex:
    """Data files, indexed so that many delete files can be tested against all of them."""

    def __init__(self, files: Iterable[FileFacts]) -> None:
        self._paths: dict[str, int] = {}
        self._oldest: dict[tuple[int, Partition], int] = {}
        for file in files:
            self._paths[file.path] = min(file.sequence_number, self._paths.get(file.path, file.sequence_number))
            place = (file.spec_id, file.partition)
            self._oldest[place] = min(file.sequence_number, self._oldest.get(place, file.sequence_number))

    @property
    def oldest(self) -> int | None:
        """The lowest sequence number: no delete file with a lower one applies to any of these files."""
        return min(self._oldest.values(), default=None)

    def has_file_in(self, scope: DeleteScope) -> bool:
        """Whether a delete file with this scope may apply to any of the files."""
        if scope.referenced_data_file is not None:
            oldest = self._paths.get(scope.referenced_data_file)
        elif scope.spec_id is None:
            oldest = self.oldest
        else:
            oldest = self._oldest.get((scope.spec_id, scope.partition))
        return oldest is not None and oldest <= scope.max_sequence_number
