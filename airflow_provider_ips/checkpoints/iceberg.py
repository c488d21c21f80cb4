"""Keeps checkpoints in Iceberg: one small log table per consumer, written by the catalog's own compare-and-set.

Any number of Airflow deployments may share it. This module imports no Airflow.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)

from airflow_provider_ips.checkpoints.log_table import (
    DOCUMENT,
    LOG_NAME,
    OWNER,
    append_entry,
    create_log,
    entries,
    has_lost_its_head,
    head_entry,
    log_name,
)
from airflow_provider_ips.config import CHECKPOINT_NAMESPACE
from airflow_provider_ips.core.checkpoint.document import Checkpoint, refuse_conflict, write_conflict
from airflow_provider_ips.core.checkpoint.store import NameFilter, StoredDocument, every_name
from airflow_provider_ips.core.errors import DamagedCheckpointError, StoreUnavailableError
from airflow_provider_ips.core.identifiers import namespace_levels
from airflow_provider_ips.iceberg.foreign_errors import foreign_errors
from airflow_provider_ips.redaction import cause_without_secrets, redacted_message

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class IcebergStore:
    """A :class:`~airflow_provider_ips.core.checkpoint.store.CheckpointStore` in an Iceberg catalog."""

    catalog: Catalog
    namespace: str = CHECKPOINT_NAMESPACE.default

    def __post_init__(self) -> None:
        """Refuse a namespace that some catalogs would read as another one."""
        lost = "Checkpoints could neither be found nor written"
        namespace_levels("checkpoint_namespace", self.namespace, consequence=lost, example=CHECKPOINT_NAMESPACE.default)

    def read(self, consumer: str, *, even_if_moved: bool = False) -> Checkpoint | None:
        table = self._load(consumer)
        return None if table is None else self._parse(table, consumer, even_if_moved=even_if_moved)

    def write(self, checkpoint: Checkpoint, *, expected_revision: int | None) -> None:
        consumer = checkpoint.consumer
        table = self._load(consumer)
        before = None if table is None else self._parse(table, consumer, even_if_moved=True)
        refuse_conflict(before, checkpoint, expected_revision)
        if table is None:
            table = self._create(consumer)
            found = self._parse(table, consumer, even_if_moved=True)  # another writer may have created it
            refuse_conflict(found, checkpoint, expected_revision)
        write_id, failure = secrets.token_hex(16), None
        try:
            append_entry(table, checkpoint.to_text(), checkpoint.revision, write_id=write_id)
        except foreign_errors() as error:
            failure = error
        self._settle(checkpoint, write_id, table, failure)

    def consumers(self, *, is_wanted: NameFilter = every_name) -> Sequence[str]:
        return sorted(consumer for _, consumer, _ in self.documents(is_wanted) if consumer is not None)

    def documents(self, is_wanted: NameFilter = every_name) -> Iterator[StoredDocument]:
        """Load each log table once."""
        for name in self._names():
            if not is_wanted(*name.rsplit("_", 1)):
                continue
            with self.mapping_errors(f"checkpoint log {self.namespace}.{name} could not be read"):
                try:
                    table = self.catalog.load_table((*self.levels, name))
                except NoSuchTableError:
                    continue
            owner = table.metadata.properties.get(OWNER)
            if owner is None or log_name(owner) == name:
                yield f"table {self.namespace}.{name}", owner, partial(self._parse, table, owner or "")

    def table_name(self, consumer: str) -> str:
        """Return the name of a consumer's log table, for messages."""
        return f"{self.namespace}.{log_name(consumer)}"

    def logs(self) -> list[Table]:
        return [log for consumer in self.consumers() if (log := self._load(consumer)) is not None]

    @property
    def levels(self) -> tuple[str, ...]:
        """The parts of the namespace's name."""
        return tuple(self.namespace.split("."))

    def _load(self, consumer: str) -> Table | None:
        """Load a log. A list proves its absence: at a wrong address a catalog says "not found" to everything."""
        name = log_name(consumer)
        with self.mapping_errors(f"the checkpoint of consumer {consumer!r} could not be read"):
            try:
                return self.catalog.load_table((*self.levels, name))
            except (NoSuchTableError, NoSuchNamespaceError):
                if name not in self._names():
                    return None
                return self.catalog.load_table((*self.levels, name))  # created meanwhile, unless this fails too

    def _names(self) -> list[str]:
        return [name for name in self.names() if LOG_NAME.fullmatch(name)]

    def names(self) -> list[str]:
        """List all tables of the namespace, the logs among them."""
        with self.mapping_errors(f"namespace {self.namespace!r} could not be listed"):
            try:
                found = self.catalog.list_tables(self.levels)
            except NoSuchNamespaceError:
                if not self._namespace_is_listed():
                    return []
                found = self.catalog.list_tables(self.levels)  # created meanwhile, unless this fails too
        return sorted(name[-1] for name in found)

    def _namespace_is_listed(self) -> bool:
        depths = range(1, len(self.levels) + 1)
        return all(self.levels[:n] in self.catalog.list_namespaces(self.levels[: n - 1]) for n in depths)

    def make_namespace(self) -> None:
        """Create the namespace. If two writers do so at once, one of them gets an error that depends on the catalog."""
        try:
            self.catalog.create_namespace(self.levels)
        except foreign_errors():
            if not self._namespace_is_listed():
                raise

    def _create(self, consumer: str) -> Table:
        identifier = (*self.levels, log_name(consumer))
        with self.mapping_errors(f"the checkpoint log {'.'.join(identifier)} could not be created"):
            self.make_namespace()
            try:
                return create_log(self.catalog, identifier, consumer)
            except TableAlreadyExistsError:
                return self.catalog.load_table(identifier)

    def _parse(self, table: Table, consumer: str, *, even_if_moved: bool = False) -> Checkpoint | None:
        where = self.table_name(consumer)
        if (owner := table.metadata.properties.get(OWNER)) != consumer:
            raise _damaged(consumer, where, f"is in a table that is not its log (property {OWNER!r} is {owner!r})")
        head, retained = head_entry(table), entries(table)
        if head is None:
            if has_lost_its_head(table):
                raise _damaged(consumer, where, "was lost: its log had snapshots and has no current one")
            return None
        newest = max(retained, key=lambda entry: -1 if entry.revision is None else entry.revision)
        if head.text is None or head.revision is None:
            raise _damaged(consumer, where, f"is hidden by snapshot {head.snapshot_id}, which another program wrote")
        if newest.revision is not None and newest.revision > head.revision:
            raise _damaged(
                consumer,
                where,
                f"was rolled back from revision {newest.revision} (snapshot {newest.snapshot_id}) to {head.revision}",
            )
        try:
            return Checkpoint.parse(head.text, consumer=consumer, even_if_moved=even_if_moved)
        except DamagedCheckpointError as damage:
            raise _damaged(consumer, where, damage.problem.partition(f"{consumer!r} ")[2]) from damage

    def _settle(self, written: Checkpoint, write_id: str, before: Table, failure: Exception | None) -> None:
        """Find out whether a write took effect: its response may be lost after the commit, so read it."""
        after = self._load(written.consumer)
        retained = [] if after is None else entries(after)
        mine = next((entry for entry in retained if entry.write_id == write_id), None)
        if mine is not None and mine.text == written.to_text():
            return
        unchanged = after is not None and after.metadata.current_snapshot_id == before.metadata.current_snapshot_id
        if not unchanged or isinstance(failure, CommitFailedException):
            raise write_conflict(written, "was written by another process at the same time") from cause_without_secrets(
                failure
            )
        raise StoreUnavailableError(
            f"the checkpoint of consumer {written.consumer!r} could not be written to "
            f"{self.table_name(written.consumer)}: "
            f"{'no error, no snapshot' if failure is None else redacted_message(failure)}",
            consequence="The checkpoint is unchanged, and nothing is lost",
            remedy="check that the catalog answers and that the connection may commit there; then run the task again",
        ) from cause_without_secrets(failure)

    @contextmanager
    def mapping_errors(self, problem: str) -> Iterator[None]:
        """Report whatever the catalog or the storage raises as an outage: it must not be read as absence."""
        try:
            yield
        except foreign_errors() as error:
            raise StoreUnavailableError(
                f"{problem}: {redacted_message(error)}",
                consequence="The position is unknown, and treating the consumer as new would process everything again",
                remedy=f"check that catalog {self.catalog.name!r} answers and that the connection may read and create "
                f"tables in namespace {self.namespace!r}; then let the task run again",
            ) from cause_without_secrets(error)


def _damaged(consumer: str, where: str, what: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(
        f"the checkpoint of consumer {consumer!r} {what} ({where})",
        consequence="Nothing was captured or overwritten: guessing a position would lose or repeat data",
        remedy=f"the documents are in the summaries of {where}.snapshots under {DOCUMENT!r}: make the right "
        "snapshot the current one again (in Spark, CALL system.set_current_snapshot); or drop that table, and set the "
        f"position again with `airflow ips seed --consumer {consumer} …`",
    )
