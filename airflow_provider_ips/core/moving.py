"""Moving a checkpoint from one store to another, so that at no moment two stores hold one that can be used.

First the document is marked as moved where it was, with all that it holds; from then on nobody can capture or commit by
it. Then it is written where it goes. A move that dies in between is completed by the same command.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import CheckpointConflictError, InputError

if TYPE_CHECKING:
    from airflow_provider_ips.core.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The documents to write, in this order; None where a move that died has written it already."""

    leave: Checkpoint | None
    arrive: Checkpoint


def plan_move(consumer: str, here: Checkpoint | None, there: Checkpoint | None, *, to: str) -> Move:
    """Plan the move of what is ``here`` to the store named ``to``, which holds ``there``."""
    if here is None:
        raise InputError(
            f"consumer {consumer!r} has no checkpoint in the store that it is to leave",
            consequence="There is nothing to move",
            remedy="see the names that there are with `airflow ips list`",
        )
    if there is not None and there.moved_to is None:
        raise _is_there(consumer, here, to)
    if here.moved_to not in (None, to):
        raise InputError(
            f"the checkpoint of consumer {consumer!r} was moved to {here.moved_to!r}, not to {to!r}",
            consequence="What is left here may be out of date",
            remedy=f"move it from there: `airflow ips move --consumer {consumer} --to {to}`",
        )
    left = here if here.moved_to else replace(here, revision=here.revision + 1, moved_to=to)
    revision = max(left.revision, 0 if there is None else there.revision) + 1
    return Move(
        leave=None if left is here else left,
        arrive=replace(left, revision=revision, moved_to=None),
    )


def _is_there(consumer: str, here: Checkpoint, to: str) -> CheckpointConflictError:
    done = here.moved_to == to
    return CheckpointConflictError(
        f"consumer {consumer!r} has a checkpoint in the store {to!r} already",
        consequence="It was moved before"
        if done
        else "One of the two would be overwritten, and which is right is unknown",
        remedy="nothing is left to do"
        if done
        else f"compare both (`airflow ips show --consumer {consumer}` with --store), and remove the one that is wrong",
    )
