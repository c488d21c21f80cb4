"""Ways to find where the entries of a manifest lie, one beside the other: what docs/decisions/0006 was decided by.

    python -m benchmarks.splicing --files 50000

CPU time per entry of one mixed manifest, its blocks decompressed before; the fastest of three rounds. Other programs on
the machine change all of them alike.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, write_manifest

from airflow_provider_ips.core.history.selections import Selection, Take
from airflow_provider_ips.iceberg.avro.container import Header
from airflow_provider_ips.iceberg.avro.skips import Names, skipper
from airflow_provider_ips.iceberg.icdc.transfer import splice_manifest
from airflow_provider_ips.iceberg.manifests.entries import FILE_SIZE, PARTITION, RECORD_COUNT, EntryLayout
from airflow_provider_ips.iceberg.manifests.lists import ManifestList, manifest_facts
from benchmarks.avro_records import SCHEMA, SPEC
from benchmarks.generator import SOURCE, generate, open_catalog
from benchmarks.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import ManifestFile

WANTED = (PARTITION, RECORD_COUNT, FILE_SIZE)
Blocks = list[tuple[int, bytes]]


def main() -> None:
    """Measure every way on the largest mixed manifest of a generated table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=50_000, help="files of the table's range, half to a snapshot")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        manifest = mixed_manifest(options.files, Path(folder))
        path = Path(manifest.manifest_path.removeprefix("file://"))
        with path.open("rb") as stream:
            header = Header.read(stream)
            packed = list(header.packed_blocks(stream))
        blocks = [(count, header.unpack(data)) for count, data in packed]
        entries = sum(count for count, _ in blocks)
        print(f"{entries} entries of {sum(len(data) for _, data in blocks) // entries} bytes, {len(blocks)} blocks")
        for name, way in ways(header, blocks, [data for _, data in packed], manifest, Path(folder)).items():
            print(f"{name:50} {fastest(way) / entries * 1e6:8.2f} microseconds an entry")


def mixed_manifest(files: int, folder: Path) -> ManifestFile:
    """One that a merge wrote."""
    made = generate(Shape(files=files, snapshots=2, layout="merged"), folder)
    table = open_catalog(made.folder).load_table(SOURCE)
    snapshot = table.current_snapshot()
    manifests = ManifestList(table.io, snapshot.manifest_list).all() if snapshot else []
    return max(manifests, key=lambda m: (bool(m.existing_files_count and m.added_files_count), m.manifest_length))


def ways(
    header: Header, blocks: Blocks, packed: list[bytes], manifest: ManifestFile, folder: Path
) -> dict[str, Callable[[], object]]:
    """What was tried, and what it is built on."""
    io = PyArrowFileIO()
    whole = b"".join(data for _, data in blocks)
    selection = Selection(manifest=manifest_facts(manifest), take=Take.ADDED)
    return {
        "zlib: decompress": lambda: [zlib.decompress(data, -zlib.MAX_WBITS) for data in packed],
        "zlib: compress, level 1": lambda: zlib.compress(whole, 1),
        "zlib: compress, its default (6)": lambda: zlib.compress(whole),
        "PyIceberg: decode all, and write it again": lambda: read_and_write(io, manifest, folder / "again.avro"),
        "PyIceberg's compiled decoder: decode all": lambda: decoded(header, blocks),
        "byte by byte in Python": lambda: skipped(header, blocks),
        "patterns, a field at a time": lambda: walked(EntryLayout(header, WANTED), blocks, by_field=True),
        "patterns, an entry at a time": lambda: walked(EntryLayout(header, WANTED), blocks, by_field=False),
        "the splice as it is: read, take ADDED, write": lambda: splice_manifest(
            io, io, manifest, selection, f"file://{folder}/spliced.avro"
        ),
    }


def read_and_write(io: PyArrowFileIO, manifest: ManifestFile, path: Path) -> None:
    """As PyIceberg's own commits do it."""
    output = io.new_output(f"file://{path}")
    with write_manifest(2, SPEC, SCHEMA, output, manifest.added_snapshot_id or 0, "deflate") as writer:
        for entry in manifest.fetch_manifest_entry(io):
            if entry.status == ManifestEntryStatus.ADDED:
                writer.add_entry(ManifestEntry.from_args(status=entry.status, data_file=entry.data_file))


def decoded(header: Header, blocks: Blocks) -> None:
    """Every field, by the Cython decoder."""
    reader = construct_reader(header.schema)
    for count, data in blocks:
        decoder = new_decoder(data)
        for _ in range(count):
            reader.read(decoder)


def skipped(header: Header, blocks: Blocks) -> None:
    """The way behind the patterns."""
    skip = skipper(header.avro_schema, Names())
    for count, data in blocks:
        at = 0
        for _ in range(count):
            at = skip(data, at)


def walked(layout: EntryLayout, blocks: Blocks, *, by_field: bool) -> None:
    """The way that was chosen; and without its last step, one pattern for all of an entry."""
    walker = layout._walker  # noqa: SLF001 - what is measured
    if by_field:
        walker._match, walker._patience = None, 1 << 60  # noqa: SLF001
    elif walker._patience > 1 << 50:  # noqa: SLF001 - the other way was before
        walker._patience = 1  # noqa: SLF001
    for count, data in blocks:
        for _ in layout.walk(count, data):
            pass


def fastest(way: Callable[[], object]) -> float:
    """CPU seconds."""
    times = []
    for _ in range(3):
        start = time.process_time()
        way()
        times.append(time.process_time() - start)
    return min(times)


if __name__ == "__main__":
    main()
