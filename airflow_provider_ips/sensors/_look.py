"""One poke: load the tables, ask where the consumer stands, and look. Imported at run time only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ips.checkpoints.opening import open_named_store
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.watch import SourceKey
from airflow_provider_ips.core.watching import Watcher, missing_source
from airflow_provider_ips.operators._context import now_ms
from airflow_provider_ips.operators._wiring import is_capture
from airflow_provider_ips.triggers._tables import Tables, read_starts

if TYPE_CHECKING:
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.store import CheckpointStore
    from airflow_provider_ips.core.watch import Watch
    from airflow_provider_ips.core.watching import Round


class Looker:
    """Looks from where the consumer stands, each time anew."""

    def __init__(self, watch: Watch, iceberg_conn_id: str, store: str | None, *, consumer_may_be_new: bool) -> None:
        self._watch = watch
        self._watcher = Watcher(watch)
        self._tables = Tables(iceberg_conn_id)
        self._store = open_named_store(store, iceberg_conn_id=iceberg_conn_id) if watch.consumer is not None else None
        self._consumer_may_be_new = consumer_may_be_new
        self._keys = tuple(SourceKey.of(source) for source in watch.sources)

    def look(self) -> Round:
        """One catalog load per table, and one read of the checkpoint."""
        starts = self._starts()
        histories = {key: self._tables.load(key) for key in self._keys}
        if self._watch.missing == "fail":
            for key in (key for key, history in histories.items() if history is None):
                raise missing_source(key)
        return self._watcher.judge(histories, starts, now_ms=now_ms())

    def _starts(self) -> dict[SourceKey, Position | None]:
        if self._watch.consumer is None or self._store is None:
            return {}
        known, starts = read_starts(self._store, self._watch.consumer, self._keys)
        if not known and not self._consumer_may_be_new:
            raise _unknown(self._watch.consumer, self._store)
        return starts


def _unknown(consumer: str, store: CheckpointStore) -> InputError:
    known = ", ".join(repr(name) for name in store.consumers()) or "none"
    return InputError(
        f"consumer {consumer!r} has no checkpoint, and no capture of this DAG owns it",
        consequence="A misspelt name would take the whole table for new in every run",
        remedy=f"use a consumer with a checkpoint ({known}), or set initial='full' if its first run is still to come",
    )


def capture_of(consumer: str | None, dag: Any) -> Any | None:  # noqa: ANN401 - mapped or not
    """Find the capture of a DAG that owns a consumer."""
    for task in dag.tasks if consumer is not None else ():
        if is_capture(task) and _owns(task, consumer, dag.dag_id):
            return task
    return None


def _owns(capture: Any, consumer: str | None, dag_id: str) -> bool:  # noqa: ANN401 - mapped or not
    name = setting_of(capture, "consumer")
    default = f"{dag_id}.{capture.task_id}"
    is_mapped = hasattr(capture, "partial_kwargs")
    return consumer == (name or default) or bool(not name and is_mapped and str(consumer).startswith(f"{default}."))


def setting_of(capture: Any, name: str) -> Any | None:  # noqa: ANN401 - any parameter
    """A parameter of a capture, mapped or not, as the DAG file has it."""
    return getattr(capture, "partial_kwargs", {}).get(name) or getattr(capture, name, None)
