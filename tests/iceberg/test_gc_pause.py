"""The cycle collector while metadata is loaded: off for that long, and never for longer."""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.iceberg.gc_pause import gc_paused
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from tests.kit.local_tables import append, new_catalog, new_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def every_allocation_collects() -> Iterator[list[int]]:
    """The generations that were collected meanwhile, with a threshold that a handful of objects crosses."""
    collected: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            collected.append(info["generation"])

    before = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(10, 2, 2)
    try:
        yield collected
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(note)


def test_a_source_is_loaded_without_collections(tmp_path: Path) -> None:
    """Loading it as PyIceberg does collects dozens of times under this threshold, opening it as a source a few."""
    catalog = new_catalog(tmp_path)
    table = new_table(catalog)
    for number in range(5):
        append(table, number)
    open_source(catalog, Source("db.t"))
    with every_allocation_collects() as by_pyiceberg:
        catalog.load_table("db.t")
    with every_allocation_collects() as by_us:
        open_source(catalog, Source("db.t"))
    assert len(by_us) < len(by_pyiceberg) / 3


def test_a_load_that_fails_leaves_the_collector_on(tmp_path: Path) -> None:
    """Whatever happens inside, the process gets its collector back."""
    with pytest.raises(InputError):
        open_source(new_catalog(tmp_path), Source("db.nowhere"))
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    """Who turned it off had a reason."""
    gc.disable()
    try:
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_loads_that_overlap_do_not_starve_the_collector() -> None:
    """A later load does not prolong the pause of an earlier one, or many watched tables would keep it off for ever."""
    first, second = gc_paused(), gc_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_a_child_forked_in_the_middle_of_a_pause_has_its_collector() -> None:
    """The thread that paused is not forked, and no other would end its pause."""
    with gc_paused():
        child = os.fork()
        if child == 0:
            is_on = gc.isenabled()
            with gc_paused():
                can_pause = not gc.isenabled()
            os._exit(0 if is_on and can_pause and gc.isenabled() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.isenabled()
