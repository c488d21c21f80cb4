"""The errors that this package raises on purpose.

IpsError                        the root; always says what happened, why it matters, and what to do
├── InputError                  a parameter, identifier or filter that cannot be right
├── UnsupportedVersionError     a version of Airflow, of a provider or of PyIceberg without what is needed
├── SourceError                 the source table cannot be captured as it is
│   ├── RefusedOperationError   a snapshot of the range changes rows and the settings refuse that
│   ├── GapError                the checkpoint is not in the source's lineage
│   └── UnsupportedTableError   a table feature that would make a capture wrong
├── CheckpointError             the checkpoint cannot be read, trusted or moved
│   ├── DamagedCheckpointError  the document is not what was written
│   ├── CheckpointConflictError another run or writer got there first
│   │   └── ActiveRunError      … and is still running
│   └── StoreUnavailableError   the store did not answer, so it is not known whether there is a checkpoint
├── EvidenceError               a commit without proof that the work between capture and commit succeeded
└── CatalogError                the catalog or the storage refused or failed
    └── IcdcConflictError       the ICDC table's name is taken by something that is not this capture
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class IpsError(Exception):
    """What happened, why it matters, and what to do about it, in that order."""

    is_permanent: ClassVar[bool] = True
    """Whether the same task would fail in the same way again, until someone does something about it."""

    def __init__(self, problem: str, *, consequence: str = "", remedy: str = "") -> None:
        self.problem = problem
        self.consequence = consequence
        self.remedy = remedy
        super().__init__(problem, consequence, remedy)

    def __str__(self) -> str:
        """A line for each, because Airflow's log viewer shows only the beginning of a long line."""
        parts = [self.problem.rstrip(".") + "."]
        if self.consequence:
            parts.append(self.consequence.rstrip(".") + ".")
        if self.remedy:
            parts.append("What to do: " + self.remedy.rstrip(".") + ".")
        return "\n".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the keyword-only arguments too, which exceptions do not do on their own."""
        return (_rebuild, (type(self), self.problem, self.consequence, self.remedy))


def _rebuild(cls: type[IpsError], problem: str, consequence: str, remedy: str) -> IpsError:
    return cls(problem, consequence=consequence, remedy=remedy)


class InputError(IpsError):
    """A parameter, identifier or filter that cannot be right."""


def unknown_choice(name: str, value: object, choices: Iterable[object], *, consequence: str) -> InputError:
    """The error for a value that is not among the choices."""
    return InputError(
        f"{name}={value!r} is unknown", consequence=consequence, remedy=f"use {' or '.join(map(repr, choices))}"
    )


class UnsupportedVersionError(IpsError):
    """A version of Airflow, of a provider or of PyIceberg without what is needed."""


class SourceError(IpsError):
    """The source table cannot be captured as it is."""


class RefusedOperationError(SourceError):
    """A snapshot of the range changes rows, and the settings refuse that."""


class GapError(SourceError):
    """The checkpoint is not in the source's lineage."""


class UnsupportedTableError(SourceError):
    """A table feature that would make a capture wrong."""


class CheckpointError(IpsError):
    """The checkpoint cannot be read, trusted or moved."""


class DamagedCheckpointError(CheckpointError):
    """The document is not what was written."""


class CheckpointConflictError(CheckpointError):
    """Another run or writer got there first."""


class ActiveRunError(CheckpointConflictError):
    """Another run or writer got there first, and is still running: once it has ended, this one can begin."""

    is_permanent = False


class StoreUnavailableError(CheckpointError):
    """The store did not answer, so it is not known whether there is a checkpoint."""

    is_permanent = False


class EvidenceError(IpsError):
    """A commit without proof that the work between capture and commit succeeded."""


class CatalogError(IpsError):
    """The catalog or the storage refused or failed."""

    is_permanent = False


class IcdcConflictError(CatalogError):
    """The ICDC table's name is taken by something that is not this capture."""

    is_permanent = True
