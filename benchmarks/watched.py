"""What runs inside the triggerer while `make bench-watch` looks on: a catalog that counts, and a watch on the loop."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from pyiceberg.catalog.sql import SqlCatalog

from benchmarks.watch_notes import LAGS, LOADS, SAMPLE_EVERY_S, note

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier


class CountingCatalog(SqlCatalog):
    """Named in the connection as ``py-catalog-impl``: notes when each table is loaded."""

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load, and write down when."""
        name = identifier if isinstance(identifier, str) else ".".join(identifier)
        note(LOADS, name)
        return super().load_table(identifier)


class LoopLag(BaseEventTrigger):
    """Measures by how much the event loop wakes it too late. Never fires."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """It has no arguments."""
        return ("benchmarks.watched.LoopLag", {})

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Sleep a little, again and again."""
        while True:
            due = time.perf_counter() + SAMPLE_EVERY_S
            await asyncio.sleep(SAMPLE_EVERY_S)
            note(LAGS, f"{(time.perf_counter() - due) * 1000:.2f}")
        yield TriggerEvent({})  # type: ignore[unreachable]  # this is what makes it a generator
