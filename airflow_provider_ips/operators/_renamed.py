"""A consumer that looks renamed is asked about: as a new one it would process its whole tables again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import CheckpointConflictError

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
    from airflow_provider_ips.core.store import CheckpointStore


def refuse_if_renamed(
    store: CheckpointStore,
    *,
    dag: DAG,
    task_id: str,
    consumer: str,
    sources: tuple[tuple[SourceTable, CaptureSettings], ...],
) -> None:
    """
    Refuse a full first run if another task of this DAG, which is there no more, has captured the same sources.

    :param consumer: the default consumer, which is made of the task's id; one that was given by name is never renamed.
    """
    if not any(settings.start.kind == "full" for _, settings in sources):
        return
    before, after = f"{dag.dag_id}.", consumer.removeprefix(f"{dag.dag_id}.{task_id}")
    for other in store.consumers():
        former = other.removeprefix(before).removesuffix(after)
        if f"{before}{former}{after}" != other or former in dag.task_dict or not _reads(store, other, sources):
            continue
        raise CheckpointConflictError(
            f"task {task_id!r} of DAG {dag.dag_id!r} has no checkpoint, consumer {other!r} has one for its tables, "
            f"and no task {former!r} is there any more",
            consequence="If the task was renamed, a first run would process the whole tables again",
            remedy=f"set consumer={other!r} to go on from there, or another consumer name of your own to start anew",
        )


def _reads(store: CheckpointStore, consumer: str, sources: tuple[tuple[SourceTable, CaptureSettings], ...]) -> bool:
    checkpoint = store.read(consumer, even_if_moved=True)
    mine = {(source.table, source.branch) for source, _ in sources}
    return checkpoint is not None and mine == {(p.source, p.branch) for p in checkpoint.positions}
