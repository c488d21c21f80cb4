"""When Python's cycle collector is kept away from table metadata: while it is loaded, and once it is there to stay.

Parsing metadata makes a dozen objects for each snapshot and releases none, so the collector walks all of them again
and again and frees nothing: that is half the time in which a table of ten thousand snapshots is loaded. Moving
manifests makes no cycles either, and one collection over everything that Airflow and PyIceberg import takes as long as
copying a hundred manifests.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from contextlib import ContextDecorator
from dataclasses import dataclass
from threading import Lock
from typing import Final, Self

_pauses = Lock()


class gc_paused(ContextDecorator):  # noqa: N801 - used like the functions of contextlib
    """Switch the collector off while metadata is parsed and moved, then collect the new objects once; also a decorator.

    The collector belongs to the whole process, and a triggerer loads many tables in threads. Only one thread pauses it
    at a time: however their loads overlap, the collector is on again as soon as that one is done.

    A class, because what a generator of contextlib raises again gets a new traceback: Thrift's errors cannot be
    changed, and so become errors about that.
    """

    _held: Lock | None = None

    def _recreate_cm(self) -> Self:
        return type(self)()

    def __enter__(self) -> None:
        if gc.isenabled() and _pauses.acquire(blocking=False):
            self._held = _pauses
            gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._held is not None:
            gc.collect(0)
            gc.enable()
            self._held.release()


def _end_pause_of_parent() -> None:
    """Enable the collector in a child process: the thread that paused it was not forked, and would never end this."""
    global _pauses  # noqa: PLW0603 - the lock that the child inherited stays locked
    if _pauses.locked():
        _pauses = Lock()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_end_pause_of_parent)


FIRST_INTERVAL_S: Final = 20.0
YOUNG: Final = 1
"""The generation that is collected before a freeze: cheap, and garbage of the moment is not frozen with the rest."""


@dataclass(slots=True)
class LongLivedObjects:
    """Freezes the objects of watched tables, ever more rarely. Used by the event loop's thread alone."""

    clock: Callable[[], float] = time.monotonic
    has_grown: bool = True
    _interval_s: float = 0.0
    _last_s: float = 0.0

    def freeze_if_due(self) -> bool:
        """Exempt every object there is from later collections, if there are new ones and the last time is long ago."""
        now = self.clock()
        if not self.has_grown or (self._interval_s and now - self._last_s < self._interval_s):
            return False
        gc.collect(YOUNG)
        gc.freeze()
        self.has_grown = False
        self._interval_s = max(2 * self._interval_s, FIRST_INTERVAL_S)
        self._last_s = now
        return True


LONG_LIVED: Final = LongLivedObjects()
"""Those of this process."""
