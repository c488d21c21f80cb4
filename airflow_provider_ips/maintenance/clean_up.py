"""The command gc: deletes ICDC tables that no checkpoint needs, and metadata files that no table references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from airflow_provider_ips import config
from airflow_provider_ips.core.checkpoint.store import CheckpointStore
from airflow_provider_ips.core.errors import CheckpointError, InputError, StoreUnavailableError
from airflow_provider_ips.core.positions import format_time
from airflow_provider_ips.iceberg.branches.leases import FoundBranch
from airflow_provider_ips.iceberg.icdc.leftovers import FoundIcdcTable
from airflow_provider_ips.iceberg.storage.requests import StoredFile
from airflow_provider_ips.maintenance.console import (
    ConnectionOptions,
    Console,
    Row,
    WriteOptions,
    may_write,
    open_stores,
)
from airflow_provider_ips.maintenance.leases import held
from airflow_provider_ips.metrics import Measurement, send
from airflow_provider_ips.runs.environment import now_ms, open_catalog

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, kw_only=True)
class CleanUpOptions(ConnectionOptions, WriteOptions):
    """Which ICDC tables and files may be deleted."""

    older_than_days: float = 7.0
    without_checkpoint: bool = False
    namespace: str | None = None
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUpPlan:
    """The tables and files to delete, and the tables to keep, each with the reason."""

    tables: tuple[FoundIcdcTable, ...]
    files: tuple[tuple[Catalog, StoredFile], ...]
    kept: tuple[tuple[FoundIcdcTable, str], ...]
    branches: tuple[tuple[FoundBranch, str, bool], ...] = ()
    """The captures in branches of sources, each with the reason to keep or to remove it, and whether to remove it."""

    @property
    def is_empty(self) -> bool:
        return not self.tables and not self.files and not any(removed for _, _, removed in self.branches)


def gc(console: Console, options: CleanUpOptions) -> None:
    """Drop ICDC tables and delete metadata files of captures that are old and no longer needed."""
    catalog, namespace = open_catalog(options.conn_id), options.namespace or config.ICDC_NAMESPACE.read()
    plan = plan_clean_up(
        catalog,
        namespace,
        list(open_stores(console, options).values()),
        before_ms=now_ms() - _age_ms(options.older_than_days),
        location=options.location,
        without_checkpoint=options.without_checkpoint,
    )
    console.show([*_judged_rows(plan), *_file_rows(plan)])
    if plan.is_empty:
        console.say("Nothing to collect.")
        return
    ended = sum(removed for _, _, removed in plan.branches)
    branches = f", {ended} branches of sources" if ended else ""
    console.say(
        f"{len(plan.tables)} ICDC tables{branches} and {len(plan.files)} files can be deleted; none is a data file."
    )
    if may_write(console, options, namespace, what="the ICDC namespace"):
        tables, files = clean_up(catalog, plan)
        send((Measurement("ips.gc.tables", tables), Measurement("ips.gc.files", files)))
        console.say(f"Dropped {tables} tables and deleted {files} files.")


def plan_clean_up(
    catalog: Catalog,
    namespace: str,
    stores: Sequence[CheckpointStore],
    *,
    before_ms: int,
    location: str | None = None,
    without_checkpoint: bool = False,
) -> CleanUpPlan:
    """Judge every ICDC table by its consumer's checkpoint, which is read from every store after the tables are listed.

    In this order a capture that begins meanwhile is safe: either its table is not in the list, or its checkpoint names
    the table.
    """
    from airflow_provider_ips.checkpoints.iceberg import IcebergStore
    from airflow_provider_ips.checkpoints.log_table import find_log_leftovers
    from airflow_provider_ips.iceberg.icdc.leftovers import find_icdc_tables, find_leftovers

    tables = find_icdc_tables(catalog, namespace)
    leftovers = (
        *((catalog, file) for file in find_leftovers(catalog, namespace, tables, location)),
        *(
            (store.catalog, file)
            for store in stores
            if isinstance(store, IcebergStore)
            for file in find_log_leftovers(store.catalog, store.namespace, store.logs())
        ),
    )
    needed = {consumer: _needed_by(stores, consumer) for consumer in {table.consumer for table in tables}}
    reasons = [
        (table, _reason_to_keep(table, needed[table.consumer], before_ms, without_checkpoint=without_checkpoint))
        for table in tables
    ]
    return CleanUpPlan(
        tables=tuple(table for table, reason in reasons if not reason),
        files=tuple(
            (owner, file)
            for owner, file in leftovers
            if file.changed_at_ms is not None and file.changed_at_ms < before_ms
        ),
        kept=tuple((table, reason) for table, reason in reasons if reason),
        branches=tuple(_judged_branches(catalog, stores, before_ms)),
    )


def _judged_branches(
    catalog: Catalog, stores: Sequence[CheckpointStore], before_ms: int
) -> Iterator[tuple[FoundBranch, str, bool]]:
    """Judge the captures in branches of every source that a checkpoint names, before checkpoints are read again.

    A branch whose lease has ended is removed though its checkpoint names it: that is what the lease is for.
    """
    from airflow_provider_ips.iceberg.branches.leases import find_leases

    names = {consumer for store in stores for consumer in store.consumers()}
    tables = {table for consumer in names for table in _needed_by(stores, consumer).sources}
    found = [branch for table in sorted(tables) for branch in find_leases(catalog, table) or ()]
    needed = {consumer: _needed_by(stores, consumer) for consumer in {branch.consumer for branch in found}}
    for branch in found:
        by = needed[branch.consumer]
        if branch.held_until_ms < now_ms():
            yield branch, "its lease has ended", True
        elif by.problem or not by.has_checkpoint:
            yield branch, by.problem or "its consumer has no checkpoint here, and its lease has not ended", False
        elif branch.name in by.tables:
            yield branch, "a checkpoint names it", False
        elif branch.made_at_ms >= before_ms:
            yield branch, "not old enough", False
        else:
            yield branch, "no checkpoint names it", True


def clean_up(catalog: Catalog, plan: CleanUpPlan) -> tuple[int, int]:
    """Drop the tables without purging them, and delete the files. Those deleted meanwhile are skipped."""
    from airflow_provider_ips.iceberg.branches.branch import drop_icdc
    from airflow_provider_ips.iceberg.icdc.leftovers import delete_leftovers

    dropped = sum(drop_icdc(catalog, table.name) for table in plan.tables)
    dropped += sum(drop_icdc(catalog, branch.name) for branch, _, removed in plan.branches if removed)
    for owner, files in groupby(plan.files, key=itemgetter(0)):
        delete_leftovers(owner, [file for _, file in files])
    return dropped, len(plan.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Needed:
    """The tables that one consumer's checkpoints name."""

    has_checkpoint: bool = False
    tables: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    problem: str = ""


def _needed_by(stores: Sequence[CheckpointStore], consumer: str) -> _Needed:
    has_checkpoint, tables, sources = False, set[str](), set[str]()
    for store in stores:
        try:
            checkpoint = store.read(consumer, even_if_moved=True)
        except StoreUnavailableError:
            raise  # what it names is unknown until the outage ends
        except CheckpointError as error:
            return _Needed(problem=f"its consumer's checkpoint cannot be read: {error.problem}")
        if checkpoint is not None:
            has_checkpoint = True
            tables.update(checkpoint.needed_tables)
            sources.update(source.table for source in checkpoint.sources)
    return _Needed(has_checkpoint=has_checkpoint, tables=frozenset(tables), sources=frozenset(sources))


def _reason_to_keep(table: FoundIcdcTable, needed: _Needed, before_ms: int, *, without_checkpoint: bool) -> str:
    if needed.problem:
        return needed.problem
    if table.name in needed.tables:
        return "a checkpoint names it"
    if table.made_at_ms >= before_ms:
        return "not old enough"
    if not needed.has_checkpoint and not without_checkpoint:
        return "its consumer has no checkpoint here; --without-checkpoint drops it, if no other deployment needs it"
    return ""


def _age_ms(days: float) -> int:
    if days < 0:
        raise InputError(
            f"--older-than-days {days} is negative",
            consequence="ICDC tables of captures that are still running would count as old",
            remedy="give 0 or more days; a capture must not take longer than that",
        )
    return int(days * DAY_MS)


def _judged_rows(plan: CleanUpPlan) -> Iterator[Row]:
    """Make one row per table and branch."""
    for table, reason in (*((table, "") for table in plan.tables), *plan.kept):
        yield _row("table", table, reason or "no checkpoint names it", is_deleted=not reason)
    for branch, reason, removed in plan.branches:
        yield _row("branch", branch, f"{reason}; {held(branch)}", is_deleted=removed)


def _row(what: str, found: FoundIcdcTable | FoundBranch, reason: str, *, is_deleted: bool) -> Row:
    return {
        "what": what,
        "name": found.name,
        "consumer": found.consumer,
        "created_at": format_time(found.made_at_ms),
        "delete": "yes" if is_deleted else "no",
        "reason": reason,
    }


def _file_rows(plan: CleanUpPlan) -> list[Row]:
    """Make one row per folder: a capture of a wide table that died leaves thousands of files."""
    folders: dict[str, list[StoredFile]] = {}
    for _, file in plan.files:
        folders.setdefault(file.location.rpartition("/")[0], []).append(file)
    return [
        {
            "what": f"{len(files)} files",
            "name": folder,
            "consumer": None,
            "created_at": format_time(max(file.changed_at_ms or 0 for file in files)),
            "delete": "yes",
            "reason": "no table references them",
        }
        for folder, files in folders.items()
    ]
