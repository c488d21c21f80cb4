"""Moving the wanted entries of a mixed manifest to one of their own, without decoding their statistics.

An entry inherits its numbers from what the manifest list says of its manifest. The new list says the same of the new
manifest, so every entry inherits what it did, and its bytes can stay as they are; blocks of which every entry is wanted
are not even compressed again. Row ids alone are handed down by position: the new manifest hands them down from the
first that it holds, and they are written into the entries behind a gap.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from airflow_provider_ips.core.selection import Take
from airflow_provider_ips.iceberg.avro import SYNC_BYTES, BlockWriter, Header, encode_long
from airflow_provider_ips.iceberg.counting import counted, counts_of
from airflow_provider_ips.iceberg.entries import (
    ADDED,
    CONTENT_OFFSET,
    DELETED,
    FILE_PATH,
    FILE_SIZE,
    FIRST_ROW_ID,
    PARTITION,
    RECORD_COUNT,
    EntryLayout,
    Numbers,
    with_row_ids,
)
from airflow_provider_ips.iceberg.manifest_lists import FIRST_ROW_ID as LISTED_FIRST_ROW_ID
from airflow_provider_ips.iceberg.manifest_lists import changed
from airflow_provider_ips.iceberg.moved import Moved
from airflow_provider_ips.iceberg.partitions import PartitionTally

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import ManifestFile

    from airflow_provider_ips.core.selection import Selection

    Found = list[Any]

_REMEMBERED: Final = 10_000
"""Partitions decoded once. More than that in one manifest, and they are decoded again: memory stays as it is."""


class Splice:
    """One manifest on its way. What is written is created only once an entry is wanted."""

    def __init__(
        self, header: Header, manifest: ManifestFile, selection: Selection, create: Callable[[], BinaryIO]
    ) -> None:
        self._header = header
        self._manifest = manifest
        self._create = create
        self._writer: BlockWriter | None = None
        self._next_row_id: int | None = manifest[LISTED_FIRST_ROW_ID]
        self._hands_down: int | None = None
        self.first_row_id: int | None = self._next_row_id
        row_ids = set() if self._next_row_id is None else {FIRST_ROW_ID}
        self._layout = EntryLayout(header, {PARTITION, RECORD_COUNT, FILE_SIZE, *row_ids, *needs(selection)})
        self._inherited = manifest.sequence_number or 0
        self._wanted = wants(selection, self._layout, self._inherited)
        self.tally = Tally(self._layout, self._inherited)

    def run(self, source: BinaryIO) -> int:
        """Move all that is wanted, a block in memory at a time, and give the length of what was written."""
        blocks = self._header.packed_blocks(source)
        for count, packed in counted(blocks, self._manifest.manifest_path, counts_of(self._manifest)):
            pieces, kept, untouched = self._take(count, self._header.unpack(packed))
            if not kept:
                continue
            if kept == count and untouched:
                self._to().add_packed(packed, count)
            else:
                self._to().add(b"".join(pieces), kept)
        if self._writer is None:
            return 0
        self._writer.flush()
        return self._writer.length

    def _take(self, count: int, data: bytes) -> tuple[list[bytes], int, bool]:
        """The bytes of the wanted entries, how many they are, and whether they are as they were."""
        pieces: list[bytes] = []
        kept, untouched = 0, True
        begin = upto = 0
        for start, end, found in self._layout.walk(count, data):
            own = self._layout.numbers(found)
            if own.status == DELETED:
                continue
            row_id = None if self._next_row_id is None else self._row_id_of(found)
            if not self._wanted(own, found):
                continue
            if row_id is not None and self._is_handed_down(row_id, found):
                row_id = None
            kept += 1
            self.tally.count(own, found)
            if row_id is None and start == upto:
                upto = end
                continue
            pieces.append(data[begin:upto])
            begin, upto = start, end
            if row_id is not None:
                pieces += self._with_row_id(data, start, end, found, row_id)
                begin = upto = end
                untouched = False
        pieces.append(data[begin:upto])
        return pieces, kept, untouched

    def _row_id_of(self, found: Found) -> int | None:
        """What a live entry without a row id inherits; None for one that has its own."""
        if self._layout.number(FIRST_ROW_ID, found) is not None or self._next_row_id is None:
            return None
        row_id = self._next_row_id
        self._next_row_id += self._layout.number(RECORD_COUNT, found) or 0
        return row_id

    def _is_handed_down(self, row_id: int, found: Found) -> bool:
        """Whether the entry inherits from the new manifest what it inherits from the old one."""
        if FIRST_ROW_ID not in self._layout.place:
            return False  # a manifest from before v3, whose new form has the field, and so a value in it
        if self._hands_down is None:
            self.first_row_id = self._hands_down = row_id
        if row_id != self._hands_down:
            return False
        self._hands_down += self._layout.number(RECORD_COUNT, found) or 0
        return True

    def _with_row_id(self, data: bytes, start: int, end: int, found: Found, row_id: int) -> tuple[bytes, ...]:
        written = b"\x02" + encode_long(row_id)
        place = self._layout.place.get(FIRST_ROW_ID)
        if place is None:  # a manifest from before v3; with_row_ids adds the field as the last
            return data[start:end], written
        at = found[place - 1]
        return data[start:at], written, data[at + len(found[place]) : end]

    def _to(self) -> BlockWriter:
        if self._writer is None:
            header = self._header if self._next_row_id is None else with_row_ids(self._header)
            self._writer = BlockWriter(self._create(), Header(meta=header.meta, sync=os.urandom(SYNC_BYTES)))
        return self._writer


def needs(selection: Selection) -> set[int]:
    """The fields of a file by which :func:`wants` decides."""
    return {FILE_PATH, CONTENT_OFFSET} if selection.take is Take.CHOSEN else set()


def wants(selection: Selection, layout: EntryLayout, inherited: int) -> Callable[[Numbers, Found], bool]:
    """The predicate of a selection, over entries that are live."""
    if selection.take is Take.ADDED:
        return lambda own, _: own.status == ADDED
    if selection.take is Take.NEWER:
        floor = selection.newer_than or 0
        return lambda own, _: resolved(own, inherited) > floor
    if selection.take is Take.CHOSEN:
        chosen = selection.chosen
        return lambda _, found: (layout.value(FILE_PATH, found), layout.number(CONTENT_OFFSET, found) or 0) in chosen
    return lambda _own, _found: True


def resolved(own: Numbers, inherited: int) -> int:
    """The sequence number that readers see: an entry hands down its own, or its manifest's if it was added there."""
    if own.sequence_number is not None:
        return own.sequence_number
    return inherited if own.status == ADDED else 0


class Tally:
    """Counts what the new manifest list says about the new manifest."""

    def __init__(self, layout: EntryLayout, inherited: int) -> None:
        self._layout = layout
        self._inherited = inherited
        self._partitions = PartitionTally(layout.header.schema)
        self._seen: set[bytes] = set()
        self._lowest: int | None = None
        self._added = [0, 0]
        self._existing = [0, 0]
        self.size_bytes = 0

    @property
    def files(self) -> int:
        """How many entries were moved."""
        return self._added[0] + self._existing[0]

    def count(self, own: Numbers, found: Found) -> None:
        """Add one entry that is live."""
        layout = self._layout
        volume = self._added if own.status == ADDED else self._existing
        volume[0] += 1
        volume[1] += layout.number(RECORD_COUNT, found) or 0
        self.size_bytes += layout.number(FILE_SIZE, found) or 0
        number = resolved(own, self._inherited)
        if self._lowest is None or number < self._lowest:
            self._lowest = number
        partition = found[layout.place[PARTITION]]
        if partition not in self._seen:
            self._widen(partition, found)

    def _widen(self, partition: bytes, found: Found) -> None:
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen.add(partition)
        self._partitions.update(self._layout.value(PARTITION, found))

    def moved(self, manifest: ManifestFile, path: str, length: int, first_row_id: int | None) -> Moved:
        """The new manifest as the new list will have it."""
        listed = changed(
            manifest,
            manifest_path=path,
            manifest_length=length,
            min_sequence_number=self._lowest or 0,
            added_files_count=self._added[0],
            added_rows_count=self._added[1],
            existing_files_count=self._existing[0],
            existing_rows_count=self._existing[1],
            deleted_files_count=0,
            deleted_rows_count=0,
            partitions=self._partitions.summaries(),
            first_row_id=first_row_id,
        )
        records = self._added[1] + self._existing[1]
        return Moved(manifest=listed, files=self.files, records=records, size_bytes=self.size_bytes)
