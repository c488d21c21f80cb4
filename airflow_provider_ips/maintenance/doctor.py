"""The verb doctor: look at everything a run depends on, before a run does."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.checkups import (
    Finding,
    Status,
    captures_changes,
    check_lineage,
    check_operations,
    check_retention,
    check_stages,
)
from airflow_provider_ips.core.errors import CheckpointError, IpsError
from airflow_provider_ips.core.identifiers import variable_key
from airflow_provider_ips.core.retention import usual_gap_ms
from airflow_provider_ips.maintenance.desk import now_ms, open_catalog, open_stores

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.checkpoint import Checkpoint, SourcePosition
    from airflow_provider_ips.core.store import CheckpointStore
    from airflow_provider_ips.maintenance.desk import Desk, Row

RUNS_LOOKED_AHEAD: Final = 10


def doctor(desk: Desk, args: Namespace) -> None:
    """Print what was looked at and how it is, what is bad first."""
    findings = list(examine(desk, args))
    order = [Status.PROBLEM, Status.WARNING, Status.UNKNOWN, Status.OK]
    desk.show([_row(finding) for finding in sorted(findings, key=lambda f: order.index(f.status))])
    bad = sum(finding.status is Status.PROBLEM for finding in findings)
    desk.say(f"{bad} problems, {sum(f.status is Status.WARNING for f in findings)} warnings.")


def examine(desk: Desk, args: Namespace) -> Iterator[Finding]:
    """Everything, of one consumer or of all."""
    checkpoints: dict[str, Checkpoint] = {}
    stores: Mapping[str, CheckpointStore] = {}
    try:
        stores = open_stores(desk, args)
    except IpsError as error:
        yield _problem("stores", f"connection {args.conn_id}", error)
    for name, store in stores.items():
        yield from _read_all(name, store, args.consumer, checkpoints)
    for consumer in checkpoints or ([args.consumer] if args.consumer else []):
        yield from check_shadows(desk, consumer)
    try:
        catalog = open_catalog(args)
    except IpsError as error:
        yield _problem("catalog", f"connection {args.conn_id}", error)
        return
    yield from check_namespace(catalog, args)
    writers = _writers(desk, stores, checkpoints) if checkpoints else {}
    for checkpoint in checkpoints.values():
        for entry in checkpoint.positions:
            yield _check_stages(desk, checkpoint, entry, writers)
            yield from _check_source(desk, catalog, checkpoint, entry)


def check_shadows(desk: Desk, consumer: str) -> Iterator[Finding]:
    """A Variable that is set elsewhere too is read from there, and what a commit writes is never seen again."""
    key = variable_key(consumer)
    name = f"AIRFLOW_VAR_{key.upper()}"
    if name in os.environ:
        yield Finding(
            check="shadows",
            subject=consumer,
            status=Status.PROBLEM,
            finding=f"environment variable {name} shadows Variable {key!r}",
            remedy=f"unset {name} wherever Airflow runs",
        )
        return
    shadowing = desk.who_shadows(key)
    if shadowing is None:
        yield Finding(
            check="shadows", subject=consumer, status=Status.UNKNOWN, finding="secrets backends cannot be asked here"
        )
    elif shadowing:
        yield Finding(
            check="shadows",
            subject=consumer,
            status=Status.PROBLEM,
            finding=f"secrets backend {shadowing} shadows Variable {key!r}",
            remedy=f"remove {key!r} there",
        )
    else:
        yield Finding(check="shadows", subject=consumer, status=Status.OK, finding=f"nothing shadows Variable {key!r}")


def check_namespace(catalog: Catalog, args: Namespace) -> Iterator[Finding]:
    """Rights on the ICDC namespace, and that no ICDC table there could be purged by accident."""
    from airflow_provider_ips.iceberg.garbage import find_icdc
    from airflow_provider_ips.iceberg.probing import probe_namespace
    from airflow_provider_ips.operators._context import configured_namespace

    namespace = args.namespace or configured_namespace()
    try:
        if args.write_probe:
            yield Finding(
                check="rights", subject=namespace, status=Status.OK, finding=probe_namespace(catalog, namespace)
            )
        else:
            there = catalog.namespace_exists(tuple(namespace.split(".")))
            yield Finding(
                check="rights",
                subject=namespace,
                status=Status.UNKNOWN,
                finding="it can be looked at; --write-probe makes and drops a table in it"
                if there
                else "it does not exist yet; the first capture makes it",
            )
        tables = find_icdc(catalog, namespace)
    except IpsError as error:
        yield _problem("rights", namespace, error)
        return
    unsafe = [table.name for table in tables if table.gc_enabled]
    yield Finding(
        check="purge",
        subject=namespace,
        status=Status.PROBLEM if unsafe else Status.OK,
        finding=f"{', '.join(unsafe)}: 'gc.enabled' is not false, so DROP … PURGE would delete the source's data files"
        if unsafe
        else f"engines refuse to purge any of its {len(tables)} ICDC tables",
        remedy="set the table property gc.enabled=false again" if unsafe else "",
    )


def _read_all(name: str, store: CheckpointStore, only: str | None, found: dict[str, Checkpoint]) -> Iterator[Finding]:
    try:
        consumers = [only] if only else list(store.consumers())
    except IpsError as error:
        yield _problem("checkpoint", f"store {name}", error)
        return
    for consumer in consumers:
        try:
            checkpoint = store.read(consumer, even_if_moved=True)
        except CheckpointError as error:
            yield _problem("checkpoint", f"{consumer} ({name})", error)
            continue
        if checkpoint is not None and checkpoint.moved_to is None:
            if consumer in found:
                yield Finding(
                    check="checkpoint",
                    subject=consumer,
                    status=Status.PROBLEM,
                    finding="both stores hold a checkpoint that can be used",
                    remedy="compare them by `airflow ips show` with --store, and remove the one that is wrong",
                )
            found[consumer] = checkpoint
            said = f"readable, at revision {checkpoint.revision}"
            yield Finding(check="checkpoint", subject=f"{consumer} ({name})", status=Status.OK, finding=said)


def _writers(
    desk: Desk, stores: Mapping[str, CheckpointStore], examined: Mapping[str, Checkpoint]
) -> dict[str, str] | None:
    """Who writes changes to which table: targets of stages that capture changes themselves, or say that they do."""
    found: dict[str, str] = {}
    for checkpoint in _everyone(stores, examined):
        dag_id = dag_of(checkpoint)
        if dag_id is None:
            continue
        takes_changes = any(captures_changes(checkpoint, p.source, p.branch) for p in checkpoint.positions)
        targets = desk.targets_of(dag_id, checkpoint.consumer, changed=not takes_changes)
        if targets is None:
            return None
        found.update(dict.fromkeys(targets, checkpoint.consumer))
    return found


def _everyone(stores: Mapping[str, CheckpointStore], examined: Mapping[str, Checkpoint]) -> Iterator[Checkpoint]:
    """Every checkpoint that can be read, also where one consumer is examined: the stage before it is another one."""
    yield from examined.values()
    for store in stores.values():
        with suppress(IpsError):
            for consumer in store.consumers():
                with suppress(IpsError):
                    found = None if consumer in examined else store.read(consumer, even_if_moved=True)
                    if found is not None and found.moved_to is None:
                        yield found


def _check_stages(
    desk: Desk, checkpoint: Checkpoint, entry: SourcePosition, writers: Mapping[str, str] | None
) -> Finding:
    return check_stages(
        f"{entry.source}@{entry.branch}",
        _subject(checkpoint, entry),
        captures_changes=captures_changes(checkpoint, entry.source, entry.branch),
        on_other_operation=_on_other_operation(desk, checkpoint),
        writers=writers,
    )


def dag_of(checkpoint: Checkpoint) -> str | None:
    """The DAG whose run committed last."""
    return next((c.run.dag_id for c in reversed(checkpoint.history) if c.run is not None), None)


def _on_other_operation(desk: Desk, checkpoint: Checkpoint) -> str:
    dag_id = dag_of(checkpoint)
    return (None if dag_id is None else desk.on_other_operation(dag_id, checkpoint.consumer)) or "fail"


def _subject(checkpoint: Checkpoint, entry: SourcePosition) -> str:
    return f"{checkpoint.consumer}: {entry.source}" + (f"@{entry.branch}" if entry.branch != "main" else "")


def _check_source(desk: Desk, catalog: Catalog, checkpoint: Checkpoint, entry: SourcePosition) -> Iterator[Finding]:
    from airflow_provider_ips.iceberg import open_source
    from airflow_provider_ips.iceberg.retention import retention_of

    subject, dag_id = _subject(checkpoint, entry), dag_of(checkpoint)
    try:
        source = open_source(catalog, entry.source, entry.branch)
        yield check_lineage(source, entry.position, subject)
        gaps = (usual_gap_ms(checkpoint.history), None if dag_id is None else desk.schedule_gap_ms(dag_id))
        gap_ms = max((gap for gap in gaps if gap is not None), default=None)
        facts = None if gap_ms is None else retention_of(source, back_to_ms=now_ms() - gap_ms)
        yield check_retention(facts, subject, gap_ms=gap_ms, now_ms=now_ms())
        yield check_operations(
            source,
            entry.position,
            subject,
            captures_changes=captures_changes(checkpoint, entry.source, entry.branch),
            on_other_operation=_on_other_operation(desk, checkpoint),
        )
    except IpsError as error:
        yield _problem("source", subject, error)


def longest_gap_ms(moments_ms: Iterator[int]) -> int | None:
    """The longest time between two of the next runs: a schedule may rest over the weekend."""
    ahead = list(islice(moments_ms, RUNS_LOOKED_AHEAD))
    return max((later - earlier for earlier, later in pairwise(ahead)), default=None)


def _problem(check: str, subject: str, error: IpsError) -> Finding:
    return Finding(check=check, subject=subject, status=Status.PROBLEM, finding=error.problem, remedy=error.remedy)


def _row(finding: Finding) -> Row:
    return {
        "status": finding.status.value,
        "check": finding.check,
        "subject": finding.subject,
        "finding": finding.finding,
        "remedy": finding.remedy or None,
    }
