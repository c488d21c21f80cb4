"""Load and move metadata without Python's cycle collector running over it again and again."""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_pauses = Lock()


@contextmanager
def paused_collector() -> Iterator[None]:
    """Hold the collector off while metadata is parsed and moved; also a decorator.

    Parsing makes a dozen objects for each snapshot and drops none, so that every collection walks all that is there and
    frees nothing: half the time that a table of ten thousand snapshots takes to load. Moving makes no cycles either:
    the memory of a million entries stays flat without the collector, while one pass of it over all that Airflow and
    PyIceberg import takes as long as copying a hundred manifests. So what was made meanwhile is looked at once, alone.

    The collector belongs to the whole process, and a triggerer loads many tables in threads: only one of them pauses it
    at a time, so that however their loads overlap it gets its turn whenever that one is done.
    """
    pauses = _pauses
    if not gc.isenabled() or not pauses.acquire(blocking=False):
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0)
        gc.enable()
        pauses.release()


def _begin_anew() -> None:
    """In a child that was forked while another thread paused: that thread is not there to end its pause."""
    global _pauses  # noqa: PLW0603 - the lock that the child was born with stays held
    if _pauses.locked():
        _pauses = Lock()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
