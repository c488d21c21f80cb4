"""How a manifest gets into an ICDC table: copied if every entry is wanted, else spliced; or only counted."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, cast

from airflow_provider_ips.core.history.selections import Selection, Take
from airflow_provider_ips.iceberg.avro.container import Header
from airflow_provider_ips.iceberg.manifests.counts import MovedManifest, checked_blocks, count_mismatch, listed_counts
from airflow_provider_ips.iceberg.manifests.lists import with_fields
from airflow_provider_ips.iceberg.manifests.splice import Splice
from airflow_provider_ips.iceberg.storage.files import copy_file, open_stream

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile


def move_manifest(
    source_io: FileIO, target_io: FileIO, manifest: ManifestFile, selection: Selection, path: str
) -> MovedManifest:
    """Write what a selection takes of a manifest to a new file."""
    if can_be_copied(selection):
        return copy_manifest(source_io, target_io, manifest, path)
    return splice_manifest(source_io, target_io, manifest, selection, path)


def can_be_copied(selection: Selection) -> bool:
    """Whether every entry is wanted, and the manifest list says how many files and records those are."""
    return selection.take is Take.WHOLE and selection.manifest.volume_known


def copy_manifest(source_io: FileIO, target_io: FileIO, manifest: ManifestFile, path: str) -> MovedManifest:
    """Copy every byte. Entries inherit the same numbers, because the new list describes the manifest as the old one."""
    copied = copy_file(source_io, target_io, manifest.manifest_path, path)
    moved = as_listed(with_fields(manifest, manifest_path=path))
    return replace(moved, copy_of=manifest) if copied is None else measured_copy(target_io, manifest, path, copied)


def measured_copy(io: FileIO, manifest: ManifestFile, path: str, copied: int) -> MovedManifest:
    """Compare a copy's size with what the manifest list says of it."""
    if copied < manifest.manifest_length:
        raise count_mismatch(manifest.manifest_path, f"{copied} bytes", f"{manifest.manifest_length}")
    if copied > manifest.manifest_length:
        _check_entries(io, manifest, path)  # it was overwritten, or is listed with too small a length
    return as_listed(with_fields(manifest, manifest_path=path, manifest_length=copied))


def splice_manifest(
    source_io: FileIO,
    target_io: FileIO,
    manifest: ManifestFile,
    selection: Selection,
    path: str,
    *,
    all_existing: bool = False,
) -> MovedManifest:
    """Write the wanted entries to a new manifest."""

    def create() -> BinaryIO:
        return cast("BinaryIO", written.enter_context(target_io.new_output(path).create(overwrite=True)))

    with open_stream(source_io, manifest.manifest_path) as source, ExitStack() as written:
        splice = Splice(Header.read(source), manifest, selection, create, all_existing=all_existing)
        length = splice.run(source)
    files = splice.tally.files
    if selection.take is Take.ADDED and files != manifest.added_files_count:
        raise count_mismatch(manifest.manifest_path, f"{files} added files", str(manifest.added_files_count))
    return _as_spliced(splice, manifest, path, length)


def preview_manifest(io: FileIO, manifest: ManifestFile, selection: Selection, *, with_size: bool) -> MovedManifest:
    """Say what moving a manifest would result in, without writing a file.

    :param with_size: read the sizes of files from the entries, also where the manifest could be copied unread
    """
    if can_be_copied(selection) and not with_size:
        return as_listed(manifest)
    with open_stream(io, manifest.manifest_path) as source:
        splice = Splice(Header.read(source), manifest, selection, BytesIO)
        length = splice.run(source)
    return _as_spliced(splice, manifest, manifest.manifest_path, length)


def as_listed(manifest: ManifestFile) -> MovedManifest:
    """A manifest that is used as it is, with the live files that its list counts."""
    return MovedManifest(
        manifest=manifest,
        files=(manifest.added_files_count or 0) + (manifest.existing_files_count or 0),
        records=(manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0),
    )


def _as_spliced(splice: Splice, manifest: ManifestFile, path: str, length: int) -> MovedManifest:
    if not splice.tally.files:
        return MovedManifest(manifest=None)
    return splice.tally.moved(manifest, path, length, splice.first_row_id)


def _check_entries(io: FileIO, manifest: ManifestFile, path: str) -> None:
    with open_stream(io, path) as stream:
        blocks = Header.read(stream).packed_blocks(stream)
        for _ in checked_blocks(blocks, manifest.manifest_path, listed_counts(manifest)):
            pass
