"""One execution of a commit behind its evidence: the checkpoint moves first, then ICDC tables go.

In this order a death in between leaves tables too many and never a checkpoint whose rows are lost. What was to go is
in the document, so that a retry drops it; what is not dropped by then, `airflow ips gc` finds.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.core.transitions import commit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.positions import RunIdentity
    from airflow_provider_ips.core.store import CheckpointStore
    from airflow_provider_ips.core.transitions import CommitResult

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRun:
    """What is to be committed, for whom, and where that is kept."""

    store: CheckpointStore
    consumer: str
    capture_id: str
    run: RunIdentity
    icdc_tables: Sequence[str]
    icdc_retention: str
    replayed: bool
    history_length: int
    now_ms: int

    def move(self) -> CommitResult:
        """Move the checkpoint, unless it has moved already."""
        read = self.store.read(self.consumer)
        result = commit(
            read,
            capture_id=self.capture_id,
            run=self.run,
            now_ms=self.now_ms,
            keep_icdc=self.icdc_retention == "keep",
            history_length=self.history_length,
            replay=self.replayed,
        )
        if result.checkpoint is not read:
            self.store.write(result.checkpoint, expected_revision=None if read is None else read.revision)
        return result

    def drop(self, result: CommitResult | None, open_catalog: Callable[[], Catalog]) -> list[str]:
        """Drop what is no longer kept. The checkpoint has moved, so a table that stays behind is no failure.

        A detached capture has no result: nothing moved, and its tables are its own.
        """
        tables = [*(result.drop if result else ()), *(self.icdc_tables if self.icdc_retention == "drop" else ())]
        if not tables:
            return []
        from airflow_provider_ips.iceberg import drop_icdc

        try:
            catalog = open_catalog()
        except IpsError as error:
            log.warning("ICDC tables %s stay behind until `airflow ips gc`: %s", tables, error)
            return []
        dropped = []
        for table in tables:
            try:
                if drop_icdc(catalog, table):
                    dropped.append(table)
            except Exception as error:  # noqa: BLE001 - whatever it is, the commit stands
                log.warning("ICDC table %s stays behind until `airflow ips gc`: %s", table, error)
        return dropped
