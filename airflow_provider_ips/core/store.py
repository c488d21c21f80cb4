"""Where checkpoints live."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from airflow_provider_ips.core.checkpoint import Checkpoint
from airflow_provider_ips.core.errors import CheckpointConflictError

if TYPE_CHECKING:
    from collections.abc import Sequence


class CheckpointStore(Protocol):
    """Reads and writes whole documents, one per consumer."""

    def read(self, consumer: str, *, even_if_moved: bool = False) -> Checkpoint | None:
        """Return the checkpoint, or None if its absence is proven. An outage is StoreUnavailableError, never None.

        One that has moved to another store is an error, unless it is asked for.
        """
        ...

    def write(self, checkpoint: Checkpoint, *, expected_revision: int | None) -> None:
        """Write, unless the stored revision is another (None: no document), and make sure that it can be read back."""
        ...

    def consumers(self) -> Sequence[str]:
        """Name all consumers that have a checkpoint."""
        ...


@dataclass(slots=True)
class InMemoryStore:
    """Checkpoints that end with the process: for tests of your own DAG logic, and for a dry run."""

    documents: dict[str, str] = field(default_factory=dict)

    def read(self, consumer: str, *, even_if_moved: bool = False) -> Checkpoint | None:
        text = self.documents.get(consumer)
        return None if text is None else Checkpoint.parse(text, consumer=consumer, even_if_moved=even_if_moved)

    def write(self, checkpoint: Checkpoint, *, expected_revision: int | None) -> None:
        refuse_conflict(self.read(checkpoint.consumer, even_if_moved=True), checkpoint, expected_revision)
        self.documents[checkpoint.consumer] = checkpoint.to_text()

    def consumers(self) -> Sequence[str]:
        return sorted(self.documents)


def refuse_conflict(stored: Checkpoint | None, new: Checkpoint, expected_revision: int | None) -> None:
    """Refuse to write over a document that is not the one the writer has read."""
    found = None if stored is None else stored.revision
    if found != expected_revision:
        raise write_conflict(new, f"stands at {_shown(found)}, not at {_shown(expected_revision)} as when it was read")


def write_conflict(new: Checkpoint, what: str) -> CheckpointConflictError:
    """Somebody else wrote."""
    return CheckpointConflictError(
        f"the checkpoint of consumer {new.consumer!r} {what}",
        consequence=f"Another run or a command wrote it meanwhile; revision {new.revision} was not written over that",
        remedy="let the task run again; if two DAGs share this consumer, give each a consumer of its own",
    )


def _shown(revision: int | None) -> str:
    return "no document" if revision is None else f"revision {revision}"
