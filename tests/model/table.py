"""Tables whose truth is known exactly: every commit is kept twice, as Iceberg's facts and as plain rows.

The facts (snapshots, manifests, entries) are what the code under test reads. The rows are the oracle: the live files
after each commit, computed from what was added and removed, without any manifest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.history.files import Content
from tests.model.ledger import HeadOnlyView, Ledger, TableTraits
from tests.model.warehouse import DataFile, State, StoredRow

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Iterable, Sequence

    from airflow_provider_ips.core.history.files import FileFacts
    from tests.model.warehouse import ReadRow, Row, Warehouse

PLACES = 2
"""How many partitions a table has."""

MAIN, OTHER = "main", "other"


@dataclass(slots=True)
class Table:
    """One table, and everything that can happen to it. An action that is not possible at the time does nothing."""

    name: str
    warehouse: Warehouse
    new_key: Callable[[], int]
    traits: TableTraits = field(default_factory=TableTraits)
    ledger: Ledger = field(init=False)
    heads: dict[str, int | None] = field(init=False)
    on: str = MAIN
    """The branch that actions commit to."""

    states: dict[int | None, State] = field(default_factory=dict)
    """The live files after every commit that ever was. The same for what follows."""

    parents: dict[int, int | None] = field(default_factory=dict)
    operations: dict[int, str] = field(default_factory=dict)
    brought: dict[int, Counter[Row] | None] = field(default_factory=dict)
    """The rows that a commit appended; None if it did anything else than to add rows."""

    only_removed: dict[int, bool] = field(default_factory=dict)
    """Whether a commit removed files and added none."""

    returned: set[Row] = field(default_factory=set)
    """Rows that were deleted and came back: new for a consumer of changes, though they look the same."""

    shown: list[tuple[int, int | None]] = field(default_factory=list)
    """Since when, in milliseconds, which snapshot has been the head of main; nothing is ever forgotten."""

    jumps: int = 0
    """How often the head of main was set to a snapshot that was there already."""

    creations: int = 0
    deleted: list[Row] = field(default_factory=list)
    version: int = 0

    def __post_init__(self) -> None:
        self.states[None] = State()
        self._create()

    # what it is now

    @property
    def view(self) -> Ledger | HeadOnlyView:
        """What the catalog shows of it."""
        return HeadOnlyView(self.ledger) if self.traits.shows_head_only else self.ledger

    @property
    def head(self) -> int | None:
        """The head of main."""
        return self.heads[MAIN]

    @property
    def state(self) -> State:
        """The live files of the branch that actions commit to."""
        return self.states[self.heads[self.on]]

    @property
    def now_ms(self) -> int:
        return self.ledger.last_id * 1000 + 900

    def rows_at(self, snapshot_id: int | None) -> Counter[Row]:
        """The truth about a snapshot."""
        return self.warehouse.count(self.states[snapshot_id])

    def line_of(self, snapshot_id: int | None) -> list[int]:
        """A snapshot and its true ancestors, newest first."""
        line = []
        while snapshot_id is not None:
            line.append(snapshot_id)
            snapshot_id = self.parents[snapshot_id]
        return line

    def shown_at(self, time_ms: int) -> int | None:
        """The head of main at a time."""
        return [head for since, head in self.shown if since <= time_ms][-1]

    # writers

    def append(self, count: int, place: int, how: str = "", again: int = 0) -> None:
        """Write a file of new rows, up to ``again`` of them with keys that were deleted before.

        ``how``: "merged" rewrites all manifests into one; "overwrite" is the operation of a dynamic overwrite.
        """
        live = {row[0] for row in self._live_rows()}
        keys = list(dict.fromkeys(key for key, _ in self.deleted if key not in live))[: min(again, count)]
        keys += [self.new_key() for _ in range(max(count, 1) - len(keys))]
        rows = [StoredRow(self._versioned(key), None) for key in keys]
        operation = "overwrite" if how == "overwrite" else "append"
        self._commit(operation, add=[self._file(rows, place)], merge=how == "merged")

    def empty_commit(self) -> None:
        """Commit no file."""
        self._commit("append")

    def copy_on_write(self, which: int, row: int, how: str, brings: int = 0, operation: str = "overwrite") -> None:
        """Rewrite a file. ``how``: one row "changes" or "goes"; the others stay, and ``brings`` new ones come."""
        files = self._files_of_path(which)
        rows = self._read(files)
        if not rows:
            return
        hit = rows[row % len(rows)].row[0]
        kept = [StoredRow(*read) for read in rows if read.row[0] != hit]
        if how == "changes":
            kept.append(StoredRow(self._versioned(hit), None))
        else:
            self.deleted += [read.row for read in rows if read.row[0] == hit]
        kept += [StoredRow(self._versioned(self.new_key()), None) for _ in range(brings)]
        add = [self._file(kept, files[0].place)] if kept else []
        self._commit(operation, add=add, remove={files[0].path})

    def drop_files(self, which: int, count: int) -> None:
        """Delete whole files."""
        paths = self._paths()
        self._drop(paths[which % len(paths) :][:count] if paths else ())

    def drop_place(self, place: int) -> None:
        """Delete a partition, as retention does."""
        self._drop([file.path for file in self.state.data if file.place == place % PLACES])

    def drop_all(self) -> None:
        """Delete all files, delete files included."""
        self._drop(self._paths(), [delete.path for delete in self.state.deletes])

    def merge_on_read(self, which: int, row: int, reach: str, how: str) -> None:
        """Delete a row by a delete file, and write its new version if it ``how`` "changes".

        ``reach``: the delete file names the "file", may apply to the whole "partition", or is the file's one "vector".
        """
        files = self._files_of_path(which)
        rows = self._read(files)
        if not rows or self.ledger.format_version == 1:
            return
        path, place = files[0].path, files[0].place
        hit = rows[row % len(rows)].row[0]
        positions = frozenset((path, at) for at, stored in enumerate(self.warehouse.rows[path]) if stored.row[0] == hit)
        named = [d for d in self.state.deletes if d.data_file == path and not d.is_equality]
        old = named if reach == "vector" else []
        positions = positions.union(*(self.warehouse.positions[d.path] for d in old))
        delete = self.ledger.delete_file(None if reach == "partition" else path, partition=(place,))
        self.warehouse.positions[delete.path] = positions
        self.deleted += [read.row for read in rows if read.row[0] == hit]
        new = [self._file([StoredRow(self._versioned(hit), None)], place)] if how == "changes" else []
        add = [*new, replace(delete, records=len(positions))]
        self._commit("overwrite" if new else "delete", add=add, remove={d.path for d in old})

    def upsert(self, which: int, row: int) -> None:
        """Delete a key by value and write its new version, as streaming writers do."""
        files = self._files_of_path(which)
        rows = self._read(files)
        if not rows or self.ledger.format_version == 1:
            return
        hit, place = rows[row % len(rows)].row[0], files[0].place
        delete = self.ledger.delete_file(None, partition=(place,), content=Content.EQUALITY_DELETES)
        self.warehouse.keys[delete.path] = frozenset([hit])
        self.deleted += [read.row for read in rows if read.row[0] == hit]
        self._commit("overwrite", add=[self._file([StoredRow(self._versioned(hit), None)], place), delete])

    def undelete(self, which: int) -> None:
        """Remove a delete file, which brings rows back."""
        deletes = self.state.deletes
        if not deletes:
            return
        taken = deletes[which % len(deletes)]
        rest = State(self.state.data, tuple(d for d in deletes if d != taken))
        rows = self.warehouse.count(rest)
        if _has_one_version(rows):
            self.returned |= set(rows) - set(self._live_rows())
            self._commit("overwrite", remove={taken.path})

    def compact(self, first: int, count: int, how: str = "") -> None:
        """Rewrite some files of one partition into one, with deletes applied; ``how``: "keeps deletes" that it applied.

        The new file gets the number of the snapshot that was compacted, as Spark's rewrite_data_files gives it.
        """
        paths = self._paths()
        if not paths:
            return
        place = self.warehouse.places[paths[first % len(paths)]]
        order = paths[first % len(paths) :] + paths[: first % len(paths)]
        mine = [path for path in order if self.warehouse.places[path] == place][: count + 1]
        rows = [StoredRow(*read) for read in self._read([file for file in self.state.data if file.path in mine])]
        applied = {d.path for d in self.state.deletes if d.data_file in mine and how != "keeps deletes"}
        head = self.heads[self.on]
        number = 0 if head is None else self.ledger.snapshots[head].sequence_number
        add = [replace(self._file(rows, place), sequence_number=number)] if rows else []
        self._commit("replace", add=add, remove={*mine, *applied})

    def rewrite_manifests(self) -> None:
        """Move all entries to new manifests."""
        if self.heads[self.on] is not None:
            self._commit("replace", merge=True)

    def add_again(self, which: int) -> None:
        """Add a removed file by its old path, as `add_files` can."""
        live = set(self._paths())
        removed = [path for path in self._own_paths() if path not in live]
        if not removed:
            return
        path = removed[which % len(removed)]
        back = {stored.row for stored in self.warehouse.rows[path]}
        if not {key for key, _ in back} & {key for key, _ in self._live_rows()}:
            self.returned |= back
            self.warehouse.lost.discard(path)
            self._add_path(path)

    def add_twice(self, which: int) -> None:
        """Add a live file's path once more, as `add_files` with check_duplicate_files=False does."""
        paths = self._paths()
        if not paths:
            return
        path = paths[which % len(paths)]
        more = DataFile(path, self.ledger.last_id + 1, self.warehouse.places[path])
        rows = self.warehouse.count(State((*self.state.data, more), self.state.deletes))
        if _has_one_version(rows):
            self.returned |= set(rows) - set(self._live_rows())
            self._add_path(path)

    # heads

    def rollback(self, back: int) -> None:
        """Set main back to an ancestor of its head."""
        line = [snapshot_id for snapshot_id in self.line_of(self.head)[1:] if snapshot_id in self.ledger.snapshots]
        if line:
            self._jump(line[back % len(line)])

    def fork(self) -> None:
        """Start the other branch at main's head, and commit to it from then on."""
        if self.head is not None:
            self.heads[OTHER], self.on = self.head, OTHER

    def switch(self) -> None:
        """Commit to the other of the two branches from then on."""
        if self.heads[OTHER] is not None:
            self.on = MAIN if self.on == OTHER else OTHER

    def publish(self) -> None:
        """Set main to the head of the other branch, be it a descendant or not, and commit to main again."""
        self.on = MAIN
        if self.heads[OTHER] not in (None, self.head):
            self._jump(self.heads[OTHER])

    # maintenance

    def expire(self, keep: int, parents: str) -> None:
        """Keep only the newest snapshots of main and the heads of branches. ``parents``: "cleared" or "dangling"."""
        kept = {*self.line_of(self.head)[: keep + 1], *self.heads.values()}
        self._expire([s for s in self.ledger.snapshots if s not in kept], parents)

    def expire_one(self, which: int, parents: str) -> None:
        """Expire a single snapshot."""
        some = [s for s in self.ledger.snapshots if s not in self.heads.values()]
        if some:
            self._expire([some[which % len(some)]], parents)

    def forget_metadata(self) -> None:
        """Lose the older metadata files."""
        self.ledger.forget_metadata()

    def upgrade(self) -> None:
        """Go to the next format version."""
        self.ledger.format_version = min(self.ledger.format_version + 1, 3)

    def recreate(self) -> None:
        """Drop the table and create another one under its name."""
        self.warehouse.lost |= set(self._own_paths())
        self.deleted = []
        self._create()

    def replace_table(self, which: int, count: int) -> None:
        """CREATE OR REPLACE TABLE: the uuid and the snapshots stay, and the head has no parent.

        ``count``: AS SELECT takes the rows of so many files, and writes them to a new one; with 0 there is no snapshot.
        """
        paths, place = self._paths(), 0
        taken = [file for file in self.state.data if file.path in paths[which % max(len(paths), 1) :][:count]]
        rows = [StoredRow(read.row, None) for read in self._read(taken)]
        self.deleted += [row for row in self._live_rows() if row not in {stored.row for stored in rows}]
        self.on = MAIN
        self._jump(None)
        if rows:
            self._commit("append", add=[self._file(rows, place)])

    # how

    def _create(self) -> None:
        self.creations += 1
        made, last_id = (self.ledger.files_made, self.ledger.last_id) if self.creations > 1 else (0, 0)
        self.ledger = Ledger(
            self.name,
            table_uuid=f"00000000-0000-0000-{self.creations:04}-000000000001",
            format_version=self.traits.format_version,
            traits=self.traits,
            files_made=made,
            last_id=last_id,
        )
        self.heads = {MAIN: None, OTHER: None}
        self.on = MAIN
        self.shown.append((last_id * 1000 + 950 if last_id else 0, None))

    def _paths(self) -> list[str]:
        return list(dict.fromkeys(file.path for file in self.state.data))

    def _own_paths(self) -> list[str]:
        return sorted(path for path in self.warehouse.rows if f"//{self.name}/" in path)

    def _files_of_path(self, which: int) -> list[DataFile]:
        """The live files of one path: several if it was added twice."""
        paths = self._paths()
        path = paths[which % len(paths)] if paths else None
        return [file for file in self.state.data if file.path == path]

    def _read(self, files: Sequence[DataFile]) -> list[ReadRow]:
        return self.warehouse.read_even_lost(State(tuple(files), self.state.deletes))

    def _live_rows(self) -> Counter[Row]:
        return self.warehouse.count(self.state)

    def _versioned(self, key: int) -> Row:
        self.version += 1
        return (key, self.version)

    def _file(self, rows: Sequence[StoredRow], place: int) -> FileFacts:
        file = self.ledger.data_file(partition=(place % PLACES,), records=len(rows))
        self.warehouse.rows[file.path] = tuple(rows)
        self.warehouse.places[file.path] = place % PLACES
        return file

    def _add_path(self, path: str) -> None:
        place, records = self.warehouse.places[path], len(self.warehouse.rows[path])
        self._commit("append", add=[self.ledger.data_file(path, partition=(place,), records=records)])

    def _drop(self, paths: Collection[str], deletes: Collection[str] = ()) -> None:
        if paths:
            self.deleted += [read.row for read in self._read([f for f in self.state.data if f.path in paths])]
            self._commit("delete", remove={*paths, *deletes})

    def _commit(
        self,
        operation: str,
        *,
        add: Sequence[FileFacts] = (),
        remove: Collection[str] = (),
        merge: bool = False,
    ) -> None:
        ledger, parent = self.ledger, self.heads[self.on]
        log = list(ledger.log)
        ledger.head_id = parent
        ledger.commit(operation, add=add, remove=tuple(remove), merge=merge)
        snapshot_id = ledger.last_id
        self.heads[self.on] = snapshot_id
        if self.on == MAIN:
            self.shown.append((snapshot_id * 1000, snapshot_id))
        else:
            ledger.log, ledger.head_id = log, self.head
        ledger.metadata[snapshot_id] = dict(ledger.snapshots)
        self._remember(snapshot_id, parent, operation, add, remove)

    def _remember(
        self, snapshot_id: int, parent: int | None, operation: str, add: Sequence[FileFacts], remove: Collection[str]
    ) -> None:
        own = snapshot_id if self.ledger.format_version > 1 else 0
        before, added = self.states[parent], State.of(replace(f, sequence_number=f.sequence_number or own) for f in add)
        self.states[snapshot_id] = State(
            (*(file for file in before.data if file.path not in remove), *added.data),
            (*(delete for delete in before.deletes if delete.path not in remove), *added.deletes),
        )
        self.parents[snapshot_id], self.operations[snapshot_id] = parent, operation
        is_append = not remove and not added.deletes and operation != "replace"
        self.brought[snapshot_id] = self.warehouse.count(State(added.data)) if is_append else None
        self.only_removed[snapshot_id] = bool(remove) and not add and operation != "replace"

    def _jump(self, snapshot_id: int | None) -> None:
        self.jumps += 1
        self.heads[MAIN] = self.ledger.head_id = snapshot_id
        at_ms = self.ledger.last_id * 1000 + 100 + self.jumps
        self.shown.append((at_ms, snapshot_id))
        if snapshot_id is not None:
            self.ledger.log.append((at_ms, snapshot_id))

    def _expire(self, ids: Collection[int], parents: str) -> None:
        snapshots = self.ledger.snapshots
        for snapshot_id in ids:
            del snapshots[snapshot_id]
        self.ledger.log = [(since, head) for since, head in self.ledger.log if head in snapshots]
        for snapshot_id, facts in list(snapshots.items()):
            if parents == "cleared" and facts.parent_id in ids:
                snapshots[snapshot_id] = replace(facts, parent_id=None)
        if ids:
            reachable = {file.path for snapshot_id in snapshots for file in self.states[snapshot_id].data}
            self.warehouse.lost |= {path for path in self._own_paths() if path not in reachable}


def _has_one_version(rows: Iterable[Row]) -> bool:
    distinct = set(rows)
    return len({key for key, _ in distinct}) == len(distinct)
