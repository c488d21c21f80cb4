"""Which entries move from a mixed manifest to a new one, and with which numbers; their statistics are never decoded.

An entry inherits the numbers that it lacks from its manifest, as the manifest list describes it. The new manifest is
listed with the same snapshot id and sequence number, so entries inherit what they inherited before and are moved as
they are. From a manifest listed with sequence number 12, of which a capture takes what was added (``Take.ADDED``):

    ADDED, null     moved as it is, and inherits 12 again
    EXISTING, 9     not moved: an earlier snapshot added it
    DELETED, 9      not moved: only live entries are

Row ids are inherited by position. An entry without one gets the ``first_row_id`` that its manifest is listed with, plus
the records of all such entries before it. From a manifest listed with 100:

    a, 10 records    row id 100    wanted        the new manifest is listed with 100, so a inherits it again
    b, 20 records    row id 110    not wanted
    c, 10 records    row id 130    wanted        would inherit 110 in the new manifest, so 130 is written into it

A new manifest in a branch of the source lists every entry as EXISTING, with its numbers written out. When the snapshot
of a branch is expired, some releases of Iceberg delete the data files that its manifests list as ADDED.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

from airflow_provider_ips.core.history.selections import Selection, Take
from airflow_provider_ips.iceberg.avro.container import SYNC_BYTES, BlockWriter, Header, encode_long
from airflow_provider_ips.iceberg.manifests.counts import (
    EntryTally,
    checked_blocks,
    listed_counts,
)
from airflow_provider_ips.iceberg.manifests.entries import (
    ADDED,
    CONTENT_OFFSET,
    DELETED,
    FILE_PATH,
    FILE_SIZE,
    FIRST_ROW_ID,
    PARTITION,
    RECORD_COUNT,
    EntryLayout,
    EntryNumbers,
    with_row_ids,
)
from airflow_provider_ips.iceberg.manifests.lists import first_row_id_of

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile

    RawFields = list[Any]


def fields_to_select_by(selection: Selection) -> set[int]:
    """The fields of a file that :func:`entry_filter` needs."""
    return {FILE_PATH, CONTENT_OFFSET} if selection.take is Take.CHOSEN else set()


def entry_filter(
    selection: Selection, layout: EntryLayout, manifest_sequence_number: int
) -> Callable[[EntryNumbers, RawFields], bool]:
    """Return the function that says whether a live entry belongs to a selection.

    WHOLE     every live entry
    ADDED     those with status ADDED, which the manifest's own snapshot added
    NEWER     those with a sequence number above ``newer_than``, their own or an inherited one
    CHOSEN    those whose path, offset (in a file of deletion vectors) and sequence number are among the chosen ones
    """
    if selection.take is Take.ADDED:
        return lambda numbers, _: numbers.status == ADDED
    if selection.take is Take.NEWER:
        newer_than = selection.newer_than or 0
        return lambda numbers, _: numbers.resolved_sequence_number(manifest_sequence_number) > newer_than
    if selection.take is Take.CHOSEN:
        chosen = selection.chosen
        return lambda numbers, raw: (
            (
                layout.value(FILE_PATH, raw),
                layout.number(CONTENT_OFFSET, raw) or 0,
                numbers.resolved_sequence_number(manifest_sequence_number),
            )
            in chosen
        )
    return lambda _numbers, _raw: True


class Splice:
    """Moves the wanted entries of one manifest. The new file is created when the first entry is written to it."""

    def __init__(
        self,
        header: Header,
        manifest: ManifestFile,
        selection: Selection,
        create: Callable[[], BinaryIO],
        *,
        all_existing: bool = False,
    ) -> None:
        self._header = header
        self._manifest = manifest
        self._all_existing = all_existing
        self._create = create
        self._writer: BlockWriter | None = None
        self.first_row_id = first_row_id_of(manifest)
        """What the new manifest has to be listed with; None for a table without row ids."""
        self._next_row_id = self.first_row_id
        self._next_row_id_of_new: int | None = None
        row_ids = set() if self.first_row_id is None else {FIRST_ROW_ID}
        wanted = {PARTITION, RECORD_COUNT, FILE_SIZE, *row_ids, *fields_to_select_by(selection)}
        self._layout = EntryLayout(header, wanted)
        sequence_number = manifest.sequence_number or 0
        self._is_wanted = entry_filter(selection, self._layout, sequence_number)
        self.tally = EntryTally(self._layout, sequence_number)

    def run(self, source: BinaryIO) -> int:
        """Move what is wanted, one block in memory at a time, and return the length of the new file in bytes."""
        blocks = self._header.packed_blocks(source)
        for count, packed in checked_blocks(blocks, self._manifest.manifest_path, listed_counts(self._manifest)):
            pieces, wanted, is_unchanged = self._wanted_bytes(count, self._header.unpack(packed))
            if not wanted:
                continue
            if wanted == count and is_unchanged:
                self._opened_writer().add_packed(packed, count)  # no need to compress the block again
            else:
                self._opened_writer().add(b"".join(pieces), wanted)
        if self._writer is None:
            return 0
        self._writer.flush()
        return self._writer.length

    def _wanted_bytes(self, count: int, data: bytes) -> tuple[list[bytes], int, bool]:
        """The bytes of a block's wanted entries, the number of entries, and whether they are all unchanged."""
        pieces: list[bytes] = []
        wanted, is_unchanged = 0, True
        run_start = run_end = 0  # unchanged entries that follow each other are one piece
        for start, end, raw in self._layout.walk(count, data):
            numbers = self._layout.numbers(raw)
            if numbers.status == DELETED:
                continue
            row_id = self._inherited_row_id(raw)
            if not self._is_wanted(numbers, raw):
                continue
            if row_id is not None and self._inherits_from_new_manifest(row_id, raw):
                row_id = None
            wanted += 1
            numbers, rewritten, body = self._numbered(numbers, raw, start)
            self.tally.add(numbers, raw)
            if row_id is None and not rewritten and start == run_end:
                run_end = end
                continue
            pieces.append(data[run_start:run_end])
            run_start, run_end = start, end
            if row_id is not None or rewritten:
                pieces += (rewritten, *self._with_row_id(data, body, end, raw, row_id))
                run_start = run_end = end
                is_unchanged = False
        pieces.append(data[run_start:run_end])
        return pieces, wanted, is_unchanged

    def _numbered(self, numbers: EntryNumbers, raw: RawFields, start: int) -> tuple[EntryNumbers, bytes, int]:
        """An entry's numbers in the new manifest, their bytes if they differ, and where its unchanged bytes begin."""
        if not self._all_existing:
            return numbers, b"", start
        own = numbers.written_out(self._manifest.added_snapshot_id, self._manifest.sequence_number or 0)
        if own == numbers:
            return numbers, b"", start
        encoded, replaced = self._layout.with_numbers(own, raw)
        return own, encoded, start + replaced

    def _inherited_row_id(self, raw: RawFields) -> int | None:
        """The row id that a live entry inherits from the old manifest; None if it has its own, or there are none."""
        if self._next_row_id is None or self._layout.number(FIRST_ROW_ID, raw) is not None:
            return None
        row_id = self._next_row_id
        self._next_row_id += self._layout.number(RECORD_COUNT, raw) or 0
        return row_id

    def _inherits_from_new_manifest(self, row_id: int, raw: RawFields) -> bool:
        """Whether an entry that is moved as it is inherits the same row id from the new manifest."""
        if FIRST_ROW_ID not in self._layout.index:
            return False  # a manifest from before v3: its entries get the new field, and so a value in it
        if self._next_row_id_of_new is None:
            self.first_row_id = self._next_row_id_of_new = row_id
        if row_id != self._next_row_id_of_new:
            return False
        self._next_row_id_of_new += self._layout.number(RECORD_COUNT, raw) or 0
        return True

    def _with_row_id(self, data: bytes, start: int, end: int, raw: RawFields, row_id: int | None) -> tuple[bytes, ...]:
        if row_id is None:
            return (data[start:end],)
        encoded = b"\x02" + encode_long(row_id)
        index = self._layout.index.get(FIRST_ROW_ID)
        if index is None:  # a manifest from before v3: with_row_ids appends the field as the last one
            return data[start:end], encoded
        at = raw[index - 1]
        return data[start:at], encoded, data[at + len(raw[index]) : end]

    def _opened_writer(self) -> BlockWriter:
        if self._writer is None:
            header = self._header if self._next_row_id is None else with_row_ids(self._header)
            self._writer = BlockWriter(self._create(), Header(meta=header.meta, sync=os.urandom(SYNC_BYTES)))
        return self._writer
