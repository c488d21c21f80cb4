"""Which files of its ICDC tables a failed job could not have read, because the source's maintenance removed them.

An engine names the first file that is missing. Compaction and snapshot expiry of the source remove many at once, and
which rows they held decides what to do next.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from airflow_provider_ips import dag_graph
from airflow_provider_ips.core.errors import EvidenceError, IpsError
from airflow_provider_ips.core.identifiers import CapturedBranch, CapturedRange
from airflow_provider_ips.core.positions import format_time
from airflow_provider_ips.runs import environment
from airflow_provider_ips.runs.evidence import SUCCESS, instance_states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from airflow.sdk import Context
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.results.capture_record import BranchRecord, CaptureRecord, SourceRecord
    from airflow_provider_ips.iceberg.icdc.lost_files import LossReport


log = logging.getLogger(__name__)

MAX_FILES: Final = 10_000
"""With 16 requests at a time, some tens of seconds on an object store."""


def name_lost_files(context: Context) -> None:
    """Log which files of the captured tables are missing, and the rows they held; an ``on_failure_callback`` for jobs.

    Every task that pulls XComs of a capture has it. It costs one request for each captured file, so it runs only when a
    task has failed, and skips tables of very many files. It never fails itself.
    """
    try:
        for losses, engine_catalog in _losses(context):
            if losses.is_intact:
                log.info("This failure is not due to a missing file: %s.", losses)
                log.info("%s", _name_in_engine(losses.icdc_table, engine_catalog))
            else:
                log.error(
                    "Maintenance of the source has removed files that this task was to read: %s. Clear the capture "
                    "with its downstream tasks: it captures again, or says which rows are lost.",
                    losses,
                )
    except IpsError as error:
        log.warning("It is not known whether files of the captured tables are missing: %s", error)


def _name_in_engine(icdc_table: str, engine_catalog: str | None) -> str:
    """Say what the job was given: only the engine knows whether it has a catalog of that name."""
    if engine_catalog is None:
        name, advice = icdc_table, "set engine_catalog on the capture to the engine's name for the catalog"
    else:
        name = f"{engine_catalog}.{icdc_table}"
        advice = f"engine_catalog={engine_catalog!r} on the capture may not be the engine's name for the catalog"
    return f"If the engine does not know the table {name}: {advice}."


def _losses(context: Context) -> Iterator[tuple[LossReport, str | None]]:
    from airflow_provider_ips.iceberg.icdc.lost_files import find_losses

    for record in _upstream_records(context):
        catalog = environment.open_catalog(record.context.iceberg_conn_id)
        for source in record.sources:
            files = (source.captured.files or 0) + ((source.before.files or 0) if source.before else 0)
            if files > MAX_FILES:
                log.info(
                    "%s: %s captured files are too many to check; airflow_provider_ips.iceberg.find_losses checks them",
                    source.source,
                    files,
                )
                continue
            for table in source.icdc_tables:
                if (losses := find_losses(catalog, table)) is not None:
                    yield losses, record.context.engine_catalog
                elif CapturedBranch.parse(table) is not None:
                    log.error("%s", _removed(table, source))
                elif CapturedRange.parse(table) is not None:
                    log.info(
                        "%s stands for snapshots of %s, which the engine reads directly. If they were expired, clear "
                        "the capture with its downstream tasks: it captures again, or says which rows are lost.",
                        table,
                        source.source,
                    )


def _removed(branch: str, source: SourceRecord) -> str:
    """Say why the job found no branch of that name."""
    lease = source.captured_branch
    until = "" if lease is None else f" ({_end_of(lease, environment.now_ms())})"
    return (
        f"{branch} does not exist any more: it was removed while this task was to read it{until}. Give the capture a "
        "longer lease than the job takes, and clear it with its downstream tasks."
    )


def _end_of(lease: BranchRecord, now_ms: int) -> str:
    verb = "ended" if lease.held_until_ms < now_ms else "ends"
    return f"its lease {verb} at {format_time(lease.held_until_ms)}"


def check_branches(
    record: CaptureRecord, open_catalog: Callable[[], Catalog], now_ms: int, *, must_exist: bool
) -> None:
    """Refuse to commit what was read from a branch that is not as its capture has left it; log which leases have ended.

    A lease that has ended does not stop the commit: a job that misses a branch or a file fails, and this one has
    succeeded. One that reads more rows, or fewer, does not fail.

    :param must_exist: nothing but the end of its lease may have removed the branch since the job has read it
    """
    for source in record.sources:
        branches = tuple(branch for branch in (source.captured_branch, source.before_branch) if branch is not None)
        found: dict[str, int | None] = {}
        if source.mode == "BRANCH" and branches:
            found = _snapshots_of(source.source.table, branches, open_catalog)
        for branch in branches:
            name, is_over = CapturedBranch(source.source.table, branch.branch), branch.held_until_ms < now_ms
            if found:
                _refuse_other_rows(name, branch, found[branch.branch], may_lack=is_over or not must_exist)
            if is_over:
                now = "may have been removed" if not found else _STATES[found[branch.branch] is not None]
                log.warning(
                    "%s: %s, before this commit, and the branch %s. The job has succeeded, so it has found all files; "
                    "another one may not. Give the capture a longer lease than its job takes.",
                    name,
                    _end_of(branch, now_ms),
                    now,
                )


_STATES: Final = {True: "is still there, and may be removed at any time", False: "was removed"}


def _snapshots_of(
    table: str, branches: Iterable[BranchRecord], open_catalog: Callable[[], Catalog]
) -> dict[str, int | None]:
    from airflow_provider_ips.iceberg.foreign_errors import translate_errors
    from airflow_provider_ips.iceberg.icdc.metadata import load_if_exists, snapshot_of_branch

    with translate_errors(
        f"looking whether somebody has written to captured branches of {table}",
        consequence="The job may have read other rows than were captured, so no checkpoint moved",
    ):
        loaded = load_if_exists(open_catalog(), table)
    snapshots = {b.branch: loaded and snapshot_of_branch(loaded.metadata, b.branch) for b in branches}
    return {branch: snapshot.snapshot_id if snapshot else None for branch, snapshot in snapshots.items()}


def _refuse_other_rows(name: CapturedBranch, branch: BranchRecord, found: int | None, *, may_lack: bool) -> None:
    """
    Refuse a branch that was moved, and one that was removed before its time: it may have been moved before that.

        a job reads the branch that somebody has written to, and its commit is refused; the branch is dropped
        the commit alone is cleared: there is nothing to compare with, and the job has read other rows all the same
    """
    if found == branch.snapshot_id or (found is None and may_lack):
        return
    drop = "" if found is None else f"ALTER TABLE {name.table} DROP BRANCH {name.branch}, then "
    raise EvidenceError(
        f"{name} does not exist any more, and its lease ends at {format_time(branch.held_until_ms)}: somebody has "
        "removed it"
        if found is None
        else f"{name} is at snapshot {found}, and its capture has left it at {branch.snapshot_id}: somebody has "
        "written to it, or moved it",
        consequence="The job may have read other rows than were captured, so no checkpoint moved",
        remedy=f"{drop}clear the capture with its downstream tasks (the commit alone is refused again), and see who "
        "writes to branches of captures",
    )


def _upstream_records(context: Context) -> Iterator[CaptureRecord]:
    """Pull the records of the captures upstream of this task, in a mapped task group those of its index.

    Only of captures that have succeeded: what Airflow removed, when a list got shorter, has left its XComs.
    """
    captures = [
        task.task_id for task in context["task"].get_flat_relatives(upstream=True) if dag_graph.is_capture(task)
    ]
    run, own = environment.run_identity(context), context["task"].task_id
    for (task_id, map_index), state in instance_states(context["ti"], context["dag"], run, own, captures).items():
        if state == SUCCESS:
            found = context["ti"].xcom_pull(task_ids=[task_id], key="capture", map_indexes=map_index)
            yield from (environment.read_record(raw, task_id=task_id) for raw in found or () if raw is not None)
