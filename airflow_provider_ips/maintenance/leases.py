"""What captures in branches of their sources hold, for the commands list, show, doctor and gc."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_provider_ips.core.advice.checks import Finding, Status
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.core.identifiers import CapturedBranch, Source
from airflow_provider_ips.core.positions import format_time
from airflow_provider_ips.maintenance.console import Row
from airflow_provider_ips.maintenance.server import connection_for
from airflow_provider_ips.runs.environment import now_ms, open_catalog

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table.metadata import TableMetadata

    from airflow_provider_ips.iceberg.branches.leases import FoundBranch
    from airflow_provider_ips.maintenance.server import Server


UNKNOWN = "unknown"

Held = dict[str, "FoundBranch"]


def look_at_leases(checkpoints: Iterable[Checkpoint], conn_id: str, server: Server | None = None) -> Held | None:
    """Find the branches that checkpoints name, by name, with a load for each source.

    No catalog is opened if they name none: the result is None. What cannot be loaded is not in the result.

    :param server: knows the connections of consumers, if the command names none
    """
    tables: defaultdict[str, set[str]] = defaultdict(set)
    for checkpoint in checkpoints:
        named = [CapturedBranch.parse(name) for name in checkpoint.needed_tables]
        if sources := {branch.table for branch in named if branch is not None}:
            tables[connection_for(checkpoint.consumer, conn_id, server)] |= sources
    if not tables:
        return None
    return {branch.name: branch for own_id in sorted(tables) for branch in _leases_of(own_id, sorted(tables[own_id]))}


def _leases_of(conn_id: str, tables: Sequence[str]) -> Iterator[FoundBranch]:
    from airflow_provider_ips.iceberg.branches.leases import find_leases

    try:
        catalog = open_catalog(conn_id)
    except IpsError:
        return
    for table in tables:
        yield from find_leases(catalog, table) or ()


def lease_columns(names: Sequence[str], leases: Held) -> Row:
    """Say since when and until when some captures hold files, and the bytes that nothing else holds.

    What was not found may have been removed, or its source could not be loaded: it is unknown.
    """
    from airflow_provider_ips.iceberg.branches.leases import total_bytes

    branches = [name for name in names if CapturedBranch.parse(name) is not None]
    found = [leases[name] for name in branches if name in leases]
    if not branches or len(found) < len(branches):
        rest = UNKNOWN if branches else None
        return {"held_since": rest, "held_until": rest, "held_bytes": rest}
    size = total_bytes(found)
    return {
        "held_since": format_time(min(branch.made_at_ms for branch in found)),
        "held_until": format_time(max(branch.held_until_ms for branch in found)),
        "held_bytes": UNKNOWN if size is None else size,
    }


def held(branch: FoundBranch) -> str:
    """Say how long and how much a branch holds."""
    now = now_ms()
    size = "an unknown number of bytes" if branch.held_bytes is None else f"{branch.held_bytes:,} bytes"
    verb = "ended" if branch.held_until_ms < now else "ends"
    return (
        f"holds {size} that nothing else holds, for {_hours(now - branch.made_at_ms)} (since "
        f"{format_time(branch.made_at_ms)}); its lease {verb} at {format_time(branch.held_until_ms)}"
    )


def check_leases(catalog: Catalog, checkpoint: Checkpoint) -> Iterator[Finding]:
    """Report each branch that holds files for a consumer; nothing if there are none.

    A lease that ends before its capture is committed takes the rows away from the job.
    """
    parsed = (CapturedBranch.parse(name) for name in sorted(checkpoint.known_tables))
    known = [branch for branch in parsed if branch is not None]
    for table in sorted({source.table for source in checkpoint.sources} | {branch.table for branch in known}):
        made = [branch for branch in known if branch.table == table]
        try:
            yield from _check_table(catalog, checkpoint, table, made)
        except IpsError as error:
            if made:  # else no branch of it is known, and the checks of the source report the error
                subject = ", ".join(map(str, made))
                yield Finding("lease", subject, Status.UNKNOWN, f"not looked at: {error.problem}", error.remedy)


def _check_table(
    catalog: Catalog, checkpoint: Checkpoint, table: str, made: Iterable[CapturedBranch]
) -> Iterator[Finding]:
    from airflow_provider_ips.iceberg.branches.leases import count_bytes, find_branches
    from airflow_provider_ips.iceberg.source.iceberg_source import open_source_if_exists

    source = open_source_if_exists(catalog, Source(table))
    if source is None:
        return
    pending = () if checkpoint.pending is None else checkpoint.pending.icdc_tables
    own = (each for each in find_branches(table, source.metadata) if each.consumer == checkpoint.consumer)
    for branch in count_bytes(source.table.io, source.metadata, own):
        yield _finding(branch, is_pending=branch.name in pending)
    yield from _written_to(source.metadata, made)


def _written_to(metadata: TableMetadata, made: Iterable[CapturedBranch]) -> Iterator[Finding]:
    """Report branches that a consumer has made, and that are at a snapshot of somebody else by now."""
    from airflow_provider_ips.iceberg.icdc.metadata import capture_properties

    for each in made:
        if each.branch in metadata.refs and not capture_properties(metadata, str(each)):
            text = "somebody has written to it, or moved it: it holds files without a lease, and nothing removes it"
            remedy = f"if it is not needed: ALTER TABLE {each.table} DROP BRANCH {each.branch}"
            yield Finding("lease", str(each), Status.WARNING, text, remedy)


def _finding(branch: FoundBranch, *, is_pending: bool) -> Finding:
    text, has_ended = held(branch), branch.held_until_ms < now_ms()
    longer = "clear the capture with its downstream tasks, and give it a longer lease than its job takes"
    if is_pending and has_ended:
        text = f"{text}, and its capture is not committed: whatever reads it may fail from now on"
        return Finding("lease", branch.name, Status.PROBLEM, text, longer)
    if has_ended:
        return Finding("lease", branch.name, Status.WARNING, text, "remove it by `airflow ips gc`")
    if is_pending and branch.is_ending(now_ms()):
        return Finding("lease", branch.name, Status.WARNING, f"{text}, and its capture is not committed", longer)
    return Finding("lease", branch.name, Status.OK, text)


def _hours(milliseconds: int) -> str:
    minutes = max(milliseconds, 0) // 60_000
    return f"{minutes // 60} h {minutes % 60} min"
