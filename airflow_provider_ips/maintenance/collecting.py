"""The verb gc: ICDC tables that no checkpoint needs, and files that no table names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.errors import CheckpointError, InputError, StoreUnavailableError
from airflow_provider_ips.core.positions import format_time
from airflow_provider_ips.maintenance.desk import may_go_on, now_ms, open_catalog, open_stores

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.checkpoints.iceberg import IcebergStore
    from airflow_provider_ips.core.checkpoint import Checkpoint
    from airflow_provider_ips.core.store import CheckpointStore
    from airflow_provider_ips.iceberg.folders import StoredFile
    from airflow_provider_ips.iceberg.garbage import IcdcFound
    from airflow_provider_ips.maintenance.desk import Desk, Row

DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """What may go, and what stays although no checkpoint names it, with the reason."""

    tables: tuple[IcdcFound, ...]
    files: tuple[tuple[Catalog, StoredFile], ...]
    kept: tuple[tuple[IcdcFound, str], ...]

    @property
    def is_empty(self) -> bool:
        """Nothing may go."""
        return not self.tables and not self.files


def gc(desk: Desk, args: Namespace) -> None:
    """Drop ICDC tables, and delete metadata files of captures, that are old and that nobody needs."""
    catalog, namespace = open_catalog(args), args.namespace or _configured_namespace()
    before_ms = now_ms() - _age_ms(args.older_than_days)
    stores = list(open_stores(desk, args).values())
    found = find_garbage(
        catalog, namespace, stores, before_ms=before_ms, location=args.location, gone=args.gone_consumers
    )
    desk.show([*_table_rows(found), *_file_rows(found)])
    if found.is_empty:
        desk.say("Nothing to collect.")
        return
    desk.say(f"{len(found.tables)} ICDC tables and {len(found.files)} files may go; no data file is among them.")
    if may_go_on(desk, args, namespace, what="the ICDC namespace"):
        tables, files = collect(catalog, found)
        desk.say(f"Dropped {tables} tables and deleted {files} files.")


def find_garbage(
    catalog: Catalog,
    namespace: str,
    stores: Sequence[CheckpointStore],
    *,
    before_ms: int,
    location: str | None = None,
    gone: bool = False,
) -> Garbage:
    """Judge every ICDC table by the checkpoint of its consumer, read from every store, after the table was seen.

    In this order nothing that begins meanwhile is taken for garbage: its table is not among those seen, or its
    checkpoint names it.
    """
    from airflow_provider_ips.checkpoints.log_files import find_log_leftovers
    from airflow_provider_ips.iceberg.garbage import find_icdc, find_leftovers

    tables = find_icdc(catalog, namespace)
    leftovers = (
        *((catalog, file) for file in find_leftovers(catalog, namespace, tables, location)),
        *((logs.catalog, file) for logs in _logs(stores) for file in find_log_leftovers(logs)),
    )
    needed = {consumer: _needed(stores, consumer) for consumer in {table.consumer for table in tables}}
    reasons = [(table, _reason_to_stay(table, needed[table.consumer], before_ms, gone=gone)) for table in tables]
    return Garbage(
        tables=tuple(table for table, reason in reasons if not reason),
        files=tuple(
            (owner, file)
            for owner, file in leftovers
            if file.changed_at_ms is not None and file.changed_at_ms < before_ms
        ),
        kept=tuple((table, reason) for table, reason in reasons if reason),
    )


def collect(catalog: Catalog, garbage: Garbage) -> tuple[int, int]:
    """Drop and delete, never purging. What is gone already is no error."""
    from airflow_provider_ips.iceberg import drop_icdc
    from airflow_provider_ips.iceberg.garbage import delete_leftover

    dropped = sum(drop_icdc(catalog, table.name) for table in garbage.tables)
    for owner, file in garbage.files:
        delete_leftover(owner, file)
    return dropped, len(garbage.files)


def _logs(stores: Sequence[CheckpointStore]) -> list[IcebergStore]:
    from airflow_provider_ips.checkpoints.iceberg import IcebergStore

    return [store for store in stores if isinstance(store, IcebergStore)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Needed:
    """What the checkpoints of one consumer name."""

    is_known: bool = False
    tables: frozenset[str] = frozenset()
    problem: str = ""


def _needed(stores: Sequence[CheckpointStore], consumer: str) -> _Needed:
    known, tables = False, set[str]()
    for store in stores:
        try:
            checkpoint = store.read(consumer, even_if_moved=True)
        except StoreUnavailableError:
            raise  # what it holds is unknown, and an outage ends
        except CheckpointError as error:
            return _Needed(problem=f"its consumer's checkpoint cannot be read: {error.problem}")
        if checkpoint is not None:
            known = True
            tables.update(_named_by(checkpoint))
    return _Needed(is_known=known, tables=frozenset(tables))


def _named_by(checkpoint: Checkpoint) -> Iterator[str]:
    """Pending, retained, and of the newest capture, whose job may be cleared and run again."""
    yield from checkpoint.retained
    if checkpoint.pending is not None:
        yield from checkpoint.pending.icdc_tables
    wrote = [capture for capture in checkpoint.history if capture.wrote]
    if wrote:
        yield from wrote[-1].icdc_tables


def _reason_to_stay(table: IcdcFound, needed: _Needed, before_ms: int, *, gone: bool) -> str:
    if needed.problem:
        return needed.problem
    if table.name in needed.tables:
        return "a checkpoint names it"
    if table.made_at_ms >= before_ms:
        return "not old enough"
    if not needed.is_known and not gone:
        return "its consumer has no checkpoint here; if it is nobody else's either, --gone-consumers takes it"
    return ""


def _age_ms(days: float) -> int:
    if days < 0:
        raise InputError(
            f"--older-than-days {days} is negative",
            consequence="What is being captured at this moment would count as old",
            remedy="give a number of days from 0 on; a capture must not take longer than that",
        )
    return int(days * DAY_MS)


def _configured_namespace() -> str:
    from airflow_provider_ips.operators._context import configured_namespace

    return configured_namespace()


def _table_rows(found: Garbage) -> list[Row]:
    judged: list[tuple[IcdcFound, str]] = [*((table, "") for table in found.tables), *found.kept]
    return [
        {
            "what": "table",
            "name": table.name,
            "consumer": table.consumer,
            "made_at": format_time(table.made_at_ms),
            "goes": "no" if reason else "yes",
            "reason": reason or "no checkpoint names it",
        }
        for table, reason in judged
    ]


def _file_rows(found: Garbage) -> list[Row]:
    """One row per folder: a died capture of a wide table leaves thousands of files."""
    folders: dict[str, list[StoredFile]] = {}
    for _, file in found.files:
        folders.setdefault(file.location.rpartition("/")[0], []).append(file)
    return [_file_row(folder, files) for folder, files in folders.items()]


def _file_row(folder: str, files: Sequence[StoredFile]) -> Row:
    newest = max(file.changed_at_ms or 0 for file in files)
    return {
        "what": f"{len(files)} files",
        "name": folder,
        "consumer": None,
        "made_at": format_time(newest),
        "goes": "yes",
        "reason": "no table names them",
    }
