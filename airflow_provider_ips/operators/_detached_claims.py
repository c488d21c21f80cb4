"""What a single detached run is going to write, noted as a plan of many chunks notes it.

So a refresh, a range or some partitions that a person asks for, and a run of Airflow's own backfill, see each other and
backfills in chunks. Live runs note nothing: they go on beside any backfill.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_provider_ips.core.asked import Run
from airflow_provider_ips.core.claims import Claim, Extent
from airflow_provider_ips.core.identifiers import TableIdentifier, digest
from airflow_provider_ips.core.spans import Values
from airflow_provider_ips.operators import _claims, _context, _wiring

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow.sdk import Context

    from airflow_provider_ips.core.spans import Held
    from airflow_provider_ips.operators._preparing import Opened, Request

log = logging.getLogger(__name__)


def claim_single(context: Context, request: Request, sources: Sequence[Opened], *, waits: bool) -> tuple[str, ...]:
    """Claim what the job writes, and say under which names. A chunk has the claims of its plan."""
    if request.chunk is not None or all(source.plan.is_empty for source in sources):
        return ()
    claims = claims_of(context, request, extent_of(request, sources))
    other = _claims.hold(context["ti"], claims)
    if other is not None:
        mine = next(claim for claim in claims if claim.target == other.target)
        # Nobody looks after each of the runs that Airflow's own backfill makes: they wait as well. But what others may
        # wait for does not wait itself.
        waits = waits or context["dag_run"].run_type == "backfill"
        _claims.give_way(context, mine, other, waits=waits and not _claims.holds_more(mine))
    return tuple(claim.key for claim in claims)


def claims_of(context: Context, request: Request, extent: Extent) -> list[Claim]:
    """One for each target that the capture's commit names."""
    task_id = context["task"].task_id
    return [
        Claim(
            target=target,
            run=request.run,
            task_id=task_id,
            told=str(request.asked),
            asked=digest(str(request.asked)),
            extent=extent,
            as_of=None,
            claimed_at_ms=_context.now_ms(),
            is_single=True,
        )
        for target in _targets(context, task_id)
    ]


def _targets(context: Context, task_id: str) -> Sequence[str]:
    dag = context["dag"]
    commits = [commit for commit in _wiring.commits(dag) if commit.capture_task_id == task_id]
    rendered = (_rendered(commit.verify_target, context) for commit in commits)
    found = {*_claims.targets_of(commits), *(f"{name}@main" for name in rendered if name is not None)}
    if not found:
        log.warning(
            "No target is known: runs of other DAGs that write the same table at the same time are not noticed. Name "
            "it at the commit, by verify_target or target_assets"
        )
    return sorted(found) or [_claims.unnamed(dag.dag_id)]


def _rendered(target: str | None, context: Context) -> str | None:
    """A template may need what the job will push; then the target is not known yet."""
    with suppress(Exception):
        name = str(context["task"].render_template(target, context))
        TableIdentifier.parse(name)
        return name
    return None


def extent_of(request: Request, sources: Sequence[Opened]) -> Extent:
    """Values of the column that backfills of the same partitions would be cut by, if all sources have it."""
    names = ", ".join(f"{source.table.table}@{source.table.branch}" for source in sources)
    table, branch = (sources[0].table.table, sources[0].table.branch) if len(sources) == 1 else (names, "")
    column = _column_of(request, sources)
    spans = None if column is None else Values.of(_held(sources, column), column=column, field_id=None).comparable
    return Extent(source=table, branch=branch, column=column, spans=spans)


def _column_of(request: Request, sources: Sequence[Opened]) -> str | None:
    """None for what may reach any row: a stretch of history, and a refresh, which may overwrite the target."""
    from airflow_provider_ips.iceberg.units import column_to_cut_by

    if request.asked.run is not Run.PARTITIONS:
        return None
    columns = {column_to_cut_by(source.history, request.asked.partitions, None) for source in sources}
    column = columns.pop() if len(columns) == 1 else None
    return None if column is None or len({_type_of(column, source) for source in sources}) > 1 else column


def _type_of(column: str, source: Opened) -> str:
    return str(source.history.metadata.schema().find_field(column).field_type)


def _held(sources: Sequence[Opened], column: str) -> Iterator[Held]:
    """Reads the manifests of what is taken, but none of the rest."""
    from airflow_provider_ips.iceberg.units import units_of

    for source in sources:
        yield from (unit.held for unit in units_of(source.history, source.plan, column) if unit.held is not None)
