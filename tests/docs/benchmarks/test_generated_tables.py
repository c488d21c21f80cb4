"""The tables that capture is measured on are tables: readers find in them what their shape says."""

import json
from pathlib import Path

import pytest
from pyiceberg.manifest import ManifestEntryStatus

from airflow_provider_ips.iceberg import capture
from benchmarks.generator import SOURCE, generate, open_catalog, snapshot_id
from benchmarks.shapes import LAYOUTS, Shape

SMALL = [Shape(files=60, snapshots=6, layout=layout, format_version=v) for layout in LAYOUTS for v in (1, 2, 3)]


def manifests(table):
    """Of the newest snapshot."""
    head = table.current_snapshot()
    assert head is not None
    return head.manifests(table.io)


def entries(table):
    """Live entries of the newest snapshot, as PyIceberg reads them."""
    return [entry for manifest in manifests(table) for entry in manifest.fetch_manifest_entry(table.io)]


def added_by_the_range(made):
    """Paths that an incremental reader must find, told by each entry's own snapshot."""
    table = open_catalog(made.folder).load_table(SOURCE)
    return {e.data_file.file_path for e in entries(table) if e.snapshot_id > made.since}


@pytest.mark.parametrize("shape", SMALL, ids=lambda shape: shape.name)
def test_a_table_has_the_files_of_its_shape_with_all_statistics(shape, tmp_path):
    made = generate(shape, tmp_path)
    table = open_catalog(made.folder).load_table(SOURCE)
    found = entries(table)

    assert len({e.data_file.file_path for e in found}) == len(found) == shape.files + shape.total_before
    assert all(len(e.data_file.lower_bounds) == len(e.data_file.column_sizes) == 20 for e in found)
    assert len(added_by_the_range(made)) == shape.files


@pytest.mark.parametrize("shape", SMALL, ids=lambda shape: shape.name)
def test_capture_takes_exactly_the_files_of_the_range(shape, tmp_path):
    """A fast capture of other files would be no result."""
    made = generate(shape, tmp_path)
    catalog = open_catalog(made.folder)

    captured = capture(catalog, SOURCE, since=made.since, into="icdc.t").captured

    paths = [e.data_file.file_path for e in entries(catalog.load_table("icdc.t"))]
    assert sorted(paths) == sorted(added_by_the_range(made))
    assert (captured.files, captured.records) == made.expected


@pytest.mark.parametrize("layout", ["half-merged", "merged"])
def test_merging_leaves_manifests_in_which_added_entries_stand_beside_existing_ones(layout, tmp_path):
    made = generate(Shape(files=60, snapshots=6, layout=layout), tmp_path)
    table = open_catalog(made.folder).load_table(SOURCE)
    newest = [m for m in manifests(table) if m.added_snapshot_id == made.until]

    assert newest
    for manifest in newest:
        found = list(manifest.fetch_manifest_entry(table.io, discard_deleted=False))
        assert {e.status for e in found} == {ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING}
        assert manifest.added_files_count == sum(e.status == ManifestEntryStatus.ADDED for e in found)


def test_a_long_history_keeps_the_manifest_lists_that_a_short_range_needs(tmp_path):
    """And no more: what reads an older one fails, and is seen to."""
    made = generate(Shape(files=5, snapshots=1, files_before=1_200, snapshots_before=1_200), tmp_path)
    catalog = open_catalog(made.folder)

    assert capture(catalog, SOURCE, since=made.since, into="icdc.t").captured.files == 5
    first = catalog.load_table(SOURCE).snapshot_by_id(snapshot_id(1))
    assert first is not None
    assert not Path(first.manifest_list.removeprefix("file://")).exists()


def test_a_table_is_made_once(tmp_path):
    """And anew where the folder was moved, for its manifests name their files by absolute path."""
    shape = Shape(files=10, snapshots=1)
    made = generate(shape, tmp_path / "one")
    before = made.database.stat().st_mtime_ns

    generate(shape, tmp_path / "one")
    assert made.database.stat().st_mtime_ns == before

    (tmp_path / "one").rename(tmp_path / "two")
    moved = generate(shape, tmp_path / "two")
    assert open_catalog(moved.folder).load_table(SOURCE).location().startswith(f"file://{tmp_path}/two")
    assert json.loads((moved.folder / "complete.json").read_text())["folder"] == str(moved.folder)
