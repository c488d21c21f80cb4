"""The checks of `airflow ips doctor --migrating`: whether an incremental DAG can take over from a plain one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.advice.checks import Finding, Status
from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.core.identifiers import did_you_mean
from airflow_provider_ips.core.positions import format_time
from airflow_provider_ips.runs.environment import open_catalog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.checkpoint.store import CheckpointStore
    from airflow_provider_ips.core.identifiers import Source
    from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
    from airflow_provider_ips.maintenance.server import Server

MAX_COMPARED: Final = 200_000
"""Rows that this process reads to compare two targets. More than that are for an engine."""

MARGIN_MS: Final = 3_600_000
"""The clock of a machine that commits may be slow."""

HOW_TO: Final = "both have to be empty: (SELECT * FROM {0} EXCEPT ALL SELECT * FROM {1}) and the other way round"


def check_names(server: Server, plain: str, incremental: str) -> Iterator[Finding]:
    """Find what is wrong with the names of the two DAGs."""
    for dag_id in (plain, incremental):
        if not server.is_stored(dag_id):
            otherwise = "check the name, and that the DAG processor has read its file"
            remedy = did_you_mean(dag_id, server.dag_ids(), otherwise=otherwise)
            yield Finding("dag", dag_id, Status.PROBLEM, "Airflow has no DAG of this name", remedy)
    if plain == incremental:
        yield Finding("dag", plain, Status.PROBLEM, "both names are of one DAG", "name the plain one first")


def check_end_and_seeds(
    server: Server, stores: Mapping[str, Mapping[str, CheckpointStore]], plain: str, incremental: str
) -> Iterator[Finding]:
    """Check that the plain DAG has ended, and that every capture was seeded before its last run.

    :param stores: those of each consumer, which its connection leads to
    """
    yield _check_end(server, plain)
    yield from _check_seeds(stores, server.last_success_ms(plain), incremental)


def _check_end(server: Server, plain: str) -> Finding:
    if active := server.active_runs(plain):
        remedy = "wait until they have ended; runs of a paused DAG stop where they are, so unpause it for that"
        return Finding("plain", plain, Status.PROBLEM, f"{active} runs are active", remedy)
    if not server.is_paused(plain):
        finding = "it is not paused, so both DAGs may write the target"
        return Finding("plain", plain, Status.WARNING, finding, "pause it, unless the two write different targets")
    return Finding("plain", plain, Status.OK, "paused, and no run is active")


def _check_seeds(
    stores: Mapping[str, Mapping[str, CheckpointStore]], started_ms: int | None, incremental: str
) -> Iterator[Finding]:
    if not stores:
        yield Finding("seed", incremental, Status.PROBLEM, "it has no IpCaptureOperator", "add it, and the commit")
    for consumer, own in stores.items():
        found = (store.read(consumer, even_if_moved=True) for store in own.values())
        checkpoint = next((c for c in found if c is not None and c.moved_to is None), None)
        if checkpoint is None or not checkpoint.positions:
            finding = "it has no position, so its first run starts where `initial` says: by default it takes all rows"
            yield Finding("seed", consumer, Status.PROBLEM, finding, f"airflow ips seed --consumer {consumer} …")
            continue
        if any(capture.wrote for capture in checkpoint.history):
            yield Finding("seed", consumer, Status.OK, "it has committed captures since it was seeded")
            continue
        for entry in checkpoint.positions:
            yield _check_seed(f"{consumer}: {entry.source}", entry.position.committed_at_ms, started_ms)


def _check_seed(subject: str, position_ms: int, started_ms: int | None) -> Finding:
    if started_ms is None:
        finding = "the plain DAG has no successful run, so it is not known which rows its target has"
        return Finding("seed", subject, Status.UNKNOWN, finding, "seed at a snapshot whose rows the target has")
    last = f"the plain DAG's last successful run, which started at {format_time(started_ms)}"
    if position_ms > started_ms:
        finding = f"it is at {format_time(position_ms)}, after {last}: rows of the time between may be in neither"
        return Finding("seed", subject, Status.PROBLEM, finding, "seed at an earlier time, or run the plain DAG again")
    if position_ms > started_ms - MARGIN_MS:
        finding = f"it is less than an hour before {last}: right if no clock of a writer is slow"
        return Finding("seed", subject, Status.WARNING, finding, "seed an hour before that run")
    return Finding("seed", subject, Status.OK, f"it is at {format_time(position_ms)}, before {last}")


def compare_targets(server: Server, connections: Sequence[str], plain: str, incremental: str) -> Iterator[Finding]:
    """Compare what both DAGs declare to write; if that is one table there is nothing to compare.

    :param connections: those of the captures; which of several the targets are reached by is not known
    """
    subject = f"{plain} and {incremental}"
    ours, theirs = server.declared_tables(incremental), server.declared_tables(plain)
    if ours and ours == theirs:
        yield Finding("targets", subject, Status.OK, f"both write {', '.join(sorted(map(str, ours)))}")
        return
    if len(ours) != 1 or len(theirs) != 1:
        finding = "not compared: each DAG has to declare one target"
        remedy = "declare outlets=iceberg_asset(…) on the plain job and target_assets= on the commit; or by an engine, "
        yield Finding("targets", subject, Status.UNKNOWN, finding, remedy + HOW_TO.format("a", "b"))
        return
    (plain_table,), (our_table,) = theirs, ours
    if len(connections) != 1:
        finding = f"not compared here: its captures have the connections {' and '.join(connections)}"
        how_to = f"compare them by an engine; {HOW_TO.format(plain_table, our_table)}"
        yield Finding("targets", subject, Status.UNKNOWN, finding, how_to)
        return
    try:
        yield compare_tables(open_catalog(connections[0]), plain_table, our_table)
    except IpsError as error:
        yield Finding.of_error("targets", f"{plain_table} and {our_table}", error)


def compare_tables(catalog: Catalog, first: Source, second: Source) -> Finding:
    """Compare two tables row by row, in whatever order; tables that are too large for that are left to an engine."""
    from airflow_provider_ips.iceberg.source.iceberg_source import open_source

    tables = [open_source(catalog, source) for source in (first, second)]
    subject, how_to = f"{first} and {second}", HOW_TO.format(first, second)
    names = [sorted(table.metadata.schema().column_names) for table in tables]
    if names[0] != names[1]:
        different = sorted(set(names[0]) ^ set(names[1]))
        return Finding("targets", subject, Status.PROBLEM, f"only one of them has the columns {different}", how_to)
    counts = [table.volume.records for table in tables]
    if any(count is None or count > MAX_COMPARED for count in counts):
        finding = f"not compared here: they have {' and '.join(map(str, counts))} rows"
        return Finding("targets", subject, Status.UNKNOWN, finding, f"compare them by an engine; {how_to}")
    rows = [_rows(table) for table in tables]
    only = [sum((a - b).values()) for a, b in ((rows[0], rows[1]), (rows[1], rows[0]))]
    if any(only):
        finding = f"{only[0]} rows are only in {first}, and {only[1]} only in {second}"
        remedy = f"look at them, they may be rows that came after one of the two runs; {how_to}"
        return Finding("targets", subject, Status.PROBLEM, finding, remedy)
    return Finding("targets", subject, Status.OK, f"their {rows[0].total()} rows are the same")


def _rows(table: IcebergSource) -> Counter[str]:
    """How often each row is there."""
    found: Counter[str] = Counter()
    head = table.head
    if head is None:
        return found
    for batch in table.table.scan(snapshot_id=head.snapshot_id).to_arrow_batch_reader():
        found.update(map(repr, zip(*(batch.column(c).to_pylist() for c in sorted(batch.schema.names)), strict=True)))
    return found
