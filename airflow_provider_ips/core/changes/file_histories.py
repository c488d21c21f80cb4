"""What became of every data file that the snapshots of a range added or removed.

Snapshots are counted from 0, the oldest of the range, and such a number is called a step. A file that was live when the
range began is an old file; one that a snapshot of the range adds is an added file.

Compaction moves rows to other files without changing them, and manifests do not say which row went where. So all files
of one compaction are a group: any output may hold rows of any input. Compactions that rewrite each other's outputs
are one group as well:

    step 0   append    adds a
    step 1   compact   rewrites a and the old file o into c
    step 2   append    adds b
    step 3   compact   rewrites b and c into d               steps 1 and 3 are one group: o, a, b -> d
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from airflow_provider_ips.core.changes.effects import SnapshotEffect
from airflow_provider_ips.core.history.files import (
    DeleteScope,
    FileFacts,
    FileKey,
    LocatedFile,
    ManifestFacts,
    Partition,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedFile:
    """A data file that the range added, and what later snapshots of the range did to it."""

    located: LocatedFile
    step: int
    by_compaction: bool
    may_hold_old_rows: bool
    """The snapshot that added it removed an old file, or a file that held old rows: some may be in here, unchanged."""

    has_deletes: bool = False
    """A later delete file applied to it."""

    was_changed: bool = False
    """A snapshot other than a compaction removed it."""

    compacted_at: int | None = None
    """The step of the compaction that removed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedFile:
    """An old file that the range removed."""

    located: LocatedFile
    step: int
    by_compaction: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedDelete:
    """What a step deleted, by adding a delete file; or what it restored, by removing one."""

    scope: DeleteScope
    step: int
    restores: bool


class AppliedDeletes:
    """Applied deletes, indexed so that many files can be tested against all of them."""

    __slots__ = ("_all", "_by_data_file", "_by_partition")

    def __init__(self, deletes: Iterable[AppliedDelete]) -> None:
        self._all = tuple(deletes)
        self._by_data_file: dict[str, list[AppliedDelete]] = defaultdict(list)
        self._by_partition: dict[tuple[int | None, Partition], list[AppliedDelete]] = defaultdict(list)
        for delete in self._all:
            scope = delete.scope
            if scope.referenced_data_file is not None:
                self._by_data_file[scope.referenced_data_file].append(delete)
            else:
                self._by_partition[scope.spec_id, scope.partition].append(delete)

    def __iter__(self) -> Iterator[AppliedDelete]:
        return iter(self._all)

    def __bool__(self) -> bool:
        return bool(self._all)

    def apply_to(self, file: FileFacts, *, before: int | None = None) -> bool:
        """Whether any of them applies to a data file; ``before`` leaves out those of that step and later ones."""
        candidates = (
            *self._by_data_file.get(file.path, ()),
            *self._by_partition.get((file.spec_id, file.partition), ()),
            *self._by_partition.get((None, ()), ()),
        )
        return any((before is None or d.step < before) and d.scope.covers(file) for d in candidates)

    def up_to(self, sequence_number: int) -> AppliedDeletes:
        """The same deletes, for data files with numbers up to this one."""
        return AppliedDeletes(
            replace(d, scope=replace(d.scope, max_sequence_number=min(d.scope.max_sequence_number, sequence_number)))
            for d in self._all
        )

    def may_apply_to_files_of(self, manifest: ManifestFacts) -> bool:
        """Whether any of them may apply to a file of a manifest, as far as specs and sequence numbers show."""
        return any(
            d.scope.spec_id in (manifest.spec_id, None) and manifest.min_sequence_number <= d.scope.max_sequence_number
            for d in self._all
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHistories:
    """The data files of a range, and the compactions that they went through."""

    live: Mapping[FileKey, AddedFile]
    """Added files that are live at the end of the range."""

    ended: tuple[AddedFile, ...]
    """Added files that the range removed again."""

    removed: Mapping[FileKey, RemovedFile]
    """Old files that the range removed."""

    deletes: tuple[AppliedDelete, ...]
    """What every step deleted and restored, oldest first."""

    groups: tuple[int, ...]
    """By step: a number that compactions of one group share."""

    changed_groups: frozenset[int]
    """Compaction groups of which a later snapshot removed an output or deleted rows in one."""

    restored_groups: frozenset[int]
    """Compaction groups in whose outputs a later snapshot restored rows."""

    @property
    def added(self) -> Iterator[AddedFile]:
        """Every file that the range added, whatever became of it."""
        yield from self.live.values()
        yield from self.ended


def follow_files(effects: Sequence[SnapshotEffect]) -> FileHistories:
    """Follow every data file through the range."""
    replay = _Replay(len(effects))
    for step, effect in enumerate(effects):
        replay.apply(step, effect)
    return replay.result()


class _Replay:
    """Applies the snapshots of a range one after another."""

    def __init__(self, steps: int) -> None:
        self._live: dict[FileKey, AddedFile] = {}
        self._keys_by_path: dict[str, set[FileKey]] = defaultdict(set)
        self._ended: list[AddedFile] = []
        self._removed: dict[FileKey, RemovedFile] = {}
        self._deletes: list[AppliedDelete] = []
        self._changed: set[int] = set()
        self._restored: set[int] = set()
        self._joined_to = list(range(steps))

    def apply(self, step: int, effect: SnapshotEffect) -> None:
        may_hold_old_rows = self._remove(step, effect)
        for located in effect.added:
            self._keys_by_path[located.file.path].add(located.file.key)
            self._live[located.file.key] = AddedFile(
                located=located, step=step, by_compaction=effect.is_compaction, may_hold_old_rows=may_hold_old_rows
            )
        for scope in effect.deleted():
            self._delete(AppliedDelete(scope=scope, step=step, restores=False))
        for delete in effect.restoring():
            self._delete(AppliedDelete(scope=DeleteScope.of(delete.file), step=step, restores=True))

    def result(self) -> FileHistories:
        groups = tuple(self._group(step) for step in range(len(self._joined_to)))
        return FileHistories(
            live=MappingProxyType(self._live),
            ended=tuple(self._ended),
            removed=MappingProxyType(self._removed),
            deletes=tuple(self._deletes),
            groups=groups,
            changed_groups=frozenset(groups[step] for step in self._changed),
            restored_groups=frozenset(groups[step] for step in self._restored),
        )

    def _remove(self, step: int, effect: SnapshotEffect) -> bool:
        """Remove what the snapshot removed, and say whether any of it held rows from before the range."""
        held_old_rows = False
        for key, located in {located.file.key: located for located in effect.removed}.items():
            added = self._live.pop(key, None)
            if added is None:
                removed = RemovedFile(located=located, step=step, by_compaction=effect.is_compaction)
                self._removed[key] = removed
                held_old_rows = True
                continue
            held_old_rows = held_old_rows or added.may_hold_old_rows
            if effect.is_compaction:
                self._ended.append(replace(added, compacted_at=step))
                if added.by_compaction:
                    self._joined_to[self._group(added.step)] = self._group(step)
            else:
                self._ended.append(replace(added, was_changed=True))
                self._change_group_of(added)
        return held_old_rows

    def _delete(self, delete: AppliedDelete) -> None:
        self._deletes.append(delete)
        for key, file in self._live_under(delete.scope):
            if not file.has_deletes:
                self._live[key] = replace(file, has_deletes=True)
            self._change_group_of(file)
            if delete.restores and file.by_compaction:
                self._restored.add(file.step)

    def _live_under(self, scope: DeleteScope) -> list[tuple[FileKey, AddedFile]]:
        path = scope.referenced_data_file
        keys = self._live if path is None else self._keys_by_path.get(path, set()) & self._live.keys()
        return [(key, self._live[key]) for key in keys if scope.covers(self._live[key].located.file)]

    def _change_group_of(self, file: AddedFile) -> None:
        if file.by_compaction:
            self._changed.add(file.step)

    def _group(self, step: int) -> int:
        """Find the step that represents the group, and shorten the path to it (union-find)."""
        while (joined := self._joined_to[step]) != step:
            self._joined_to[step] = self._joined_to[joined]
            step = joined
        return step
