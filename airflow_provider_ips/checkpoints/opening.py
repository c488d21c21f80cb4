"""Which store a task or a command uses: the one it names, else `[ips] checkpoint_store`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.checkpoints.access import VariableAccess
    from airflow_provider_ips.checkpoints.iceberg import IcebergStore
    from airflow_provider_ips.checkpoints.variable import VariableStore
    from airflow_provider_ips.core.store import CheckpointStore

STORES: Final = ("variable", "iceberg")


def check_store(value: object) -> None:
    """Refuse what is neither a store's name nor a store."""
    if value is None or (isinstance(value, str) and value in STORES):
        return
    if not isinstance(value, str) and all(hasattr(value, verb) for verb in ("read", "write", "consumers")):
        return
    raise InputError(
        f"checkpoint_store={value!r} is unknown",
        consequence="Checkpoints can neither be read nor written",
        remedy=f"use {' or '.join(map(repr, STORES))}, or leave it out",
    )


def open_named_store(
    name: str | None,
    *,
    iceberg_conn_id: str,
    variables: VariableAccess | None = None,
    open_catalog: Callable[[str], Catalog] | None = None,
) -> VariableStore | IcebergStore:
    """Open a store by its name; ``variables`` and ``open_catalog`` are how this process reaches what is behind it."""
    from airflow.sdk.configuration import conf

    name = name or conf.get("ips", "checkpoint_store", fallback="variable")
    check_store(name)
    if name == "iceberg":
        return open_iceberg_store(iceberg_conn_id, open_catalog)
    from airflow_provider_ips.checkpoints.access import TaskVariables
    from airflow_provider_ips.checkpoints.variable import VariableStore

    return VariableStore(access=variables or TaskVariables())


def open_iceberg_store(iceberg_conn_id: str, open_catalog: Callable[[str], Catalog] | None = None) -> IcebergStore:
    """Open the logs behind `[ips] checkpoint_conn_id`, or behind the connection of the capture."""
    from airflow.sdk.configuration import conf

    from airflow_provider_ips.checkpoints.iceberg import DEFAULT_NAMESPACE, IcebergStore

    conn_id = conf.get("ips", "checkpoint_conn_id", fallback="") or iceberg_conn_id
    namespace = conf.get("ips", "checkpoint_namespace", fallback=DEFAULT_NAMESPACE)
    return IcebergStore((open_catalog or _open_catalog)(conn_id), namespace)


def _open_catalog(conn_id: str) -> Catalog:
    from airflow_provider_ips.hooks.ips import IpsHook

    return IpsHook(conn_id).catalog


def open_store(store: CheckpointStore | str | None, *, iceberg_conn_id: str) -> CheckpointStore:
    """Open the store of a task, which may name one or bring its own."""
    if store is None or isinstance(store, str):
        return open_named_store(store, iceberg_conn_id=iceberg_conn_id)
    return store
