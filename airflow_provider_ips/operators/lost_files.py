"""When a job fails, find out whether files of its ICDC tables were removed under it.

An engine names the first file that it misses. Compaction and snapshot expiry of the source remove many at once, and
which rows they held decides what to do next.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.operators import _context, _wiring

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow.sdk import Context

    from airflow_provider_ips.core.losses import Losses

log = logging.getLogger(__name__)

MAX_FILES: Final = 10_000
"""With 16 requests at a time, some tens of seconds on an object store."""


def name_lost_files(context: Context) -> None:
    """
    Log which files of the captured tables are gone, with the rows they held; an ``on_failure_callback`` for jobs.

    Every task that pulls XComs of a capture has it. Costs one request for each captured file, so it looks only when a
    task has failed, and not at tables of very many files. Never fails itself.
    """
    try:
        for losses in _losses(context):
            if losses.is_intact:
                log.info("This failure is not for want of a file: %s.", losses)
            else:
                log.error(
                    "The source's maintenance has removed what this task was to read: %s. Clear the capture and what "
                    "follows it: it captures again, or says what is lost.",
                    losses,
                )
    except IpsError as error:
        log.warning("Whether files of the captured tables are gone could not be found out: %s", error)


def _losses(context: Context) -> Iterator[Losses]:
    from airflow_provider_ips.iceberg import find_losses

    for record in _records(context):
        catalog = _context.open_catalog(record["requested"]["iceberg_conn_id"])
        for source in record["sources"]:
            files = (source["files"] or 0) + ((source.get("before") or {}).get("files") or 0)
            if files > MAX_FILES:
                log.info(
                    "%s: %s captured files are too many to look at each; airflow_provider_ips.iceberg.find_losses does",
                    source["source"],
                    files,
                )
                continue
            for table in (source["icdc_table"], source.get("before_table")):
                losses = None if table is None else find_losses(catalog, table)
                if losses is not None:
                    yield losses


def _records(context: Context) -> Iterator[Mapping[str, Any]]:
    """The records of all captures that lie before the failed task."""
    ti, task = context["ti"], context["task"]
    for upstream in task.get_flat_relatives(upstream=True):
        if not _wiring.is_capture(upstream):
            continue
        found = ti.xcom_pull(task_ids=[upstream.task_id], key="capture")
        yield from (record for record in found or () if record is not None)
