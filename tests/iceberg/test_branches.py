"""Captures in mode BRANCH on real tables: what is read, what others see, and what is left."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.rest import Capability
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.manifest import ManifestEntryStatus

from airflow_provider_ips.core.errors import (
    CatalogError,
    GapError,
    IcdcConflictError,
    InputError,
    IpsError,
    RefusedOperationError,
    UnsupportedTableError,
)
from airflow_provider_ips.core.identifiers import CapturedBranch, Source
from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.iceberg.branches.leases import find_branches
from airflow_provider_ips.iceberg.manifests.lists import ManifestList
from tests.iceberg.avro_bytes import rng_of
from tests.kit.local_tables import append, files_under, head, new_catalog, new_table, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.io import InputStream, OutputStream
    from pyiceberg.table import CommitTableResponse, Table

    from airflow_provider_ips.core.results.capture_record import SourceRecord

MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
CHANGES: dict[str, Any] = {"data_operations": ("append", "overwrite", "delete"), "on_superset": "allow"}
REQUESTS: list[str] = []


class CountingFile(PyArrowFile):
    """Notes that it is read or written."""

    def open(self, seekable: bool = True) -> InputStream:  # noqa: FBT001, FBT002 - PyIceberg's own
        """Read from it."""
        REQUESTS.append(f"get {self.location.rpartition('/')[2]}")
        return super().open(seekable)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002 - PyIceberg's own
        """Write it."""
        REQUESTS.append(f"put {self.location.rpartition('/')[2]}")
        return super().create(overwrite)


class CountingIO(PyArrowFileIO):
    """Notes every file that is opened, written or deleted."""

    def new_input(self, location: str) -> CountingFile:
        """A file to read."""
        scheme, netloc, path = self.parse_location(location, self.properties)
        return CountingFile(location, path, self.fs_by_scheme(scheme, netloc))

    new_output = new_input

    def delete(self, location: Any) -> None:
        """Delete one."""
        REQUESTS.append(f"delete {str(location).rpartition('/')[2]}")
        super().delete(location)


class Catalog(SqlCatalog):
    """Does something before or after one of its commits, as another writer or a lost connection would."""

    before_commit: Callable[[], object] | None = None
    after_commit: Callable[[], object] | None = None

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """Commit, with what happens at the same time."""
        before, self.before_commit = self.before_commit, None
        after, self.after_commit = self.after_commit, None
        if before is not None:
            before()
        REQUESTS.append("commit")
        response = super().commit_table(table, requirements, updates)
        if after is not None:
            after()
        return response


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A catalog of its own."""
    new_catalog(tmp_path)
    places = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    return Catalog("lake", **places, **{"py-io-impl": f"{__name__}.CountingIO"})


def captured_rows(catalog: Catalog, record: SourceRecord) -> list[int]:
    """What the branch holds, by its snapshot."""
    table = catalog.load_table(record.source.table)
    return sorted(table.scan(snapshot_id=record.snapshot_id).to_arrow()["id"].to_pylist())


def own_files(table: Table) -> list[str]:
    """What captures have written into the source's folder."""
    return [path for path in files_under(table.location()) if "/ips_" in path]


@pytest.mark.parametrize("format_version", ["1", "2"])
@pytest.mark.parametrize("properties", [{}, MERGING], ids=["plain", "merging"])
def test_a_branch_holds_what_was_appended(catalog: Catalog, format_version: str, properties: dict[str, str]) -> None:
    """As an ICDC table would, whether manifests are referenced or spliced; main has the rows that it had."""
    table = new_table(catalog, format_version=format_version, properties=properties)
    append(table, 1, 2)
    since = append(table, 3)
    append(table, 4, 5)
    until = append(table, 6)
    append(table, 7)
    record = capture(catalog, "db.t", since=since, until=until, mode="BRANCH")
    assert captured_rows(catalog, record) == [4, 5, 6]
    assert (record.captured.files, record.captured.records) == (2, 3)
    assert record.icdc_table == f"db.t.branch_{record.branch}"
    assert (record.mode, record.branch is not None and record.branch.startswith("ips_db_t_")) == ("BRANCH", True)
    assert rows(catalog, "db.t") == [1, 2, 3, 4, 5, 6, 7]
    assert type(record).from_json(record.to_json()).captured_branch == record.captured_branch


def test_changes_make_two_branches_by_one_commit(catalog: Catalog) -> None:
    """One with the rows as they are, the other as they were before."""
    table = new_table(catalog)
    since = append(table, 1, 2, 3)
    table.overwrite(table.scan(row_filter="id = 2").to_arrow().set_column(0, "id", [[20]]), overwrite_filter="id = 2")
    append(table, 4)
    REQUESTS.clear()
    record = capture(catalog, "db.t", since=since, mode="BRANCH", **CHANGES)
    assert REQUESTS.count("commit") == 1
    assert captured_rows(catalog, record) == [1, 3, 4, 20]
    before = record.before_branch
    assert before is not None
    assert before.branch != record.branch
    assert sorted(table.refresh().scan(snapshot_id=before.snapshot_id).to_arrow()["id"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("properties", [{}, MERGING], ids=["referenced", "spliced"])
def test_a_branch_adds_no_file_to_the_table(catalog: Catalog, properties: dict[str, str]) -> None:
    """No manifest is listed with added or deleted files, and no new one has such an entry.

    When a branch is expired, Iceberg before 1.10 deletes what its manifests list as added.
    """
    table = new_table(catalog, properties=properties)
    since = append(table, 1)
    for number in range(2, 6):
        append(table, number)
    table.delete("id = 2")
    record = capture(catalog, "db.t", mode="BRANCH")
    assert captured_rows(catalog, record) == [1, 3, 4, 5]
    spliced = capture(catalog, "db.t", since=since, mode="BRANCH", on_other_operation="skip")
    assert captured_rows(catalog, spliced) == [2, 3, 4, 5]
    for snapshot_id in (record.snapshot_id, spliced.snapshot_id):
        assert snapshot_id is not None
        snapshot = table.refresh().metadata.snapshot_by_id(snapshot_id)
        assert snapshot is not None
        for manifest in ManifestList(table.io, snapshot.manifest_list).all():
            assert (manifest.added_files_count, manifest.deleted_files_count) == (0, 0)
            if "/ips_" in manifest.manifest_path:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
                assert {entry.status for entry in entries} == {ManifestEntryStatus.EXISTING}


def test_removing_leaves_the_table_as_it_was(catalog: Catalog) -> None:
    """One commit takes branch and snapshot; then what the capture wrote is deleted, and no other file."""
    table = new_table(catalog, properties=MERGING)
    since = append(table, 1)
    append(table, 2)
    append(table, 3)
    files, before = set(files_under(table.location())), table.refresh().metadata
    record = capture(catalog, "db.t", since=since, mode="BRANCH", **CHANGES)
    assert record.branch in table.refresh().refs()
    assert own_files(table)
    for name in record.icdc_tables:
        assert drop_icdc(catalog, name)
        assert not drop_icdc(catalog, name)
    after = table.refresh().metadata
    assert (after.refs, after.snapshots, after.snapshot_log) == (before.refs, before.snapshots, before.snapshot_log)
    assert own_files(table) == []
    assert {path for path in files_under(table.location()) if ".metadata.json" not in path} == {
        path for path in files if ".metadata.json" not in path
    }


@pytest.mark.parametrize("keeper", ["tag", "main", "main, whose next snapshot is expired"])
def test_what_others_built_on_a_capture_stays(catalog: Catalog, keeper: str) -> None:
    """A tag on its snapshot, or main moved there by hand, keeps the snapshot and its files."""
    table = new_table(catalog, properties=MERGING)
    since = append(table, 1)
    append(table, 2)
    append(table, 3)
    record = capture(catalog, "db.t", since=since, mode="BRANCH")
    assert record.snapshot_id is not None
    table.refresh()
    if keeper == "tag":
        table.manage_snapshots().create_tag(record.snapshot_id, "mine").commit()
    else:
        table.manage_snapshots().set_current_snapshot(record.snapshot_id).commit()
        table.transaction().set_properties({"commit.manifest-merge.enabled": "false"}).commit_transaction()
        child = append(table, 8)
        append(table, 9)
        if keeper != "main":
            table.maintenance.expire_snapshots().by_id(child).commit()
    assert drop_icdc(catalog, record.icdc_table or "")
    assert record.branch not in table.refresh().refs()
    if keeper in {"tag", "main"}:
        assert captured_rows(catalog, record) == [2, 3]
    assert rows(catalog, "db.t") == ([1, 2, 3] if keeper == "tag" else [2, 3, 8, 9])


def test_main_that_is_moved_to_a_capture_while_it_is_removed_stays(catalog: Catalog) -> None:
    """The snapshot would be removed with every reference to it, and the table would have no rows any more."""
    table = new_table(catalog)
    since = append(table, 1)
    append(table, 2)
    record = capture(catalog, "db.t", since=since, mode="BRANCH")
    other = catalog.load_table("db.t")
    catalog.before_commit = lambda: other.manage_snapshots().set_current_snapshot(record.snapshot_id).commit()
    assert drop_icdc(catalog, str(record.icdc_table))
    assert set(table.refresh().refs()) == {"main"}
    assert (head(table), rows(catalog, "db.t")) == (record.snapshot_id, [2])


def test_a_branch_with_a_prefix_like_ours_that_is_moved_to_a_capture_while_it_is_removed_stays(
    catalog: Catalog,
) -> None:
    """The name does not make it a capture's: what its snapshot says of itself does."""
    table = new_table(catalog)
    since = append(table, 1)
    append(table, 2)
    table.manage_snapshots().create_branch(head(table), "ips_release").commit()
    record = capture(catalog, "db.t", since=since, mode="BRANCH")
    other = catalog.load_table("db.t")
    moved = other.manage_snapshots().create_branch(int(str(record.snapshot_id)), "ips_release")
    catalog.before_commit = moved.commit
    assert drop_icdc(catalog, str(record.icdc_table))
    refs = table.refresh().refs()
    assert set(refs) == {"main", "ips_release"}
    assert refs["ips_release"].snapshot_id == record.snapshot_id


def test_of_two_removals_at_once_one_does_it(catalog: Catalog) -> None:
    """A commit and `airflow ips gc`, for example: the other finds that there is nothing left to do."""
    table = new_table(catalog, properties=MERGING)
    since = append(table, 1)
    append(table, 2)
    append(table, 3)
    name, done = str(capture(catalog, "db.t", since=since, mode="BRANCH").icdc_table), []
    catalog.before_commit = lambda: done.append(drop_icdc(catalog, name))
    done.append(drop_icdc(catalog, name))
    assert done == [True, False]
    assert own_files(table) == []


def test_a_source_that_is_created_again_meanwhile_is_refused(catalog: Catalog) -> None:
    """The catalog refuses each commit then, as if others had committed in between."""
    since = append(new_table(catalog), 1)
    append(catalog.load_table("db.t"), 2)

    def create_again() -> None:
        catalog.drop_table("db.t")
        append(new_table(catalog), 3)

    catalog.before_commit = create_again
    REQUESTS.clear()
    with pytest.raises(GapError, match="dropped and created again while it was captured"):
        capture(catalog, "db.t", since=since, mode="BRANCH")
    assert REQUESTS.count("commit") == 2  # one of them is of the new table
    assert own_files(catalog.load_table("db.t")) == []


def test_a_retry_uses_the_branch_of_the_first_attempt(catalog: Catalog) -> None:
    """It writes nothing; whatever else has the name is refused and left alone."""
    table = new_table(catalog)
    since = append(table, 1)
    append(table, 2)
    first = capture(catalog, "db.t", since=since, mode="BRANCH", into="mine")
    files = set(files_under(table.location()))
    again = capture(catalog, "db.t", since=since, mode="BRANCH", into="mine")
    assert again.captured_branch == first.captured_branch
    assert again.captured == first.captured
    assert set(files_under(table.location())) == files
    append(table, 3)
    with pytest.raises(IcdcConflictError, match="another one made it"):
        capture(catalog, "db.t", since=since, mode="BRANCH", into="mine")
    assert set(files_under(table.location())) > files
    assert first.branch is not None
    table.refresh().append(table.scan(row_filter="id = 3").to_arrow(), branch=first.branch)
    with pytest.raises(IcdcConflictError, match="somebody has made it, or written to it"):
        capture(catalog, "db.t", since=since, until=head(table), mode="BRANCH", into="mine")
    with pytest.raises(IcdcConflictError, match="no capture wrote"):
        drop_icdc(catalog, str(first.icdc_table))
    assert len(own_files(table)) == 1


def test_a_branch_of_somebody_else_is_left_alone(catalog: Catalog) -> None:
    """It has the name that the capture would give: refused before the commit, and nothing is left of the attempt."""
    table = new_table(catalog)
    since = append(table, 1)
    append(table, 2)
    name = CapturedBranch.of_capture(Source("db.t"), "mine").branch
    table.refresh().manage_snapshots().create_branch(since, name).commit()
    with pytest.raises(IcdcConflictError, match="somebody has made it") as refused:
        capture(catalog, "db.t", since=since, mode="BRANCH", into="mine")
    assert f"DROP BRANCH {name}" in refused.value.remedy
    assert table.refresh().refs()[name].snapshot_id == since
    assert own_files(table) == []


def test_other_writers_are_not_disturbed(catalog: Catalog) -> None:
    """Another commit took the sequence number first: the capture takes the next one, and theirs goes on from there."""
    table = new_table(catalog)
    since = append(table, 1)
    append(table, 2)
    other = catalog.load_table("db.t")
    catalog.before_commit = lambda: append(other, 3)
    REQUESTS.clear()
    record = capture(catalog, "db.t", since=since, mode="BRANCH")
    assert REQUESTS.count("commit") == 3
    append(table, 4)
    assert captured_rows(catalog, record) == [2]
    assert rows(catalog, "db.t") == [1, 2, 3, 4]
    numbers = [s.sequence_number for s in table.refresh().metadata.snapshots]
    assert numbers == [1, 2, 3, 4, 5]
    assert len(own_files(table)) == 1


@pytest.mark.parametrize("deletes", ["true", "false"])
def test_old_metadata_files_are_deleted_where_the_table_says_so(catalog: Catalog, deletes: str) -> None:
    """PyIceberg does that above the call by which a branch is committed, so that it would be left out."""
    keeping = {"write.metadata.delete-after-commit.enabled": deletes, "write.metadata.previous-versions-max": "3"}
    table = new_table(catalog, properties=keeping)
    append(table, 1)
    for number in range(4):
        record = capture(catalog, "db.t", mode="BRANCH", into=f"c{number}")
        assert drop_icdc(catalog, str(record.icdc_table))
    there = {path for path in files_under(table.location()) if path.endswith(".metadata.json")}
    listed = {entry.metadata_file for entry in table.refresh().metadata.metadata_log} | {table.metadata_location}
    assert {f"file://{path}" for path in there} == listed or deletes == "false"
    assert len(there) == (4 if deletes == "true" else 10)


def unplug() -> None:
    """Lose the connection."""
    raise OSError("the connection was lost")


def test_a_lost_answer_is_settled_by_looking(catalog: Catalog) -> None:
    """Whether or not the commit was carried out."""
    table = new_table(catalog)
    since = append(table, 1)
    append(table, 2)
    catalog.after_commit = unplug
    record = capture(catalog, "db.t", since=since, mode="BRANCH")
    assert captured_rows(catalog, record) == [2]
    catalog.after_commit = unplug
    assert drop_icdc(catalog, str(record.icdc_table))
    assert own_files(table) == []
    catalog.before_commit = unplug
    with pytest.raises(CatalogError, match='capture_mode="ICDC"'):
        capture(catalog, "db.t", since=since, mode="BRANCH")
    assert own_files(table)  # the commit may still arrive
    assert captured_rows(catalog, capture(catalog, "db.t", since=since, mode="BRANCH")) == [2]


def test_files_that_were_expired_in_between_are_not_captured(catalog: Catalog) -> None:
    """The engine that expired them may be deleting them: the branch is taken back, and the retry says what is lost."""
    table = new_table(catalog)
    since = append(table, 1)
    until = append(table, 2)
    append(table, 3)
    other = catalog.load_table("db.t")
    catalog.before_commit = lambda: other.maintenance.expire_snapshots().by_id(until).commit()
    with pytest.raises(GapError, match="were expired while they were captured"):
        capture(catalog, "db.t", since=since, until=until, mode="BRANCH")
    assert set(table.refresh().refs()) == {"main"}
    assert own_files(table) == []


@pytest.mark.parametrize(
    ("properties", "reason"), [({"gc.enabled": "false"}, "gc.enabled=false"), ({"nessie.commit.id": "x"}, "Nessie")]
)
def test_sources_without_branches_are_refused_before_anything_is_written(
    catalog: Catalog, properties: dict[str, str], reason: str
) -> None:
    """With the mode that is left."""
    table = new_table(catalog, properties=properties)
    append(table, 1)
    files = set(files_under(table.location()))
    with pytest.raises(UnsupportedTableError, match=reason) as refused:
        capture(catalog, "db.t", mode="BRANCH")
    assert "ICDC" in refused.value.remedy
    assert set(files_under(table.location())) == files


@pytest.mark.parametrize("mode", [{"mode": "BRANCH"}, {"into": "icdc.x", "hold_source": True}], ids=["branch", "held"])
def test_a_catalog_that_offers_no_commits_is_refused_before_anything_is_written(
    catalog: Catalog, mode: dict[str, Any]
) -> None:
    """A REST server says so, as those do that only show tables; PyIceberg would say no more than `not supported`."""
    table = new_table(catalog)
    append(table, 1)
    files = set(files_under(table.location()))
    reading: Any = catalog
    reading._supported_endpoints = {Capability.V1_LOAD_TABLE, Capability.V1_REGISTER_TABLE}
    with pytest.raises(UnsupportedTableError, match="offers no commits to tables"):
        capture(catalog, "db.t", **mode)
    assert set(files_under(table.location())) == files


@pytest.mark.parametrize("mode", [{"mode": "BRANCH"}, {"into": "icdc.x", "hold_source": True}], ids=["branch", "held"])
def test_a_source_whose_folder_may_not_be_written_is_named_with_what_only_reads(
    catalog: Catalog, mode: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that only reads: the storage refuses the first file of the branch, before anything is committed."""
    append(new_table(catalog), 1)

    def refuse(_: CountingFile, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002 - PyIceberg's own
        raise PermissionError("AccessDenied: s3:PutObject")

    monkeypatch.setattr(CountingFile, "create", refuse)
    REQUESTS.clear()
    with pytest.raises(CatalogError, match="AccessDenied") as refused:
        capture(catalog, "db.t", **mode)
    assert ('capture_mode="ICDC"' if "mode" in mode else "leave out hold_source") in refused.value.remedy
    assert "commit" not in REQUESTS


@pytest.mark.parametrize("later", [False, True], ids=["at once", "after an append"])
@pytest.mark.parametrize("settings", [{}, CHANGES], ids=["appends", "changes"])
def test_a_branch_that_was_moved_to_a_capture_is_refused(
    catalog: Catalog, settings: dict[str, Any], *, later: bool
) -> None:
    """Rows 1 and 2 are lost from main by then; as a replace it would be ignored, and a target would keep them."""
    table = new_table(catalog)
    since = append(table, 1, 2)
    append(table, 3)
    record = capture(catalog, "db.t", since=since, mode="BRANCH")
    table.refresh().manage_snapshots().set_current_snapshot(snapshot_id=record.snapshot_id).commit()
    assert rows(catalog, "db.t") == [3]
    if later:
        append(table, 4)

    with pytest.raises(RefusedOperationError, match="the branch was moved to one"):
        capture(catalog, "db.t", since=record.to_inclusive, into="icdc.x", **settings)


def test_a_capture_is_not_captured_as_a_branch(catalog: Catalog) -> None:
    """The second would list manifests of the first, which are deleted with it."""
    append(new_table(catalog), 1)
    first = capture(catalog, "db.t", mode="BRANCH")
    with pytest.raises(UnsupportedTableError, match="is a capture itself"):
        capture(catalog, "db.t", branch=str(first.branch), mode="BRANCH")


@pytest.mark.parametrize(
    "given",
    [
        {"mode": "TABLE"},
        {},
        {"into": "icdc.x", "lease": timedelta(1)},
        {"mode": "BRANCH", "location": "file:///tmp/x"},
        {"mode": "BRANCH", "hold_source": True},
    ],
)
def test_contradictions_are_refused(catalog: Catalog, given: dict[str, Any]) -> None:
    """An unknown mode, a table without name or with a lease, a branch that is to be elsewhere, or held."""
    append(new_table(catalog), 1)
    with pytest.raises(InputError):
        capture(catalog, "db.t", **given)


def test_a_source_that_may_not_be_written_is_named_with_the_mode_that_only_reads(
    catalog: Catalog, tmp_path: Path
) -> None:
    """The catalog's database is read-only, as for a user without the right to commit."""
    append(new_table(catalog), 1)
    catalog.close()
    reading = Catalog(
        "lake",
        uri=f"sqlite:///file:{tmp_path}/catalog.db?mode=ro&uri=true",
        warehouse=f"file://{tmp_path}/warehouse",
        init_catalog_tables="false",
    )
    with pytest.raises(CatalogError) as refused:
        capture(reading, "db.t", mode="BRANCH")
    assert "let the connection's user commit to the source" in refused.value.remedy
    assert 'capture_mode="ICDC"' in refused.value.remedy
    assert set(reading.load_table("db.t").refs()) == {"main"}


def test_leases_are_found(catalog: Catalog) -> None:
    """By the table's metadata alone."""
    table = new_table(catalog)
    append(table, 1)
    record = capture(catalog, "db.t", mode="BRANCH", lease=timedelta(hours=1))
    (found,) = find_branches("db.t", table.refresh().metadata)
    assert (found.name, found.held_until_ms - found.made_at_ms) == (record.icdc_table, 3_600_000)


def test_what_it_costs_does_not_depend_on_the_number_of_manifests(catalog: Catalog) -> None:
    """Pure manifests are referenced: at most twelve requests besides loading the table, to publish and to remove."""
    for name, count in (("db.few", 4), ("db.many", 60)):
        table = new_table(catalog, name)
        since = append(table, 0)
        for number in range(1, count):
            append(table, number)
        REQUESTS.clear()
        record = capture(catalog, name, since=since, mode="BRANCH")
        published = len(REQUESTS)
        assert record.captured.files == count - 1
        assert published <= 8, REQUESTS  # of them two for loading, and one that is counted twice: the commit's own
        REQUESTS.clear()
        drop_icdc(catalog, str(record.icdc_table))
        assert len(REQUESTS) <= 8, REQUESTS
        assert own_files(table.refresh()) == []


@pytest.mark.parametrize("seed", range(6))
def test_captures_of_main_do_not_notice_branches(catalog: Catalog, seed: int) -> None:
    """The same history with and without branches that come and go: the same verdicts, rows and refusals."""
    rng = rng_of(seed)
    tables = {name: new_table(catalog, name, properties=MERGING) for name in ("db.plain", "db.branched")}
    heads: dict[str, list[int]] = {name: [append(table, 0)] for name, table in tables.items()}
    held: list[str] = []
    for number in range(1, 9):
        event = rng.choice(["append", "append", "delete", "expire", "rollback"])
        pick = rng.randrange(number)
        for name, table in tables.items():
            table.refresh()
            if event == "delete":
                table.delete(f"id = {pick}")
            elif event == "expire" and len(heads[name]) > 3:
                gone = heads[name][1]
                if gone in {s.snapshot_id for s in table.metadata.snapshots} and gone != head(table):
                    table.maintenance.expire_snapshots().by_id(gone).commit()
            elif event == "rollback" and heads[name][-2:-1] and table.metadata.snapshot_by_id(heads[name][-2]):
                table.manage_snapshots().rollback_to_snapshot(heads[name][-2]).commit() if _is_ancestor(
                    table, heads[name][-2]
                ) else None
            heads[name].append(append(table, number))
        if rng.random() < 0.7:
            record = capture(catalog, "db.branched", mode="BRANCH", into=f"b{number}")
            held.append(str(record.icdc_table))
        if held and rng.random() < 0.5:
            assert drop_icdc(catalog, held.pop(rng.randrange(len(held))))
        settings: dict[str, Any] = rng.choice([{}, {"on_other_operation": "skip"}, CHANGES])
        outcomes = []
        for name in tables:
            since = rng_choice(seed + number, heads[name])
            outcomes.append(_outcome(catalog, name, since, number, settings))
        assert outcomes[0] == outcomes[1]
        assert rows(catalog, "db.plain") == rows(catalog, "db.branched")


def rng_choice(seed: int, options: list[int]) -> int:
    """The same place in both lists."""
    return options[rng_of(seed).randrange(len(options))]


def _is_ancestor(table: Table, snapshot_id: int) -> bool:
    current = table.metadata.current_snapshot()
    while current is not None:
        if current.snapshot_id == snapshot_id:
            return True
        parent = current.parent_snapshot_id
        current = None if parent is None else table.metadata.snapshot_by_id(parent)
    return False


def _outcome(catalog: Catalog, name: str, since: int, number: int, settings: dict[str, Any]) -> object:
    into = f"icdc.{name.rpartition('.')[2]}_{number}"
    try:
        record = capture(catalog, name, since=since, into=into, **settings)
    except IpsError as error:
        return type(error)
    verdicts = [(v.decision, v.operation) for v in record.verdicts]
    read = rows(catalog, into) if record.icdc_table else None
    return verdicts, read, record.captured, record.before, record.kind
