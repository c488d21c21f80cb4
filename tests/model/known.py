"""What is known to be wrong and not repaired yet: the model keeps off these, so that it can show what else is.

A repair takes its line out of KNOWN, and the function, in the same commit: from then on `make test` plays it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.story import Action, Stage


def _old_numbers_again(stage: Stage, action: Action) -> bool:
    """A copy-on-write file of format v3 that is added again: its rows keep old numbers, which no metadata shows."""
    if action[0] not in ("add_twice", "add_again") or not stage.consumer.settings.captures_changes:
        return False
    v3 = [table for table in stage.tables if table.ledger.format_version > 2]
    return any(row.updated is not None for table in v3 for rows in table.warehouse.rows.values() for row in rows)


KNOWN: Final[dict[str, Callable[[Stage, Action], bool]]] = {
    "old numbers again": _old_numbers_again,
}
"""By name: whether an action would run into it. It is left out then."""
