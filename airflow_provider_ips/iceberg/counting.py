"""Seeing that a manifest is whole: that it has as many entries as its manifest list says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.manifest import ManifestFile

    Counts = tuple[int | None, int | None, int | None]


def counted(blocks: Iterable[tuple[int, bytes]], path: str, counts: Counts) -> Iterator[tuple[int, bytes]]:
    """Pass the blocks of a manifest on, and refuse it behind the last one if entries are missing, or too many.

    A manifest that was cut off between two blocks reads as a shorter one, without any error. ``counts`` are those of
    its list, of entries added, existing and deleted; where one is unknown, nothing can be compared.
    """
    found = 0
    for count, data in blocks:
        found += count
        yield count, data
    known = [count for count in counts if count is not None]
    if len(known) == len(counts) and found != sum(known):
        raise disagreement(path, f"{found} entries", str(sum(known)))


def counts_of(manifest: ManifestFile) -> Counts:
    """As a manifest list tells them."""
    return manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count


def disagreement(path: str, found: str, listed: str) -> UnsupportedTableError:
    """What a manifest holds is not what its list says of it."""
    return UnsupportedTableError(
        f"{path} holds {found}, its manifest list says {listed}",
        consequence="Files would be missing from the capture, or there that nobody appended",
        remedy="check the storage; the file was cut off or overwritten. If engines can read the table, rewrite "
        "its manifests (CALL rewrite_manifests) and process it in full once",
    )
