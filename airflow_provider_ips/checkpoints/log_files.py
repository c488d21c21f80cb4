"""Metadata files of checkpoint logs whose commit never came to be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyiceberg.catalog import MetastoreCatalog

from airflow_provider_ips.checkpoints.log_table import LOG_NAME
from airflow_provider_ips.iceberg.garbage import Shape, find_unnamed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

    from airflow_provider_ips.checkpoints.iceberg import IcebergStore
    from airflow_provider_ips.iceberg.folders import StoredFile

LOG_FILES: Final = Shape(LOG_NAME, re.compile(r"[0-9]{5}-[0-9a-f\-]{36}\.metadata\.json"))


def find_log_leftovers(store: IcebergStore) -> Iterator[StoredFile]:
    """Files that no log names. Only where PyIceberg itself writes them: a REST catalog's are its own affair."""
    if not isinstance(store.catalog, MetastoreCatalog):
        return
    logs = [log for consumer in store.consumers() if (log := store.log_of(consumer)) is not None]
    known = {log.name()[-1]: log.metadata.location.rstrip("/") for log in logs}
    named = {file for log in logs for file in _files(log)}
    yield from find_unnamed(store.catalog, store.namespace, known, named, shape=LOG_FILES)


def _files(log: Table) -> Iterator[str]:
    yield log.metadata_location
    yield from (entry.metadata_file for entry in log.metadata.metadata_log)
