"""Load and move metadata without Python's cycle collector running over it again and again."""

from __future__ import annotations

import gc
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
    if not gc.isenabled() or not _pauses.acquire(blocking=False):
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0)
        gc.enable()
        _pauses.release()
