"""The branch of a source that holds one capture: how it is added, found and removed, each by one commit to the source.

    main         1 ── 2 ── 3 ── 4
                           └─ 9       ips_db_t_1f0c…, captured up to 3

The snapshot of the branch is a child of the last captured one, so that catalogs check its sequence number: one that
another commit has taken meanwhile is refused, and the commit is tried again with the next one. Nothing of the source is
ever deleted, because

- every manifest is listed without added and deleted files. Releases of Iceberg before 1.10 delete what the manifests of
  an expired branch list as added;
- engines never expire the branch by themselves (``max-ref-age-ms`` is the largest number). The same releases take the
  history of an expired branch for that of main, and delete live files by it; for the same reason the branch's name
  comes after ``main`` wherever Java iterates over them. How long a capture is held is a property
  of its snapshot, and ours to act on;
- the commit that removes the branch removes its snapshot, so that no engine has to expire it.
"""

from __future__ import annotations

import logging
import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
)

from airflow_provider_ips.core.errors import CatalogError, IcdcConflictError, IpsError
from airflow_provider_ips.core.identifiers import BRANCH_PREFIX, MAIN_BRANCH, CapturedBranch, CapturedRange
from airflow_provider_ips.iceberg.foreign_errors import (
    foreign_errors,
    outcome_is_unknown,
    remedy_for,
    translate_errors,
)
from airflow_provider_ips.iceberg.icdc import leftovers
from airflow_provider_ips.iceberg.icdc.metadata import (
    load_if_exists,
    properties_of,
    snapshot_of_branch,
)
from airflow_provider_ips.iceberg.manifests.lists import ManifestList
from airflow_provider_ips.iceberg.storage.requests import delete_files, delete_folder, requests_at_once
from airflow_provider_ips.redaction import cause_without_secrets, redacted_message

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate

    Change = tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]


log = logging.getLogger(__name__)

MANIFEST_LIST: Final = "snap.avro"
INSTEAD: Final = 'use capture_mode="ICDC"'
_COMMIT_ATTEMPTS: Final = 20
_MAX_PAUSE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class BranchFiles:
    """The files of one branch, in a folder of their own among the source's metadata; its name ends in a random mark."""

    metadata_folder: str
    mark: str = field(default_factory=lambda: secrets.token_hex(6))

    @classmethod
    def of_source(cls, metadata: TableMetadata) -> BranchFiles:
        """Choose a new folder where the source's properties put metadata."""
        home = metadata.properties.get("write.metadata.path") or f"{metadata.location.rstrip('/')}/metadata"
        return cls(home.rstrip("/"))

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot) -> BranchFiles | None:
        """The folder of a snapshot that a capture wrote; None for any other."""
        folder, _, name = snapshot.manifest_list.rpartition("/")
        home, _, last = folder.rpartition("/")
        is_ours = name == MANIFEST_LIST and last.startswith(BRANCH_PREFIX)
        return cls(home, last.removeprefix(BRANCH_PREFIX)) if is_ours else None

    @property
    def folder(self) -> str:
        return f"{self.metadata_folder}/{BRANCH_PREFIX}{self.mark}"

    @property
    def manifest_list(self) -> str:
        return f"{self.folder}/{MANIFEST_LIST}"

    def manifest(self, number: int) -> str:
        return f"{self.folder}/m{number}.avro"

    def has(self, path: str) -> bool:
        """Whether a manifest is one of these files."""
        return path.startswith(f"{self.folder}/")

    def delete(self, io: FileIO, written: Sequence[str], *, threads: int) -> None:
        """Delete the folder; or, where folders cannot be deleted or listed, file by file."""
        try:
            delete_folder(io, self.folder, threads=threads)
        except IpsError:  # not everybody who may delete files may list them
            delete_files(io, written, threads=threads)


class CommitToSource:
    """One change to a table that others write to all the time: tried again whenever one of them was faster.

    ``is_unsettled`` says whether it may still be carried out, so that nothing it refers to may be deleted;
    ``has_changed`` whether it was, and not by somebody else.

    :param instead: how to capture without a commit to the source
    """

    def __init__(self, catalog: Catalog, what: str, *, instead: str = INSTEAD) -> None:
        self._catalog = catalog
        self._what = what
        self._instead = instead
        self.is_unsettled = False
        self.has_changed = False

    def run(
        self,
        table: Table,
        change: Callable[[TableMetadata], Change | None],
        is_done: Callable[[TableMetadata], bool],
    ) -> TableMetadata:
        """Commit, and return the table's metadata with the change.

        :param change: makes the commit from the table's metadata as it is by now; None if there is nothing to do
        :param is_done: whether metadata has the change, which settles a commit whose answer was lost
        """
        for attempt in range(_COMMIT_ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0, min(_MAX_PAUSE_S, 0.05 * 2**attempt)))  # noqa: S311 - not for secrets
                table = self._catalog.load_table(table.name())
            commit = change(table.metadata)
            if commit is None:
                return table.metadata
            committed = self._try(table, commit, is_done)
            if committed is not None:
                self.has_changed = True
                return committed
        raise CatalogError(
            f"{self._what} failed {_COMMIT_ATTEMPTS} times, because others committed in between",
            consequence="Nothing was captured or removed, and no checkpoint moved",
            remedy=f"retry the task; for a table that is written without a pause, {self._instead}",
        )

    def _try(self, table: Table, commit: Change, is_done: Callable[[TableMetadata], bool]) -> TableMetadata | None:
        self.is_unsettled = True  # until the catalog has answered, also if this process is stopped meanwhile
        try:
            committed = self._catalog.commit_table(table, *commit).metadata
        except CommitFailedException:
            self.is_unsettled = False
            return None
        except ValueError as error:  # PyIceberg's own, for a sequence number that another commit has taken
            self.is_unsettled = False
            if "older than last sequence number" not in str(error):
                raise
            return None
        except foreign_errors() as error:
            now = self._look(table, error)
            if is_done(now):
                return now
            self.is_unsettled = outcome_is_unknown(error)
            if self.is_unsettled or _is_same(now, table.metadata):
                raise _not_committed(error, self._what, self._instead) from cause_without_secrets(error)
            return None  # servers before Iceberg 1.11 refuse a number that is taken as a bad request
        _delete_old_metadata(table.io, table.metadata, committed)
        return committed

    def _look(self, table: Table, error: Exception) -> TableMetadata:
        try:
            return self._catalog.load_table(table.name()).metadata
        except foreign_errors() as second:
            raise CatalogError(
                f"it is unknown whether {self._what} has been carried out ({redacted_message(error)}), because the "
                f"catalog no longer answers: {redacted_message(second)}",
                consequence="No checkpoint moved. The files that were written are kept, because the branch may exist",
                remedy="retry the task once the catalog answers",
            ) from cause_without_secrets(error)


def _delete_old_metadata(io: FileIO, before: TableMetadata, after: TableMetadata) -> None:
    """Delete the metadata files that a commit has taken out of the log, if the table's properties say so.

    PyIceberg does that in ``Table``, above the call that is used here. No later commit would.
    """
    if after.properties.get("write.metadata.delete-after-commit.enabled", "false").lower() != "true":
        return
    listed = {entry.metadata_file for entry in after.metadata_log}
    forgotten = [entry.metadata_file for entry in before.metadata_log if entry.metadata_file not in listed]
    try:
        delete_files(io, forgotten, threads=1)
    except IpsError as error:  # they are orphans, and the commit is made
        log.warning("Older metadata files of a source could not be deleted: %s", error)


def _is_same(now: TableMetadata, before: TableMetadata) -> bool:
    """Whether no one has committed since, so that the refusal is about the change itself."""
    return now.last_updated_ms == before.last_updated_ms and len(now.snapshots) == len(before.snapshots)


def _not_committed(error: Exception, what: str, instead: str) -> CatalogError:
    return CatalogError(
        f"{what} was not committed: {redacted_message(error)}",
        consequence="A branch is made and removed by a commit to the source. No checkpoint moved",
        remedy=f"let the connection's user commit to the source, which this needs; or {instead}, which only reads it. "
        f"Otherwise {remedy_for(error)}",
    )


def drop_icdc(catalog: Catalog, name: str) -> bool:
    """Drop what a capture made, an ICDC table or a branch of the source; False if there is nothing of that name."""
    if CapturedRange.parse(name) is not None:
        return False
    branch = CapturedBranch.parse(name)
    return leftovers.drop_icdc(catalog, name) if branch is None else remove_branch(catalog, branch)


_NOT_REMOVED: Final = "The branch may still be there; no data file of the source was touched"


def remove_branch(catalog: Catalog, captured: CapturedBranch) -> bool:
    """Remove a branch and its snapshot by one commit, then delete what its capture wrote. False if there is none.

    Whatever anybody else has built on the snapshot, such as a tag or another commit, keeps it and its files. If others
    remove the branch in the same moment, one of them deletes its files.
    """
    what = f"removing branch {captured.branch} of {captured.table}"
    with translate_errors(what, consequence=_NOT_REMOVED):
        table = load_if_exists(catalog, captured.table)
        snapshot = None if table is None else snapshot_of_branch(table.metadata, captured.branch)
        if table is None or snapshot is None:
            return False
        _refuse_foreign(captured, snapshot)
        removed = snapshot.snapshot_id
        commit = CommitToSource(catalog, what)
        now = commit.run(
            table, lambda now: _removal(now, captured.branch, removed), lambda now: captured.branch not in now.refs
        )
        if commit.has_changed and now.snapshot_by_id(removed) is None:
            _delete_files_of(catalog, table, snapshot, now)
    return commit.has_changed


def _removal(now: TableMetadata, branch: str, removed: int) -> Change | None:
    """The commit that removes a branch and its snapshot; None if the branch is not at that snapshot any more.

    A snapshot that is removed takes every reference to it along, main as well. So the references of others have to be
    where they were when it was seen that none is at the snapshot: then the catalog refuses the commit if one was moved.
    """
    ref = now.refs.get(branch)
    if ref is None or ref.snapshot_id != removed:
        return None
    others = {name: ref.snapshot_id for name, ref in now.refs.items() if not _is_of_a_capture(now, name)}
    asserted = {MAIN_BRANCH: None, **others, branch: removed}
    forgotten = (
        ()
        if _is_built_on(now, removed, branch)
        else (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [removed]}),)
    )
    return (
        (AssertTableUUID(uuid=now.table_uuid), *(ref_at(name, snapshot) for name, snapshot in asserted.items())),
        (RemoveSnapshotRefUpdate.model_validate({"ref-name": branch}), *forgotten),
    )


def _is_of_a_capture(metadata: TableMetadata, name: str) -> bool:
    """Whether a reference is the branch of a capture: others may add and remove such branches at any time."""
    snapshot = snapshot_of_branch(metadata, name) if name.startswith(BRANCH_PREFIX) else None
    return snapshot is not None and bool(properties_of(snapshot))


def ref_at(name: str, snapshot_id: int | None) -> AssertRefSnapshotId:
    """Require that a reference is at a snapshot when the catalog commits; None requires that there is none."""
    return AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": snapshot_id})


def _refuse_foreign(captured: CapturedBranch, snapshot: Snapshot) -> None:
    if not properties_of(snapshot):
        raise IcdcConflictError(
            f"{captured} is at snapshot {snapshot.snapshot_id}, which no capture wrote",
            consequence="Somebody has made the branch or written to it, so it was left alone",
            remedy=f"if it is not needed: ALTER TABLE {captured.table} DROP BRANCH {captured.branch}",
        )


def _is_built_on(metadata: TableMetadata, snapshot_id: int, branch: str) -> bool:
    """Whether another reference is at a snapshot, or another snapshot was made from it."""
    return any(ref.snapshot_id == snapshot_id for name, ref in metadata.refs.items() if name != branch) or any(
        snapshot.parent_snapshot_id == snapshot_id for snapshot in metadata.snapshots
    )


def _delete_files_of(catalog: Catalog, table: Table, snapshot: Snapshot, now: TableMetadata) -> None:
    """Delete the manifest list and the spliced manifests of a snapshot that is no longer in the table.

    They stay if the table still lists one of them: main was moved to the capture by hand, and written since.
    """
    files = BranchFiles.of_snapshot(snapshot)
    if files is None:
        return
    own = [m.manifest_path for m in ManifestList(table.io, snapshot.manifest_list).all()]
    spliced = [path for path in own if files.has(path)]
    if spliced and not _are_unlisted(table.io, set(spliced), now):
        return
    files.delete(table.io, [*spliced, snapshot.manifest_list], threads=requests_at_once(catalog.properties))


def _are_unlisted(io: FileIO, manifests: set[str], metadata: TableMetadata) -> bool:
    heads = {ref.snapshot_id for ref in metadata.refs.values()}
    lists = [s.manifest_list for s in metadata.snapshots if s.snapshot_id in heads and not properties_of(s)]
    return all(manifests.isdisjoint(m.manifest_path for m in ManifestList(io, path).all()) for path in lists)
