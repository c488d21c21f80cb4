"""What a capture costs follows from its range: loads, files opened, records decoded, memory. Never from the table."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.manifest import ManifestFile

from airflow_provider_ips.core.history.selections import Selection, Take
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.iceberg import capture
from airflow_provider_ips.iceberg.avro.container import BlockWriter, Header, encode_long
from airflow_provider_ips.iceberg.icdc.transfer import splice_manifest
from airflow_provider_ips.iceberg.manifests.entries import ADDED, RECORD_COUNT, STATUS
from airflow_provider_ips.iceberg.manifests.lists import (
    FEW_WRITERS,
    READ_SCHEMA,
    ManifestList,
    _walker,
    manifest_facts,
    with_fields,
)
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from tests.iceberg.avro_bytes import listed_by_pyiceberg, random_header, random_record, rng_of
from tests.kit.local_tables import append, head, new_catalog, new_table, rows

if TYPE_CHECKING:
    from pyiceberg.io import InputStream
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}


class CountingFile(PyArrowFile):
    """Notes that it is read."""

    def open(self, seekable: bool = True) -> InputStream:  # noqa: FBT001, FBT002 - PyIceberg's own
        """Read from it."""
        CountingIO.opened.append(self.location.rpartition("/")[2])
        return super().open(seekable)


class CountingIO(PyArrowFileIO):
    """Notes what is read of a table, by file name."""

    opened: ClassVar[list[str]] = []

    def new_input(self, location: str) -> CountingFile:
        """A file to read."""
        scheme, netloc, path = self.parse_location(location, self.properties)
        return CountingFile(location, path, self.fs_by_scheme(scheme, netloc))


class CountingCatalog(SqlCatalog):
    """Notes which tables are loaded."""

    loaded: ClassVar[list[str]] = []

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load one."""
        self.loaded.append(identifier if isinstance(identifier, str) else ".".join(identifier))
        return super().load_table(identifier)


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """A catalog that counts, once :func:`count_from_here` was called."""
    new_catalog(tmp_path)
    return CountingCatalog(
        "lake",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse=f"file://{tmp_path}/warehouse",
        **{"py-io-impl": f"{__name__}.CountingIO"},
    )


def count_from_here() -> tuple[list[str], list[str]]:
    """The tables that are loaded and the files that are read from now on."""
    CountingCatalog.loaded.clear()
    CountingIO.opened.clear()
    return CountingCatalog.loaded, CountingIO.opened


def kinds(opened: list[str]) -> dict[str, int]:
    """How many files of each kind."""
    found = {"metadata": 0, "list": 0, "manifest": 0}
    for name in opened:
        found["metadata" if name.endswith(".json") else "list" if name.startswith("snap-") else "manifest"] += 1
    return found


def test_a_range_of_appends_costs_one_load_and_one_manifest_list(catalog: SqlCatalog) -> None:
    """Its manifests are copied by the storage, and the lists of its snapshots are never opened."""
    table = new_table(catalog)
    since = append(table, 1)
    for number in range(2, 8):
        append(table, number)
    capture(catalog, "db.t", since=since, into="icdc.before")  # makes the namespace
    loaded, opened = count_from_here()
    capture(catalog, "db.t", since=since, into="icdc.x")
    assert loaded.count("db.t") == 1
    source_files = [name for name in opened if not name.startswith("00000-")]
    assert kinds(source_files) == {"metadata": 1, "list": 1, "manifest": 0}
    assert rows(catalog, "icdc.x") == [2, 3, 4, 5, 6, 7]


def test_a_merged_range_opens_the_list_of_a_snapshot_only_where_the_last_does_not_account_for_it(
    catalog: SqlCatalog,
) -> None:
    """The manifest of the first append was merged away by the second; that of the second is still listed."""
    table = new_table(catalog, properties=MERGING)
    since = append(table, 1)
    append(table, 2)
    append(table, 3)
    _, opened = count_from_here()
    capture(catalog, "db.t", since=since, into="icdc.x")
    source_files = [name for name in opened if not name.startswith("00000-")]
    assert kinds(source_files) == {"metadata": 1, "list": 2, "manifest": 2}
    assert rows(catalog, "icdc.x") == [2, 3]


def test_nothing_new_costs_one_load_and_no_file(catalog: SqlCatalog) -> None:
    """Not even the manifest list of the head."""
    table = new_table(catalog)
    since = append(table, 1)
    catalog.create_namespace("icdc")
    loaded, opened = count_from_here()
    record = capture(catalog, "db.t", since=since, into="icdc.x")
    assert (loaded, kinds(opened)) == (["db.t"], {"metadata": 1, "list": 0, "manifest": 0})
    assert record.icdc_table is None


def test_bounds_of_columns_cost_the_manifests_of_the_range(catalog: SqlCatalog) -> None:
    """Once each."""
    table = new_table(catalog)
    append(table, 1)
    since = append(table, 2)
    append(table, 3)
    append(table, 4)
    _, opened = count_from_here()
    record = capture(catalog, "db.t", since=since, into="icdc.x", range_columns=["id"])
    source_files = [name for name in opened if not name.startswith("00000-")]
    assert kinds(source_files) == {"metadata": 1, "list": 1, "manifest": 2}
    assert [(r.lower, r.upper) for r in record.ranges] == [(3, 4)]


def test_the_icdc_table_carries_one_snapshot_however_many_the_source_has(catalog: SqlCatalog, tmp_path: Path) -> None:
    """A history of thousands would make every load of the ICDC table as slow as one of the source."""
    table = new_table(catalog)
    for number in range(10):
        append(table, number)
    capture(catalog, "db.t", into="icdc.x")
    metadata = catalog.load_table("icdc.x").metadata
    assert (len(metadata.snapshots), len(metadata.snapshot_log), len(metadata.metadata_log)) == (1, 1, 0)


class TestManifestLists:
    """A list is indexed by the snapshots that wrote its manifests, and a manifest is decoded when it is needed."""

    @pytest.fixture(params=["1", "2"])
    def table(self, catalog: SqlCatalog, request: pytest.FixtureRequest) -> Table:
        """Ten appends."""
        table = new_table(catalog, format_version=request.param)
        for number in range(10):
            append(table, number)
        return table

    def test_only_the_manifests_of_the_writers_are_decoded(self, table: Table) -> None:
        """The other records stay bytes."""
        source = open_source(table.catalog, Source("db.t"))
        wanted = [s.snapshot_id for s in source.metadata.snapshots[3:5]]
        found = source.reads_manifests_written_by(head(table), {*wanted, 12345})
        assert {manifest.added_snapshot_id for manifest in found} == set(wanted)
        (listed,) = source._lists.values()
        records = [record for block in listed._blocks for record in block._records]
        assert sum(isinstance(record, ManifestFile) for record in records) == 2

    def test_blocks_without_a_trace_of_the_writers_are_not_even_walked(self, table: Table, tmp_path: Path) -> None:
        """A list of ten thousand manifests is some thirty blocks."""
        snapshot = table.current_snapshot()
        assert snapshot is not None
        with Path(snapshot.manifest_list.removeprefix("file://")).open("rb") as stream:
            header = Header.read(stream)
            ((count, data),) = header.blocks(stream)
        with (tmp_path / "many.avro").open("wb") as target:
            writer = BlockWriter(target, header)
            for start, end, _ in _walker(header.meta["avro.schema"]).walk(count, data):
                writer.add(data[start:end])
                writer.flush()
        listed = ManifestList(table.io, f"file://{tmp_path}/many.avro")
        assert [m.added_snapshot_id for m in listed.written_by([snapshot.snapshot_id])] == [snapshot.snapshot_id]
        assert sum(bool(block._records) for block in listed._blocks) == 1
        many = {s.snapshot_id for s in table.metadata.snapshots[2:]} | set(range(FEW_WRITERS))
        assert {m.added_snapshot_id for m in listed.written_by(many)} == many - set(range(FEW_WRITERS))
        assert listed.all() == listed_by_pyiceberg(table.io, snapshot.manifest_list)

    def test_what_is_decoded_is_what_pyiceberg_reads(self, table: Table) -> None:
        """Field by field, in the order of the list."""
        snapshot = table.current_snapshot()
        assert snapshot is not None
        assert ManifestList(table.io, snapshot.manifest_list).all() == listed_by_pyiceberg(
            table.io, snapshot.manifest_list
        )


def test_memory_of_a_splice_does_not_grow_with_the_manifest(tmp_path: Path) -> None:
    """A manifest of any size is a block at a time."""
    peaks = [peak_of_splice(tmp_path, entries) for entries in (500, 5_000)]
    assert peaks[1] < peaks[0] * 1.2, peaks


def peak_of_splice(folder: Path, entries: int) -> int:
    """Move every other entry."""
    rng = rng_of(5)
    header = random_header(rng, 2)
    records = [
        random_record(rng, header.avro_schema, {STATUS: encode_long(status), RECORD_COUNT: encode_long(1)})
        for status in (ADDED, 0) * 20
    ]
    path = folder / f"{entries}.avro"
    with path.open("wb") as stream:
        writer = BlockWriter(stream, Header(meta={**header.meta, "avro.codec": b"deflate"}, sync=header.sync))
        for number in range(entries):
            writer.add(records[number % len(records)])
        writer.flush()
    manifest = ManifestFile(*[None] * len(READ_SCHEMA.fields))
    listed = with_fields(manifest, manifest_path=str(path), added_files_count=entries // 2, content=0)
    tracemalloc.start()
    try:
        io = PyArrowFileIO()
        moved = splice_manifest(
            io, io, listed, Selection(manifest=manifest_facts(listed), take=Take.ADDED), str(folder / "target.avro")
        )
        assert moved.files == entries // 2
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
