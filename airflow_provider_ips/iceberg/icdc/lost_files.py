"""Whether the files of an ICDC table still exist: they belong to the source, whose maintenance may delete them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.history.files import Content
from airflow_provider_ips.iceberg.foreign_errors import translate_errors
from airflow_provider_ips.iceberg.icdc.metadata import (
    SOURCE,
    LoadedCapture,
    load_capture,
    load_if_exists,
    refuse_other_table,
)
from airflow_provider_ips.iceberg.manifests.entry_facts import read_entries
from airflow_provider_ips.iceberg.manifests.lists import ManifestList

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


MAX_NAMED: Final = 20
"""How many files a message names by path; the others are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFile:
    """One captured file that no longer exists."""

    path: str
    snapshot_id: int | None
    """The snapshot of the source that added it."""
    records: int
    is_delete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LossReport:
    """The number of files that an ICDC table names, and those of them that no longer exist."""

    icdc_table: str
    source: str
    files: int
    lost: tuple[LostFile, ...] = ()

    @property
    def is_intact(self) -> bool:
        return not self.lost

    def __str__(self) -> str:
        if self.is_intact:
            return f"all {self.files} files of {self.icdc_table} still exist"
        rows = sum(file.records for file in self.lost if not file.is_delete)
        named = ", ".join(file.path for file in self.lost[:MAX_NAMED])
        more = len(self.lost) - MAX_NAMED
        return (
            f"{len(self.lost)} of the {self.files} files of {self.icdc_table} no longer exist, with {rows} rows "
            f"({self._by_snapshot()}): {named}{f' and {more} more' if more > 0 else ''}"
        )

    def _by_snapshot(self) -> str:
        counts = Counter(file.snapshot_id for file in self.lost)
        shown = [f"{number} of snapshot {snapshot_id}" for snapshot_id, number in counts.most_common(MAX_NAMED)]
        more = len(counts) - len(shown)
        return ", ".join(shown) + (f" and of {more} other snapshots" if more else "")


PARALLEL_REQUESTS: Final = 16


def find_losses(catalog: Catalog, icdc_table: str) -> LossReport | None:
    """Look for every file of an ICDC table, and return those that no longer exist; None if there is no such table.

    Costs a request for each file, so it is for the case that something has gone wrong.
    """
    with translate_errors(f"looking for the files of {icdc_table}"):
        icdc = load_capture(catalog, icdc_table)
        if icdc is None:
            return None
        refuse_other_table(
            icdc_table,
            icdc.properties,
            consequence="It is not known which source its files belong to",
            remedy="name a table that a capture made",
        )
        source = str(icdc.properties[SOURCE])
        files = {file.path: file for file in _captured_files(icdc)}
        readable = (
            load_if_exists(catalog, source) or icdc.table
        )  # the ICDC table's access may not reach the source's files
        with ThreadPoolExecutor(max_workers=PARALLEL_REQUESTS) as pool:
            exists = list(pool.map(lambda path: readable.io.new_input(path).exists(), files))
    lost = tuple(file for file, is_there in zip(files.values(), exists, strict=True) if not is_there)
    return LossReport(icdc_table=icdc_table, source=source, files=len(files), lost=lost)


def _captured_files(icdc: LoadedCapture) -> Iterator[LostFile]:
    io = icdc.table.io
    for manifest in ManifestList(io, icdc.snapshot.manifest_list).all() if icdc.snapshot else ():
        for file in read_entries(io, manifest):
            if file.is_live:
                yield LostFile(
                    path=file.path,
                    snapshot_id=file.snapshot_id,
                    records=file.records,
                    is_delete=file.content is not Content.DATA,
                )
