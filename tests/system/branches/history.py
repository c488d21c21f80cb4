"""One random history of a source and of captures in its branches, checked after every step.

The law: every file of main's head exists and main has the rows of its ledger, whatever became of captures; and one
that was published reads as it did until its branch is removed: as a branch, or as a table whose files a branch holds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider_ips.core.advice.checks import check_expiry
from airflow_provider_ips.core.advice.retention import MAX_REF_AGE
from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.core.identifiers import CapturedBranch
from airflow_provider_ips.core.settings import ALL_OPERATIONS
from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.iceberg.manifests.lists import ManifestList
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
from tests.kit.local_tables import append, files_under, head, new_table, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.table import CommitTableResponse, Table

    from tests.system.branches.maintenance import Release

TABLE = "db.t"
UNSAFE = ("1.8.1", "1.9.2")
"""Releases that delete live files of main by what they believe of references and parents."""

MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "3"}


class KilledError(BaseException):
    """The capture's process is killed."""


class RacedCatalog(SqlCatalog):
    """Something else happens just before or just after one commit."""

    before_commit: Callable[[], object] | None = None
    after_commit: Callable[[], object] | None = None

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """Commit, with what happens at the same time."""
        before, self.before_commit = self.before_commit, None
        after, self.after_commit = self.after_commit, None
        if before is not None:
            before()
        response = super().commit_table(table, requirements, updates)
        if after is not None:
            after()
        return response


def kill() -> None:
    """End the process of whoever is at it."""
    raise KilledError


def path_of(location: str) -> Path:
    """Where a local file is."""
    return Path(urlparse(location).path)


@dataclass
class History:
    """A table, the rows that each of its snapshots has, and the captures that are held."""

    catalog: RacedCatalog
    rng: Random
    engines: Sequence[Release]
    rows: dict[int, frozenset[int]] = field(default_factory=dict)
    held: dict[str, tuple[int, ...]] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    """The ICDC tables whose files a branch holds, by the name of the branch."""

    written: list[str] = field(default_factory=list)
    """Branches of captures that somebody has written to, and that are theirs: nothing of ours may remove them."""

    tags: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """What somebody has tagged of captures."""

    log: list[str] = field(default_factory=list)
    number: int = 0

    def __post_init__(self) -> None:
        properties = dict(MERGING) if self.rng.random() < 0.7 else {}
        if self.rng.random() < 0.3:
            properties[MAX_REF_AGE] = "1"
        new_table(self.catalog, TABLE, format_version=self.rng.choice(["1", "2", "2"]), properties=properties)
        self.append()

    @property
    def table(self) -> Table:
        return self.catalog.load_table(TABLE)

    @property
    def head(self) -> int:
        snapshot = self.table.current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id

    def step(self) -> None:
        """Do one thing at random, and look whether all is there."""
        name = self.rng.choice(
            [
                *("append", "append", "delete", "overwrite", "compact", "rewrite_manifests", "rollback", "cherrypick"),
                *("capture", "capture", "capture", "capture_killed", "capture_raced", "drop", "drop_killed"),
                *("drop_by_hand", "expire", "expire", "expire", "expire_one", "expire_by_pyiceberg", "remove_orphans"),
                *("write_by_hand", "tag_by_hand"),
            ]
        )
        engine = self.rng.choice(self.engines)
        self.log.append(f"{name} ({engine.version})")
        getattr(self, name)(*([engine] if name in _BY_ENGINES else []))
        self.check()

    def append(self) -> None:
        before = self.rows.get(self.head, frozenset()) if self.rows else frozenset()
        self.number += 1
        self.rows[append(self.table, self.number)] = before | {self.number}

    def delete(self) -> None:
        rows = self.rows[self.head]
        if len(rows) > 1:
            chosen = self.rng.choice(sorted(rows))
            self.table.delete(f"id = {chosen}")
            self.rows[self.head] = rows - {chosen}

    def overwrite(self) -> None:
        rows = self.rows[self.head]
        chosen, self.number = self.rng.choice(sorted(rows)), self.number + 1
        table = self.table
        new = table.scan(f"id = {chosen}").to_arrow().set_column(0, "id", [[self.number]])
        table.overwrite(new.cast(table.schema().as_arrow()), overwrite_filter=f"id = {chosen}")
        self.rows[self.head] = (rows - {chosen}) | {self.number}

    def compact(self, engine: Release) -> None:
        self._unchanged(engine, "compact")

    def rewrite_manifests(self, engine: Release) -> None:
        self._unchanged(engine, "rewrite_manifests")

    def _unchanged(self, engine: Release, command: str) -> None:
        rows = self.rows[self.head]
        engine.run(command, TABLE)
        self.rows[self.head] = rows

    def rollback(self) -> None:
        ancestors = [s for s in self._ancestors() if s in self.rows][1:3]
        if ancestors:
            self.table.manage_snapshots().rollback_to_snapshot(self.rng.choice(ancestors)).commit()

    def _ancestors(self) -> list[int]:
        by_id = {s.snapshot_id: s for s in self.table.metadata.snapshots}
        found, current = [], by_id.get(self.head)
        while current is not None:
            found.append(current.snapshot_id)
            current = by_id.get(current.parent_snapshot_id or -1)
        return found

    def cherrypick(self, engine: Release) -> None:
        """Bring an append back that was rolled back."""
        line = self._ancestors()
        for snapshot in reversed(self.table.metadata.snapshots):
            at, parent = snapshot.snapshot_id, snapshot.parent_snapshot_id
            if at in self.rows and at not in line and parent in self.rows and snapshot.summary is not None:
                added, before = self.rows[at] - self.rows[parent], self.rows[self.head]
                was = self.head
                engine.run("cherrypick", TABLE, at)
                if self.head != was:
                    self.rows.setdefault(self.head, before | added)
                return

    def capture(self) -> None:
        since = self.rng.choice([None, *self._ancestors()])
        settings: dict[str, Any] = self.rng.choice(
            [{"on_other_operation": "skip"}, {"data_operations": ALL_OPERATIONS, "on_superset": "allow"}]
        )
        self.number += 1
        in_branch = {"mode": "BRANCH", "into": f"c{self.number}"}
        in_table = {"into": f"icdc.c{self.number}", "hold_source": True}
        mode: dict[str, Any] = self.rng.choice([in_branch, in_branch, in_table])
        try:
            record = capture(self.catalog, TABLE, since=since, **mode, **settings)
        except IpsError as error:
            self.log.append(f"  refused: {type(error).__name__}")
            return
        for name, branch in (
            (record.icdc_table, record.captured_branch),
            (record.before_table, record.before_branch),
        ):
            if name is not None and branch is not None:
                held = str(CapturedBranch(TABLE, branch.branch))
                self.held[held] = self.read(branch.snapshot_id)
                self.tables |= {held: name} if name != held else {}
        if since is None and record.snapshot_id is not None:
            assert set(self.read(record.snapshot_id)) == self.rows[record.to_inclusive.snapshot_id or 0], (
                "rows are missing"
            )

    def capture_killed(self) -> None:
        setattr(self.catalog, self.rng.choice(["before_commit", "after_commit"]), kill)
        try:
            self.capture()
        except KilledError:
            self.log.append("  killed")
        self.catalog.before_commit = self.catalog.after_commit = None

    def capture_raced(self) -> None:
        """Something is done between the last look of the capture and its commit."""
        what = self.rng.choice(["append", "expire", "expire_by_pyiceberg", "delete", "compact"])
        engine = self.rng.choice(self.engines)
        self.catalog.before_commit = lambda: getattr(self, what)(*([engine] if what in _BY_ENGINES else []))
        self.log.append(f"  with {what}")
        self.capture()
        self.catalog.before_commit = None

    def drop(self) -> None:
        if self.held:
            name = self.rng.choice(sorted(self.held))
            if name in self.tables:
                drop_icdc(self.catalog, self.tables[name])  # False if what dropped it before was killed
            assert drop_icdc(self.catalog, name)
            del self.held[name]

    def drop_killed(self) -> None:
        setattr(self.catalog, self.rng.choice(["before_commit", "after_commit"]), kill)
        held = dict(self.held)
        try:
            self.drop()
        except KilledError:
            self.log.append("  killed")
        self.catalog.before_commit = self.catalog.after_commit = None
        there = self.table.metadata.refs
        self.held = {name: rows for name, rows in held.items() if _branch(name) in there}

    def drop_by_hand(self, engine: Release) -> None:
        if self.written:
            assert engine.run("drop_branch", TABLE, self.written.pop()) == ""
        elif self.held:
            name = self.rng.choice(sorted(self.held))
            assert engine.run("drop_branch", TABLE, _branch(name)) == ""
            del self.held[name]

    def write_by_hand(self) -> None:
        """Somebody writes into the branch of a capture: it is theirs from then on, and dropped sooner or later."""
        if self.held:
            name = self.rng.choice(sorted(self.held))
            table, self.number = self.table, self.number + 1
            what = self.rng.choice(["append", "delete", "overwrite"])
            if what == "append":
                table.append(rows_of(self.number), branch=_branch(name))
            elif what == "delete":
                table.delete(f"id >= {self.rng.choice(sorted(self.rows[self.head]))}", branch=_branch(name))
            else:
                table.overwrite(rows_of(self.number), branch=_branch(name))
            del self.held[name]
            self.written.append(_branch(name))

    def tag_by_hand(self) -> None:
        """Somebody tags what a capture holds, or drops the tag: the rows stay that long."""
        if self.tags:
            self.table.manage_snapshots().remove_tag(self.tags.popitem()[0]).commit()
        elif self.held:
            name = self.rng.choice(sorted(self.held))
            snapshot_id = self.table.metadata.refs[_branch(name)].snapshot_id
            self.table.manage_snapshots().create_tag(snapshot_id, f"t{snapshot_id}", max_ref_age_ms=2**63 - 1).commit()
            self.tags[f"t{snapshot_id}"] = self.held[name]

    def expire(self, engine: Release) -> None:
        failed = self._expired(engine, "expire", int(time.time() * 1000) + 1000)
        assert not failed, failed
        metadata = self.table.metadata
        heads = {ref.snapshot_id for ref in metadata.refs.values()}
        assert {s.snapshot_id for s in metadata.snapshots} == heads, "a capture holds older snapshots than its own"

    def expire_one(self, engine: Release) -> None:
        self._expired(engine, "expire_one", self.rng.choice([s.snapshot_id for s in self.table.metadata.snapshots]))

    def _expired(self, engine: Release, command: str, what: int) -> str:
        """Let an engine expire snapshots, and with them what the table's properties let expire of others' branches.

        PyIceberg clears what a capture has set on a branch when it writes to it, so that these properties are for it.
        """
        before = self.table.metadata
        failed = self._if_safe(engine).run(command, TABLE, what)
        if MAX_REF_AGE in before.properties:
            there = self.table.metadata.refs
            self.written = [name for name in self.written if name in there or before.refs[name].max_ref_age_ms]
        return failed

    def _if_safe(self, engine: Release) -> Release:
        """Another release where 1.8 and 1.9 take live files for reverted ones, with or without captures.

        That is where main's history has a gap, and no capture or tag is left: then these look at what can be reached.
        """
        has_gap = check_expiry(IcebergSource(self.table, TABLE, "main"), TABLE).status != "ok"
        keeps_another = any(ref.max_ref_age_ms for ref in self.table.metadata.refs.values())
        if not has_gap or keeps_another or engine.version not in UNSAFE:
            return engine
        self.log.append(f"  by {self.engines[-1].version}")
        return self.engines[-1]

    def expire_by_pyiceberg(self) -> None:
        heads = {ref.snapshot_id for ref in self.table.metadata.refs.values()}
        old = [s.snapshot_id for s in self.table.metadata.snapshots if s.snapshot_id not in heads]
        if old:
            self.table.maintenance.expire_snapshots().by_ids(
                self.rng.sample(old, self.rng.randint(1, len(old)))
            ).commit()

    def remove_orphans(self) -> None:
        """Delete whatever no snapshot reaches, without waiting for files that are being written."""
        table, reached = self.table, set()
        for snapshot in table.metadata.snapshots:
            reached.add(path_of(snapshot.manifest_list))
            for manifest in ManifestList(table.io, snapshot.manifest_list).all():
                reached.add(path_of(manifest.manifest_path))
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                reached |= {path_of(entry.data_file.file_path) for entry in entries}
        for file in files_under(table.location()):
            if Path(file) not in reached and ".metadata.json" not in file:
                Path(file).unlink()

    def read(self, snapshot_id: int | None = None) -> tuple[int, ...]:
        """All ids, sorted."""
        return tuple(sorted(self.table.scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist()))

    def read_table(self, name: str) -> tuple[int, ...]:
        """All ids of an ICDC table, sorted."""
        return tuple(sorted(self.catalog.load_table(name).scan().to_arrow()["id"].to_pylist()))

    def check(self) -> None:
        """Hold the law."""
        missing = [
            task.file.file_path for task in self.table.scan().plan_files() if not path_of(task.file.file_path).exists()
        ]
        assert not missing, f"files of main are lost: {missing}"
        assert set(self.read()) == self.rows[self.head], "main has other rows"
        refs = self.table.metadata.refs
        assert refs.keys() >= set(self.written), "branches of others are lost"
        assert refs.keys() >= set(self.tags), "tags are lost"
        assert refs.keys() >= set(map(_branch, self.held)), "branches of captures are lost"
        for name, rows in self.held.items():
            if name in self.tables and self.catalog.table_exists(self.tables[name]):
                assert self.read_table(self.tables[name]) == rows, f"{self.tables[name]} has other rows"
            assert self.read(refs[_branch(name)].snapshot_id) == rows, f"{name} has other rows"
        for tag, rows in self.tags.items():
            assert self.read(refs[tag].snapshot_id) == rows, f"tag {tag} has other rows"


_BY_ENGINES = ("compact", "rewrite_manifests", "cherrypick", "drop_by_hand", "expire", "expire_one")


def _branch(name: str) -> str:
    found = CapturedBranch.parse(name)
    assert found is not None
    return found.branch


def play(folder: Path, seed: int, engines: Sequence[Release], steps: int) -> History:
    """One history on a catalog that exists; what was done is in the notes of the error if the law is broken."""
    catalog = catalog_in(folder)
    history = History(catalog, Random(seed), engines)  # noqa: S311 - it has to be repeatable
    try:
        for _ in range(steps):
            history.step()
    except Exception as error:
        error.add_note(f"seed {seed}: " + "; ".join(history.log))
        raise
    return history


def catalog_in(folder: Path) -> RacedCatalog:
    """The catalog in a folder, without the table."""
    places = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    catalog = RacedCatalog("lake", **places)
    for table in [TABLE, *(catalog.list_tables("icdc") if catalog.namespace_exists("icdc") else ())]:
        if catalog.table_exists(table):
            catalog.drop_table(table)
    return catalog


def loses_files_to_leases_of_engines(folder: Path, engine: Release, kind: str = "branch") -> bool:
    """Whether main loses live files when an engine expires a reference before main in a hash map, here ``a``."""
    table = new_table(catalog_in(folder), TABLE, properties=MERGING)
    first = append(table, 1)
    manage = table.manage_snapshots()
    (manage.create_tag if kind == "tag" else manage.create_branch)(first, "a").commit()
    for number in range(2, 8):
        append(table, number)
    assert not engine.run("lease_by_engine", TABLE, "a")
    live = [path_of(task.file.file_path) for task in table.refresh().scan().plan_files()]
    assert not engine.run("expire", TABLE, int(time.time() * 1000) + 1000)
    return not all(path.exists() for path in live)


def loses_files_to_gaps(folder: Path, engine: Release, expires: str, *, has_tag: bool = False) -> bool:
    """Whether main loses live files when an engine expires snapshots, and main's history has a gap.

    An older snapshot was kept meanwhile, and manifests were rewritten: no branch or capture has a part in it. The
    doctor warns of the gap, if one of these releases has written.

    :param expires: who has made the gap: "java" or "pyiceberg"
    :param has_tag: whether a tag is on the newest snapshot when the engine expires the others
    """
    table = new_table(catalog_in(folder), TABLE)
    ids = [append(table, number) for number in range(1, 5)]
    if expires == "java":
        assert not engine.run("expire_one", TABLE, ids[1])
    else:
        table.refresh().maintenance.expire_snapshots().by_id(ids[1]).commit()
    assert not engine.run("rewrite_manifests", TABLE)
    warned = check_expiry(IcebergSource(table.refresh(), TABLE, "main"), TABLE)
    assert (warned.status == "warning") is (engine.version in UNSAFE), warned
    if has_tag:
        table.refresh().manage_snapshots().create_tag(head(table), "keeps").commit()
    live = [path_of(task.file.file_path) for task in table.refresh().scan().plan_files()]
    assert not engine.run("expire", TABLE, int(time.time() * 1000) + 1000)
    return not all(path.exists() for path in live)
