"""What every command uses: a console, common options, the stores and catalog that they name, and confirmation.

A command runs in a terminal on a server (`airflow ips`), or in a task (the maintenance DAG). A console has only what
both can answer. What only a server knows, `maintenance.server` looks up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from airflow_provider_ips import compat, sightings
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.manual_changes import with_intervention
from airflow_provider_ips.core.checkpoint.store import CheckpointStore
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import did_you_mean
from airflow_provider_ips.runs.environment import now_ms, open_named_store

if TYPE_CHECKING:
    from airflow_provider_ips.checkpoints.iceberg import IcebergStore
    from airflow_provider_ips.checkpoints.variable import VariableAccess, VariableStore

Row = dict[str, str | int | None]


class Console(Protocol):
    """Where a command runs: whose command it is, where its output goes, and how Variables are reached."""

    @property
    def user(self) -> str:
        """The name of the user who runs the command."""

    @property
    def variables(self) -> VariableAccess:
        """How this process reads and writes Variables."""

    def show(self, rows: Sequence[Row]) -> None:
        """Print the result."""

    @property
    def shows_documents(self) -> bool:
        """Whether a program reads the result, which then may be nested."""

    def show_document(self, document: Mapping[str, Any]) -> None:
        """Print a result that is not rows, for a program."""

    def say(self, text: str) -> None:
        """Print a remark, apart from the result."""

    def read_confirmation(self, word: str, *, what: str) -> str:
        """Ask the user to type a word, and return what was typed. ``what`` says what the word is."""


DEFAULT_CONN_ID: Final = "iceberg_default"


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """The Iceberg connection, through which tables and the Iceberg store are reached."""

    conn_id: str = DEFAULT_CONN_ID


@dataclass(frozen=True, kw_only=True)
class StoreOptions(ConnectionOptions):
    """A checkpoint store: ``"variable"``, ``"iceberg"``, or None for the configured one."""

    store: str | None = None


@dataclass(frozen=True, kw_only=True)
class ConsumerOptions(StoreOptions):
    """One consumer's checkpoint."""

    consumer: str


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """Whether to write, and whether to ask first."""

    dry_run: bool = True
    yes: bool = False


@dataclass(frozen=True, kw_only=True)
class ChangeOptions(ConsumerOptions, WriteOptions):
    """A change to one consumer's checkpoint."""


def open_store(console: Console, options: StoreOptions) -> VariableStore | IcebergStore:
    """Open the store that the options name, or the configured one."""
    return open_named_store(options.store, iceberg_conn_id=options.conn_id, variables=console.variables)


def open_stores(console: Console, options: ConnectionOptions) -> dict[str, VariableStore | IcebergStore]:
    """Open both stores, by name; below Airflow 3.3 there is one."""
    return {
        name: open_named_store(name, iceberg_conn_id=options.conn_id, variables=console.variables)
        for name in compat.USABLE_STORES
    }


def open_variable_store(console: Console) -> dict[str, VariableStore]:
    """Open the store in Variables, by its name: it needs no connection. Below Airflow 3.3 there is none."""
    from airflow_provider_ips.checkpoints.variable import VariableStore

    return {name: VariableStore(access=console.variables) for name in compat.USABLE_STORES if name == "variable"}


def read_existing(store: CheckpointStore, consumer: str) -> Checkpoint:
    """Read a checkpoint; its absence is an error."""
    checkpoint = store.read(consumer)
    if checkpoint is None:
        raise InputError(
            f"consumer {consumer!r} has no checkpoint",
            consequence="It has never captured, or its checkpoint is in another store or under another name",
            remedy=did_you_mean(consumer, store.consumers(), otherwise="list all consumers with `airflow ips list`"),
        )
    return checkpoint


def write_with_note(
    console: Console, store: CheckpointStore, before: Checkpoint | None, after: Checkpoint, command: str
) -> Checkpoint:
    """Write over the checkpoint that was read, and note in it who changed it by which command."""
    changed = with_intervention(after, who=console.user, verb=command, now_ms=now_ms())
    store.write(changed, expected_revision=None if before is None else before.revision)
    sightings.note_change_by_hand(console.variables, changed, now_ms=now_ms())
    return changed


def may_write(console: Console, options: WriteOptions, word: str, *, what: str) -> bool:
    """Whether to write: not in a dry run, and only if the user types the word or has given ``--yes``.

    A whole word rather than a letter, because a checkpoint that was moved by mistake is noticed days later.
    """
    if options.dry_run:
        console.say("Dry run: nothing was written.")
        return False
    if not options.yes and console.read_confirmation(word, what=what).strip() != word:
        raise InputError(
            "not confirmed",
            consequence="Nothing was written",
            remedy=f"type {what} to confirm, or use --yes",
        )
    return True
