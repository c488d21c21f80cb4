"""Keep Python's cycle collector from holding up the event loop of a triggerer that watches many tables.

A full collection walks every object of the process and holds the interpreter meanwhile: a third of a second for what
Airflow alone keeps in memory, more with the metadata of hundreds of tables, and parsing makes it run again and again.
What lives as long as the triggerer is therefore set aside (``gc.freeze``): Airflow's modules when the first table is
watched, and the tables' metadata once they are loaded. Memory is freed as before, but for cycles that were garbage at
that very moment; it is done ever more seldom, so that they stay few.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_PAUSE_S: Final = 20.0
YOUNG: Final = 1
"""Collected before setting aside: cheap, and it takes the garbage of the moment away."""


@dataclass(slots=True)
class LongLived:
    """What is in the process to stay. For the event loop's thread alone."""

    clock: Callable[[], float] = time.monotonic
    has_grown: bool = True
    _pause_s: float = 0.0
    _last_s: float = 0.0

    def set_aside(self) -> bool:
        """Do so if there is more of it, and it was not done lately; tell whether it was."""
        now = self.clock()
        if not self.has_grown or (self._pause_s and now - self._last_s < self._pause_s):
            return False
        gc.collect(YOUNG)
        gc.freeze()
        self.has_grown = False
        self._pause_s = max(2 * self._pause_s, FIRST_PAUSE_S)
        self._last_s = now
        return True


LONG_LIVED: Final = LongLived()
"""Of this process."""
