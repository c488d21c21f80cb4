"""A consumer without a checkpoint in one store may have one in the other: that is no first run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.checkpoints.opening import open_iceberg_store, open_named_store
from airflow_provider_ips.checkpoints.variable import VariableStore
from airflow_provider_ips.core.errors import CheckpointConflictError, IpsError

if TYPE_CHECKING:
    from airflow_provider_ips.core.store import CheckpointStore

log = logging.getLogger(__name__)


def refuse_if_kept_elsewhere(store: CheckpointStore, consumer: str, *, iceberg_conn_id: str) -> None:
    """Refuse a first run in one store while the other one holds the consumer's checkpoint.

    A deployment that has never used Iceberg logs need not be able to look for one: what fails there is only logged.
    """
    if isinstance(store, IcebergStore):
        here, there = "iceberg", "variable"
        found = open_named_store(there, iceberg_conn_id=iceberg_conn_id).read(consumer, even_if_moved=True)
    elif isinstance(store, VariableStore):
        here, there = "variable", "iceberg"
        try:
            found = open_iceberg_store(iceberg_conn_id).read(consumer, even_if_moved=True)
        except IpsError as error:
            log.warning("Whether consumer %s has a checkpoint in Iceberg could not be told: %s", consumer, error)
            return
    else:
        return
    if found is None:
        return
    raise CheckpointConflictError(
        f"consumer {consumer!r} has no checkpoint in the store {here!r}, and one in {there!r}",
        consequence="As a new one it would process its whole tables again",
        remedy=f"to go on from there in {here!r}, `airflow ips move --consumer {consumer} --to {here}`; to stay with "
        f"{there!r}, set [ips] checkpoint_store={there}; to start anew, `airflow ips seed`",
    )
