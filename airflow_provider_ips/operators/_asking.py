"""What the run was asked for, as its params tell, and what follows from that before anything is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips.core import detached
from airflow_provider_ips.core.asked import LIMITS, PREFIX, Asked, Run
from airflow_provider_ips.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from airflow.sdk import Context

    from airflow_provider_ips.core.backfill import Chunk
    from airflow_provider_ips.core.checkpoint import Checkpoint
    from airflow_provider_ips.operators._preparing import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What one capture shall do: as its chunk says, or a person, or the backfill that its run is of."""

    asked: Asked
    chunk: Chunk | None = None
    takes_anew: int | None = None
    """Set where a run that is cleared shall take the rows of now: how often it has been cleared."""


def wish_of(
    context: Context, *, follow_params: bool, chunk: object, backfill_partitions: Callable[[], str | None]
) -> Wish:
    """Find out who asks. A chunk is what a plan has made of the run's params, so it goes first."""
    if chunk is not None:
        from airflow_provider_ips.core.backfill import Chunk

        part = Chunk.from_json(chunk)
        takes_live = part.is_of_partitions and part.as_of is None
        return Wish(asked=part.asked, chunk=part, takes_anew=_clear_number(context) if takes_live else None)
    asked = asked_of(context, follow_params=follow_params)
    if not asked.is_usual or context["dag_run"].run_type != "backfill" or (told := backfill_partitions()) is None:
        return Wish(asked=asked)
    filtered = Asked(run=Run.PARTITIONS, partitions=told, everything=True)
    return Wish(asked=filtered, takes_anew=_clear_number(context))


def _clear_number(context: Context) -> int:
    return context["dag_run"].clear_number or 0


def asked_of(context: Context, *, follow_params: bool) -> Asked:
    """Read and check what the person who triggered the run wants."""
    if not follow_params:
        return Asked()
    return _checked(_heard(context))


def asked_in_chunks(context: Context, *, follow_params: bool) -> tuple[Asked, Asked]:
    """The same for a backfill, and apart from it the limits: they end no range there, so they go with every wish."""
    if not follow_params:
        return Asked(), Asked()
    params = _heard(context)
    limits = {name: params[name] for name in (f"{PREFIX}{limit}" for limit in LIMITS) if name in params}
    rest = {name: value for name, value in params.items() if name not in limits}
    return _checked(rest), Asked.from_params(limits)


def _heard(context: Context) -> Mapping[str, Any]:
    params = context["params"]
    _refuse_unheard(params, context["dag_run"].conf or {})
    return params


def _checked(params: Mapping[str, Any]) -> Asked:
    asked = Asked.from_params(params)
    if asked.partitions is not None:
        from airflow_provider_ips.iceberg.conditions import parse_condition

        parse_condition(asked.partitions)
    return asked


def _refuse_unheard(params: Mapping[str, Any], conf: Mapping[str, Any]) -> None:
    """A deployment may not let a run's conf reach its params: then a dry run would be none."""
    for name, value in conf.items():
        if name.startswith(PREFIX) and (name not in params or params[name] != value):
            raise InputError(
                f"the run's conf asks for {name}={value!r}, which Airflow does not pass on to its params",
                consequence="The run would do something else than it was triggered for",
                remedy="set [core] dag_run_conf_overrides_params=True",
            )


def refuse_if_overtaken(context: Context, request: Request, checkpoint: Checkpoint | None) -> None:
    """Clearing an old run must not write what was asked for then over what came since."""
    if request.asked.run is Run.USUAL or request.takes_anew is not None:
        return
    is_cleared = bool(_clear_number(context))
    detached.refuse_if_overtaken(checkpoint, request.run, request.asked, is_cleared=is_cleared)


def check_sources(request: Request) -> None:
    """Refuse what fits one table only where there are several."""
    asked, names = request.asked, [table.table for table, _ in request.sources]
    if (chunk := request.chunk) is not None and [(t.table, t.branch) for t, _ in request.sources] != [
        (chunk.source, chunk.branch)
    ]:
        raise InputError(
            f"{chunk} is of {chunk.source!r}, branch {chunk.branch!r}, and {', '.join(names)} is to be captured",
            consequence="What was planned would not be what is processed",
            remedy="name the same one table in source_table of the IpBackfillOperator and source_tables of the "
            "capture; a job that joins others reads them in full",
        )
    ids = asked.since_snapshot or asked.until_snapshot
    if ids is not None and len(names) > 1:
        raise InputError(
            f"snapshot {ids} was asked for, and {len(names)} tables are captured together: {', '.join(names)}",
            consequence="A snapshot belongs to one table, so the others would have no range",
            remedy=f"ask for a moment: {PREFIX}run='time', {PREFIX}since_time, {PREFIX}until_time",
        )


def _told_apart(request: Request) -> tuple[str, ...]:
    chunk = () if request.chunk is None else (request.chunk.identity,)
    return chunk if request.takes_anew is None else (*chunk, str(request.takes_anew))


def detached_of(request: Request) -> detached.Detached:
    """Name what this run captures apart from the checkpoint."""
    return detached.Detached(
        capture_id=detached.run_capture_id(request.consumer, request.run, *_told_apart(request)),
        consumer=request.consumer,
        why=str(request.run),
        asked=request.asked,
        namespace=request.icdc_namespace,
        location=request.icdc_location,
    )
