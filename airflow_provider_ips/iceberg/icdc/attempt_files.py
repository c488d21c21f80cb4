"""Where one attempt to make an ICDC table writes its files, so that all of them can be deleted, and no others.

    <location>/metadata/00000-1f0c8a3b5d7e.metadata.json
    <location>/metadata/1f0c8a3b5d7e/snap.avro, m0.avro, m1.avro, ...

The mark in the middle is random: no two attempts share a file, and the folder of an attempt holds nothing else. An
object store deletes a folder by a request for each 1,000 files.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.iceberg.storage.requests import delete_files, delete_folder

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata


MANIFEST_LIST: Final = "snap.avro"
FILE_PATTERN: Final = re.compile(r"[0-9a-f]{12}/[a-z0-9\-]+\.avro|00000-[0-9a-f]{12}\.metadata\.json")
"""Of the part of a path below ``metadata/``. No other file is ever treated as one of ours."""

_OWN_LIST: Final = re.compile(rf"(?P<location>.+)/metadata/(?P<mark>[0-9a-f]{{12}})/{re.escape(MANIFEST_LIST)}")


@dataclass(frozen=True, slots=True)
class AttemptFiles:
    """The files of one attempt."""

    location: str
    mark: str = field(default_factory=lambda: secrets.token_hex(6))

    @classmethod
    def of_manifest_list(cls, path: str) -> Self | None:
        """The attempt that wrote a manifest list; None if none of ours did."""
        match = _OWN_LIST.fullmatch(path)
        return cls(match["location"], match["mark"]) if match else None

    @classmethod
    def of_untouched_table(cls, metadata: TableMetadata) -> Self | None:
        """The attempt that wrote all there is of a table; None if an engine may have added files."""
        lists = [snapshot.manifest_list for snapshot in metadata.snapshots]
        found = cls.of_manifest_list(lists[0]) if len(lists) == 1 else None
        return found if found and found.location == metadata.location.rstrip("/") else None

    @property
    def folder(self) -> str:
        return f"{self.location}/metadata/{self.mark}"

    @property
    def metadata_file(self) -> str:
        # Java reads the version before the first dash, and logs a stack trace at every load if there is none.
        return f"{self.location}/metadata/00000-{self.mark}.metadata.json"

    @property
    def manifest_list(self) -> str:
        return f"{self.folder}/{MANIFEST_LIST}"

    def manifest(self, number: int) -> str:
        return f"{self.folder}/m{number}.avro"

    def delete(self, io: FileIO, paths: Callable[[], Sequence[str]], *, threads: int) -> None:
        """Delete the folder and the metadata file; or, where folders cannot be deleted or listed, file by file."""
        with ThreadPoolExecutor(max_workers=1) as pool:
            beside = pool.submit(delete_files, io, [self.metadata_file], threads=1)
            try:
                delete_folder(io, self.folder, threads=threads)
            except IpsError:  # not everybody who may delete files may list them
                delete_files(io, [path for path in paths() if path.startswith(f"{self.folder}/")], threads=threads)
            beside.result()
