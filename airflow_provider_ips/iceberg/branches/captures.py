"""Captures in mode BRANCH: the same plans as ICDC tables, written as snapshots of the source under branches of its own.

Manifests that hold only wanted entries are referenced where they are, and cost nothing. Only from mixed ones are the
wanted entries moved to new manifests.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetSnapshotRefUpdate

from airflow_provider_ips.core.errors import (
    CatalogError,
    GapError,
    IcdcConflictError,
    InputError,
    IpsError,
    UnsupportedTableError,
)
from airflow_provider_ips.core.history.selections import Selection
from airflow_provider_ips.core.identifiers import HELD_UNTIL, MAIN_BRANCH, CapturedBranch
from airflow_provider_ips.core.results.capture_record import BranchRecord, SourceRecord
from airflow_provider_ips.iceberg.branches.branch import (
    INSTEAD,
    BranchFiles,
    CommitToSource,
    ref_at,
    remove_branch,
)
from airflow_provider_ips.iceberg.foreign_errors import foreign_errors, is_denied, translate_errors
from airflow_provider_ips.iceberg.gc_pause import gc_paused
from airflow_provider_ips.iceberg.icdc.build import table_totals
from airflow_provider_ips.iceberg.icdc.metadata import (
    IDENTITY,
    branch_record,
    properties_of,
    snapshot_of_branch,
)
from airflow_provider_ips.iceberg.icdc.namespace import may_commit
from airflow_provider_ips.iceberg.icdc.tables import PlannedIcdcTable, PreparedIcdc
from airflow_provider_ips.iceberg.icdc.transfer import as_listed, can_be_copied, splice_manifest
from airflow_provider_ips.iceberg.manifests.counts import MovedManifest
from airflow_provider_ips.iceberg.manifests.lists import with_fields, write_manifest_list
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
from airflow_provider_ips.iceberg.storage.requests import requests_at_once
from airflow_provider_ips.redaction import cause_without_secrets, redacted_message

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from airflow_provider_ips.iceberg.branches.branch import Change


_HELD: Final[dict[str, Any]] = {"max-ref-age-ms": 2**63 - 1, "max-snapshot-age-ms": 1, "min-snapshots-to-keep": 1}
"""Engines keep the branch, whatever the table's properties say of branches, and no older snapshot for its sake."""

LEASE: Final = timedelta(days=2)


def check_source(catalog: Catalog, source: IcebergSource, *, instead: str = INSTEAD) -> None:
    """Refuse a source in which no branch can be made, before anything is written."""
    if why := why_no_branch(catalog, source):
        raise UnsupportedTableError(
            f"no branch of {source.name} can hold a capture: {why}",
            consequence="Nothing was captured and no checkpoint moved",
            remedy=f"{instead} for this source",
        )


def why_no_branch(catalog: Catalog, source: IcebergSource) -> str | None:
    """Say why no branch of a source can hold a capture; None if one can."""
    properties = source.metadata.properties
    head = None if source.branch == MAIN_BRANCH else snapshot_of_branch(source.metadata, source.branch)
    if head is not None and properties_of(head):
        return f"{source.branch} is a capture itself, and its removal would take manifests along"
    if not may_commit(catalog):
        return "its catalog offers no commits to tables"
    if any(key.startswith("nessie.") for key in properties):
        return "its catalog, Nessie, keeps the current snapshot of a table only, and no branches"
    if properties.get("gc.enabled", "true").lower() == "false":
        return "it has gc.enabled=false: somebody else may own its files, and no snapshot is removed"
    if source.format_version > 2 and not isinstance(catalog, RestCatalog):  # noqa: PLR2004 - v3
        return "it has format version 3, whose metadata PyIceberg cannot write; a REST catalog writes it by itself"
    return None


@dataclass(slots=True, kw_only=True)
class _Written:
    """One branch that is about to be published: its files, and the manifests of its list."""

    planned: PlannedIcdcTable
    files: BranchFiles
    snapshot_id: int
    moved: list[MovedManifest]

    @property
    def name(self) -> CapturedBranch:
        return branch_of(self.planned)

    @property
    def manifests(self) -> list[ManifestFile]:
        return [m.manifest for m in self.moved if m.manifest is not None]

    @property
    def paths(self) -> list[str]:
        own = [m.manifest_path for m in self.manifests if self.files.has(m.manifest_path)]
        return [*own, self.files.manifest_list]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBranches(PreparedIcdc):
    """A checked plan that becomes one branch of the source, or two in a capture of changes."""

    lease: timedelta = LEASE
    instead: ClassVar[str] = INSTEAD
    """How to capture the source without a branch."""

    @classmethod
    def place(cls, catalog: Catalog, source: IcebergSource, name: str, requested: str | None) -> str:  # noqa: ARG003
        """A branch is where its source is."""
        check_source(catalog, source)
        return source.metadata.location.rstrip("/")

    @gc_paused()
    def publish(self) -> SourceRecord:
        """Publish all branches of the source by one commit, and return their record.

        Branches that an earlier attempt has published are used as they are: a snapshot never changes.
        """
        planned = [each for each in (self.before, self.icdc) if each is not None]
        with translate_errors(f"capturing {self.source.name} as a branch"):
            metadata = self.source.metadata
            moved = {each.name: self._previewed(each.selections) for each in planned if _has(metadata, each)}
            written = [self._write(each) for each in planned if each.name not in moved]
            if written:
                metadata = self._publish(written)
            moved |= {each.planned.name: each.moved for each in written}
        captured, before = ([] if each is None else moved[each.name] for each in (self.icdc, self.before))
        return replace(
            self.record(captured, before, ()),
            captured_branch=_recorded(metadata, self.icdc),
            before_branch=_recorded(metadata, self.before),
        )

    def _write(self, planned: PlannedIcdcTable) -> _Written:
        """Write the spliced manifests and the manifest list of one branch."""
        source, io = self.source, self.source.table.io
        files = BranchFiles.of_source(source.metadata)
        written = _Written(planned=planned, files=files, snapshot_id=secrets.randbits(63), moved=[])
        jobs = [(selection, files.manifest(i)) for i, selection in enumerate(planned.selections)]
        mixed = [(selection, path) for selection, path in jobs if not can_be_referenced(selection)]
        referenced = [selection for selection in planned.selections if can_be_referenced(selection)]
        try:
            with ThreadPoolExecutor(max_workers=requests_at_once(self.catalog.properties)) as pool:
                spliced = list(
                    pool.map(
                        lambda job: splice_manifest(
                            io, io, source.listed(job[0].manifest), job[0], job[1], all_existing=True
                        ),
                        mixed,
                    )
                )
            written.moved = [as_listed(_without_added(source.listed(s.manifest))) for s in referenced]
            written.moved += [m for m in spliced if m.manifest is not None]
            write_manifest_list(
                io.new_output(files.manifest_list),
                written.manifests,
                format_version=source.format_version,
                snapshot_id=written.snapshot_id,
                sequence_number=_next_number(source.metadata),
            )
        except BaseException as error:
            self._delete([written])
            if is_denied(error):
                raise self._denied(files.metadata_folder, error) from cause_without_secrets(error)
            raise
        return written

    def _denied(self, folder: str, error: BaseException) -> CatalogError:
        return CatalogError(
            f"a branch of {self.source.name} could not be written: permission was denied: {redacted_message(error)}",
            consequence="Nothing was captured and no checkpoint moved",
            remedy=f"let the connection's user write to {folder} and commit to the source, which a branch needs; or "
            f"{self.instead}, which only reads it",
        )

    def _publish(self, written: Sequence[_Written]) -> TableMetadata:
        what = f"publishing {', '.join(each.planned.name for each in written)}"
        commit = CommitToSource(self.catalog, what, instead=self.instead)
        try:
            metadata = commit.run(
                self.source.table,
                lambda now: self._change(now, written),
                lambda now: all(_is_at(now, w) for w in written),
            )
        except BaseException:
            if not commit.is_unsettled:
                self._delete(written)
            raise
        self._delete([each for each in written if not _is_at(metadata, each)])  # an earlier attempt was faster
        self._refuse_expired(metadata, written)
        return metadata

    def _change(self, now: TableMetadata, written: Sequence[_Written]) -> Change | None:
        self._refuse_replaced(now)
        missing = [each for each in written if not _has(now, each.planned)]
        if not missing:
            return None
        requirements: list[TableRequirement] = [AssertTableUUID(uuid=self.source.metadata.table_uuid)]
        updates: list[TableUpdate] = []
        for number, each in enumerate(missing, _next_number(now)):
            requirements.append(ref_at(each.name.branch, None))
            updates += [
                AddSnapshotUpdate(snapshot=self._snapshot(now, each, number)),
                SetSnapshotRefUpdate.model_validate(
                    {"ref-name": each.name.branch, "type": "branch", "snapshot-id": each.snapshot_id, **_HELD}
                ),
            ]
        if self.plan.to_inclusive.snapshot_id is None:  # a snapshot without parent may take any number
            requirements.append(ref_at(self.source.branch, None))
        return tuple(requirements), tuple(updates)

    def _snapshot(self, now: TableMetadata, written: _Written, number: int) -> Snapshot:
        """No row is new to the table, so it adds none: row ids of later commits stay what they would have been."""
        made_at_ms = max(int(time.time() * 1000), now.last_updated_ms)
        properties = {
            **written.planned.identity.summary(),
            HELD_UNTIL: str(made_at_ms + int(self.lease.total_seconds() * 1000)),
            **_totals(written),
        }
        described: dict[str, Any] = {
            "snapshot-id": written.snapshot_id,
            "parent-snapshot-id": self.plan.to_inclusive.snapshot_id,
            "sequence-number": number,
            "timestamp-ms": made_at_ms,
            "manifest-list": written.files.manifest_list,
            "summary": Summary(Operation.REPLACE, **properties),
            "schema-id": now.current_schema_id,
        }
        if isinstance(now, TableMetadataV3):
            described |= {"first-row-id": now.next_row_id, "added-rows": 0}
        return Snapshot.model_validate(described)

    def _refuse_replaced(self, now: TableMetadata) -> None:
        if now.table_uuid != self.source.metadata.table_uuid:
            raise GapError(
                f"{self.source.name} was dropped and created again while it was captured",
                consequence="What was captured is of the table that does not exist any more, so nothing was published",
                remedy="retry the task: it says how to go on with the new table",
            )

    def _refuse_expired(self, metadata: TableMetadata, written: Sequence[_Written]) -> None:
        """Refuse files that were expired before the branch could hold them.

        Expired at 10:00 and published at 10:01    the engine may still be deleting files: not captured
        Published at 10:00, expired at 10:01       the engine sees the branch, and leaves its files alone
        """
        retained = {snapshot.snapshot_id for snapshot in metadata.snapshots}
        selections = [selection for each in written for selection in each.planned.selections]
        if all(not retained.isdisjoint(self.source.snapshots_that_list(s.manifest)) for s in selections):
            return
        for each in written:
            remove_branch(self.catalog, each.name)
        raise GapError(
            f"snapshots of {self.source.name} were expired while they were captured",
            consequence="Files of the capture may be deleted already, so nothing was captured",
            remedy="retry the task: it captures what the table has by now, or says what is lost",
        )

    def _delete(self, written: Sequence[_Written]) -> None:
        """Delete what was written and not published. A file that cannot be deleted now is an orphan, and harmless."""
        threads = requests_at_once(self.catalog.properties)
        for each in written:
            try:
                each.files.delete(self.source.table.io, each.paths, threads=threads)
            except IpsError:
                continue
            except foreign_errors():
                continue


class HeldIcdc(PreparedBranches):
    """A checked plan that becomes ICDC tables, and branches of the source that hold the files of these tables."""

    instead: ClassVar[str] = "leave out hold_source"

    @classmethod
    def place(cls, catalog: Catalog, source: IcebergSource, name: str, requested: str | None) -> str:
        """A table is where any ICDC table is."""
        check_source(catalog, source, instead=cls.instead)
        return PreparedIcdc.place(catalog, source, name, requested)

    def publish(self) -> SourceRecord:
        """Publish the branches before the tables: there is no table whose files are not held."""
        held = PreparedBranches.publish(replace(self, icdc=_holding(self.icdc), before=_holding(self.before)))
        made = PreparedIcdc.publish(self)
        return replace(made, captured_branch=held.captured_branch, before_branch=held.before_branch)


def _holding(planned: PlannedIcdcTable | None) -> PlannedIcdcTable | None:
    """The branch that holds the files of a table; None if there are none."""
    if planned is None or not planned.selections:
        return None
    return replace(planned, name=str(CapturedBranch.holding(planned.identity.source, planned.name)))


def can_be_referenced(selection: Selection) -> bool:
    """Whether a manifest can be listed as it is: every entry is wanted, and none says that a file was removed."""
    return can_be_copied(selection) and selection.manifest.deleted_files == 0


def _without_added(manifest: ManifestFile) -> ManifestFile:
    """A manifest as the list of a branch describes it: with the same files, none of which the branch added."""
    return with_fields(
        manifest,
        added_files_count=0,
        existing_files_count=(manifest.added_files_count or 0) + (manifest.existing_files_count or 0),
        added_rows_count=0,
        existing_rows_count=(manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0),
    )


def _next_number(metadata: TableMetadata) -> int:
    """Format v1 has no sequence numbers."""
    return 0 if metadata.format_version == 1 else int(metadata.last_sequence_number) + 1


def _totals(written: _Written) -> dict[str, str]:
    totals = table_totals(written.moved, written.planned.equality_deletes)
    return {name: total for name, total in totals.items() if name.startswith("total-")}


def _has(metadata: TableMetadata, planned: PlannedIcdcTable) -> bool:
    """Whether the branch of a capture is there. One of the same name that holds anything else is refused."""
    branch = branch_of(planned)
    if branch.branch not in metadata.refs:
        return False
    snapshot = snapshot_of_branch(metadata, branch.branch)
    found = {} if snapshot is None else properties_of(snapshot)
    if found.get(IDENTITY) == planned.identity.fingerprint:
        return True
    raise IcdcConflictError(
        f"{branch} exists already and is not this capture: "
        + ("another one made it" if found else "somebody has made it, or written to it"),
        consequence="A job that reads it would process other rows",
        remedy=f"remove it if it is not needed: ALTER TABLE {branch.table} DROP BRANCH {branch.branch}",
    )


def _is_at(metadata: TableMetadata, written: _Written) -> bool:
    ref = metadata.refs.get(written.name.branch)
    return ref is not None and ref.snapshot_id == written.snapshot_id


def branch_of(planned: PlannedIcdcTable) -> CapturedBranch:
    """The branch that a name of engines stands for."""
    found = CapturedBranch.parse(planned.name)
    if found is None:
        raise InputError(
            f"{planned.name!r} does not name a branch of a capture",
            consequence="Nothing was captured",
            remedy="leave the name out, and one is chosen",
        )
    return found


def _recorded(metadata: TableMetadata, planned: PlannedIcdcTable | None) -> BranchRecord | None:
    if planned is None:
        return None
    found = branch_record(metadata, planned.name)
    if found is None:
        raise GapError(
            f"{planned.name} was removed as soon as it was published",
            consequence="There is nothing to read",
            remedy="see who removes branches of the source, and retry the task",
        )
    return found
