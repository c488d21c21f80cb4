"""Several processes that write one consumer's checkpoint at once, as several Airflow deployments do."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from typing import Any

from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.core.errors import CheckpointConflictError
from tests.kit.lakes import opened


def written_at_once(properties: dict[str, str], consumer: str, *, writers: int, times: int) -> list[str]:
    """Let each writer add entries to the document of a consumer; gives all that must be in it afterwards."""
    context = multiprocessing.get_context("spawn")
    names = [f"w{number}" for number in range(writers)]
    started = [context.Process(target=_write, args=(properties, consumer, name, times)) for name in names]
    for each in started:
        each.start()
    for each in started:
        each.join(timeout=240)
    assert [each.exitcode for each in started] == [0] * writers
    return sorted(f"{name}.{number}" for name in names for number in range(times))


def _write(properties: dict[str, str], consumer: str, name: str, times: int) -> None:
    """Add entries, reading the document again whenever another writer was faster."""
    store, done = IcebergStore(opened("lake", properties)), 0
    while done < times:
        stored: Any = store.read(consumer)
        changed = replace(stored, revision=stored.revision + 1, retained=(*stored.retained, f"{name}.{done}"))
        try:
            store.write(changed, expected_revision=stored.revision)
        except CheckpointConflictError:
            continue
        done += 1
