"""Moving manifests into an ICDC table: a byte copy where every entry is wanted, a splice where only some are."""

from __future__ import annotations

from contextlib import ExitStack
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, cast

from airflow_provider_ips.core.selection import Take
from airflow_provider_ips.iceberg.avro import Header
from airflow_provider_ips.iceberg.copying import copy_file
from airflow_provider_ips.iceberg.counting import counted, counts_of, disagreement
from airflow_provider_ips.iceberg.manifest_lists import changed
from airflow_provider_ips.iceberg.moved import Moved
from airflow_provider_ips.iceberg.splicing import Splice
from airflow_provider_ips.iceberg.streams import open_stream

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

    from airflow_provider_ips.core.selection import Selection


def copy_manifest(source_io: FileIO, target_io: FileIO, manifest: ManifestFile, path: str) -> Moved:
    """Copy every byte. Sequence numbers and snapshot ids stay right: the manifest list carries what entries inherit."""
    copied = copy_file(source_io, target_io, manifest.manifest_path, path)
    if copied < manifest.manifest_length:
        raise disagreement(manifest.manifest_path, f"{copied} bytes", f"{manifest.manifest_length}")
    if copied > manifest.manifest_length:
        _count_entries(target_io, manifest, path)  # overwritten by another one, or listed with too small a length
    return Moved(
        manifest=changed(manifest, manifest_path=path, manifest_length=copied),
        files=(manifest.added_files_count or 0) + (manifest.existing_files_count or 0),
        records=(manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0),
    )


def splice_manifest(
    source_io: FileIO, target_io: FileIO, manifest: ManifestFile, selection: Selection, path: str
) -> Moved:
    """Move the wanted entries to a manifest of their own, which the new list lets inherit what the old one did."""

    def create() -> BinaryIO:
        return cast("BinaryIO", written.enter_context(target_io.new_output(path).create(overwrite=True)))

    with open_stream(source_io.new_input(manifest.manifest_path)) as source, ExitStack() as written:
        splice = Splice(Header.read(source), manifest, selection, create)
        length = splice.run(source)
    files = splice.tally.files
    if selection.take is Take.ADDED and files != manifest.added_files_count:
        raise disagreement(manifest.manifest_path, f"{files} added files", str(manifest.added_files_count))
    return splice.tally.moved(manifest, path, length, splice.first_row_id) if files else Moved(manifest=None)


def weigh_manifest(io: FileIO, manifest: ManifestFile, selection: Selection, *, to_the_byte: bool) -> Moved:
    """Tell what moving a manifest would, and move it nowhere; ``to_the_byte`` also where that copies it unread."""
    if selection.take is Take.WHOLE and selection.manifest.volume_known and not to_the_byte:
        return Moved(
            manifest=manifest,
            files=(manifest.added_files_count or 0) + (manifest.existing_files_count or 0),
            records=(manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0),
        )
    with open_stream(io.new_input(manifest.manifest_path)) as source:
        splice = Splice(Header.read(source), manifest, selection, BytesIO)
        length = splice.run(source)
    if not splice.tally.files:
        return Moved(manifest=None)
    return splice.tally.moved(manifest, manifest.manifest_path, length, splice.first_row_id)


def _count_entries(io: FileIO, manifest: ManifestFile, path: str) -> None:
    with open_stream(io.new_input(path)) as stream:
        for _ in counted(Header.read(stream).packed_blocks(stream), manifest.manifest_path, counts_of(manifest)):
            pass
