"""What a store of checkpoints guarantees, and one in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from airflow_provider_ips.core.checkpoint.document import Checkpoint, refuse_conflict
from airflow_provider_ips.core.identifiers import name_digest, readable

NameFilter = Callable[[str, str], bool]
"""Chooses documents by what the names of their places show of the consumer: a readable part, which may be cut or empty,
and its digest."""


StoredDocument = tuple[str, str | None, Callable[[], Checkpoint | None]]
"""The place of a document, its consumer, or None if it does not say, and how to parse what was read there."""


def every_name(readable_part: str, digest_of_consumer: str) -> bool:  # noqa: ARG001 - a NameFilter
    """Want every document."""
    return True


class CheckpointStore(Protocol):
    """Reads and writes the checkpoint of each consumer as a whole."""

    def read(self, consumer: str, *, even_if_moved: bool = False) -> Checkpoint | None:
        """Return the checkpoint, or None if its absence is proven. An outage is StoreUnavailableError, never None.

        A checkpoint that has moved to another store is an error, unless ``even_if_moved`` is set.
        """
        ...

    def write(self, checkpoint: Checkpoint, *, expected_revision: int | None) -> None:
        """Write if the stored revision is the expected one (None: no document), and read back what was written."""
        ...

    def consumers(self, *, is_wanted: NameFilter = every_name) -> Sequence[str]:
        """Name all consumers that have a checkpoint. Documents of others than the wanted ones are not read."""
        ...


def write_over(store: CheckpointStore, read: Checkpoint | None, changed: Checkpoint | None) -> None:
    """Write only over what was read: if another writer was faster, it is a conflict."""
    if changed is not None and changed is not read:
        store.write(changed, expected_revision=None if read is None else read.revision)


@dataclass(slots=True)
class InMemoryStore:
    """Checkpoints that last as long as the process: for tests of your own DAG logic, and for dry runs."""

    documents: dict[str, str] = field(default_factory=dict)

    def read(self, consumer: str, *, even_if_moved: bool = False) -> Checkpoint | None:
        text = self.documents.get(consumer)
        return None if text is None else Checkpoint.parse(text, consumer=consumer, even_if_moved=even_if_moved)

    def write(self, checkpoint: Checkpoint, *, expected_revision: int | None) -> None:
        refuse_conflict(self.read(checkpoint.consumer, even_if_moved=True), checkpoint, expected_revision)
        self.documents[checkpoint.consumer] = checkpoint.to_text()

    def consumers(self, *, is_wanted: NameFilter = every_name) -> Sequence[str]:
        return sorted(name for name in self.documents if is_wanted(readable(name, limit=len(name)), name_digest(name)))
