"""Where a verb is spoken: on a server's command line, or in a task. It knows who asks, and how to answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from airflow_provider_ips.checkpoints.opening import STORES, open_iceberg_store, open_named_store
from airflow_provider_ips.core.administration import noted
from airflow_provider_ips.core.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Collection, Sequence

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.checkpoints.access import VariableAccess
    from airflow_provider_ips.checkpoints.iceberg import IcebergStore
    from airflow_provider_ips.checkpoints.variable import VariableStore
    from airflow_provider_ips.core.checkpoint import Checkpoint
    from airflow_provider_ips.core.store import CheckpointStore

Row = dict[str, str | int | None]


class Desk(Protocol):
    """Who asks, and how they are answered."""

    @property
    def who(self) -> str:
        """The person behind it, as the platform knows them."""
        ...

    @property
    def variables(self) -> VariableAccess:
        """How Variables are reached from here."""
        ...

    def say(self, text: str) -> None:
        """Tell something beside the result."""
        ...

    def show(self, rows: Sequence[Row]) -> None:
        """Give the result."""
        ...

    def who_shadows(self, key: str, /) -> str | None:
        """Name the secrets backend that holds a Variable too; "" if none does, None if it cannot be told."""
        ...

    def schedule_gap_ms(self, dag_id: str, /) -> int | None:
        """The longest time between two of a DAG's next runs; None without a schedule by time."""
        ...

    def on_other_operation(self, dag_id: str, consumer: str, /) -> str | None:
        """What the capture of that consumer says in its DAG; None if it is not found."""
        ...

    def targets_of(self, dag_id: str, consumer: str, /, *, changed: bool = False) -> Collection[str] | None:
        """The tables (``db.t@branch``) that the commit of a consumer's capture declares; None if it cannot be told.

        With ``changed`` only those of which it says that its job changes rows.
        """
        ...

    def ask_for(self, word: str, *, what: str) -> str:
        """Have a word typed, and return what was typed."""
        ...


def open_store(desk: Desk, args: Namespace) -> VariableStore | IcebergStore:
    """Open the store that ``--store`` names, or the configured one."""
    return open_named_store(args.store, iceberg_conn_id=args.conn_id, variables=desk.variables)


def open_stores(desk: Desk, args: Namespace) -> dict[str, VariableStore | IcebergStore]:
    """Open both stores, by name."""
    return {
        name: open_iceberg_store(args.conn_id)
        if name == "iceberg"
        else open_named_store(name, iceberg_conn_id=args.conn_id, variables=desk.variables)
        for name in STORES
    }


def open_catalog(args: Namespace) -> Catalog:
    """Open the catalog behind ``--conn-id``."""
    from airflow_provider_ips.hooks.ips import IpsHook

    return IpsHook(args.conn_id).catalog


def existing(store: CheckpointStore, consumer: str) -> Checkpoint:
    """Read a checkpoint that has to be there."""
    checkpoint = store.read(consumer)
    if checkpoint is None:
        raise InputError(
            f"consumer {consumer!r} has no checkpoint",
            consequence="It has never captured here, or under another name",
            remedy="see the names that there are with `airflow ips list`",
        )
    return checkpoint


def write_noted(
    desk: Desk, store: CheckpointStore, before: Checkpoint | None, after: Checkpoint, verb: str
) -> Checkpoint:
    """Write over what was read, and note in the document who did it."""
    changed = noted(after, who=desk.who, verb=verb, now_ms=now_ms())
    store.write(changed, expected_revision=None if before is None else before.revision)
    return changed


def may_go_on(desk: Desk, args: Namespace, word: str, *, what: str) -> bool:
    """Ask before something is changed. A word and not a letter: what was moved by mistake shows up days later."""
    if args.dry_run:
        desk.say("Dry run: nothing was written.")
        return False
    if not args.yes and desk.ask_for(word, what=what).strip() != word:
        raise InputError(
            "not confirmed",
            consequence="Nothing was written",
            remedy=f"type {what} when asked, or use --yes",
        )
    return True


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000
