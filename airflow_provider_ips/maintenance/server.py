"""What only a process on an Airflow server can look up, and a task cannot: runs, stored DAGs, secrets backends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips import dag_graph
from airflow_provider_ips.assets.uris import SCHEME, TableUri
from airflow_provider_ips.checkpoints.variable import ServerVariables, VariableStore, database_errors
from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import RunIdentity
from airflow_provider_ips.core.sightings.consumer_sighting import ConsumerSighting
from airflow_provider_ips.maintenance.console import DEFAULT_CONN_ID
from airflow_provider_ips.sightings import read_all

if TYPE_CHECKING:
    from airflow.serialization.definitions.dag import SerializedDAG


def connection_for(consumer: str, conn_id: str, server: Server | None) -> str:
    """Return the connection that a command names, or else that of the consumer's capture."""
    if server is None or conn_id != DEFAULT_CONN_ID:
        return conn_id
    return server.connection_of(consumer) or DEFAULT_CONN_ID


RUNS_LOOKED_AHEAD: Final = 10
_ALIAS_PREFIX: Final = "ips:"
"""How the names of a commit's asset aliases begin; the asset's URI follows."""


class Server:
    """Airflow's metadata database and secrets backends, as the commands of `airflow ips` use them."""

    def connection_of(self, consumer: str) -> str | None:
        """Return the connection of a consumer's capture; None if no stored DAG names it."""
        for dag_id in _possible_dags(consumer):
            capture = _capture_of(_stored(dag_id), consumer)
            arguments = getattr(capture, "partial_kwargs", None) or {}
            named = arguments.get("iceberg_conn_id") or getattr(capture, "iceberg_conn_id", None)
            if isinstance(named, str) and "{{" not in named:
                return named
        return None

    def states_of(self, runs: Iterable[RunIdentity]) -> Mapping[RunIdentity, str]:
        """Return the states of runs, all by one query. A run that was deleted has none."""
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session
        from sqlalchemy import select, tuple_

        wanted = {(run.dag_id, run.run_id): run for run in runs}
        if not wanted:
            return {}
        columns = (DagRun.dag_id, DagRun.run_id, DagRun.run_after, DagRun.state)
        found = select(*columns).where(tuple_(DagRun.dag_id, DagRun.run_id).in_(list(wanted)))
        with database_errors("Runs could not be read"), create_session() as session:
            rows = list(session.execute(found))
        return {
            wanted[dag_id, run_id]: str(getattr(state, "value", state))
            for dag_id, run_id, run_after, state in rows
            if run_after.astimezone(UTC).isoformat() == wanted[dag_id, run_id].run_after
        }

    def has_commit(self, dag_id: str, consumer: str) -> bool | None:
        """Tell whether a consumer's capture has a commit downstream; None if the DAG shows no such capture."""
        dag = _stored(dag_id)
        capture = _capture_of(dag, consumer)
        return None if dag is None or capture is None else any(_commits_after(dag, capture))

    def secrets_backend_with(self, key: str) -> str | None:
        """Name a secrets backend that also holds a Variable; None if no backend does."""
        return ServerVariables().shadowed_by(key)

    def schedule_gap_ms(self, dag_id: str) -> int | None:
        """Return the longest time between two of a DAG's next runs; None if it is not scheduled by time."""
        dag = _stored(dag_id)
        if dag is None or not dag.timetable.can_be_scheduled:
            return None
        now = datetime.now(tz=UTC)
        infos = dag.iter_dagrun_infos_between(now, now + timedelta(days=400))
        ahead = [info.run_after for info in islice(infos, RUNS_LOOKED_AHEAD)]
        # The longest, because a schedule may skip the weekend.
        gaps = (later - earlier for earlier, later in pairwise(ahead))
        return max((int(gap.total_seconds() * 1000) for gap in gaps), default=None)

    def is_stored(self, dag_id: str) -> bool:
        """Whether Airflow has a DAG of this name."""
        return _stored(dag_id) is not None

    def dag_ids(self) -> list[str]:
        """The names of all stored DAGs."""
        from airflow.models.dag import DagModel
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with database_errors("The stored DAGs could not be read"), create_session() as session:
            return list(session.scalars(select(DagModel.dag_id).where(~DagModel.is_stale)))

    def is_paused(self, dag_id: str) -> bool:
        """Whether a stored DAG is paused."""
        from airflow.models.dag import DagModel

        model = DagModel.get_dagmodel(dag_id)
        return model is not None and bool(model.is_paused)

    def sightings(self) -> Iterator[ConsumerSighting]:
        """What was seen of all consumers."""
        with database_errors("Variables could not be read"):
            yield from read_all(ConsumerSighting)

    def active_runs(self, dag_id: str) -> int:
        """How many runs of a DAG are queued or running."""
        return sum(run.state in ("queued", "running") for run in _runs(dag_id))

    def last_success_ms(self, dag_id: str) -> int | None:
        """When the newest successful run of a DAG started; None if there is none."""
        starts = [run.start_date for run in _runs(dag_id) if run.state == "success" and run.start_date is not None]
        return int(max(starts).timestamp() * 1000) if starts else None

    def consumers(self, dag_id: str) -> list[str]:
        """The consumers of a DAG's captures, but for those that are only known at run time."""
        dag = _stored(dag_id)
        tasks = [task for task in ([] if dag is None else dag.tasks) if task.task_type == "IpCaptureOperator"]
        names = [getattr(task, "consumer", None) or f"{task.dag_id}.{task.task_id}" for task in tasks]
        return [name for name in names if "{{" not in name]

    def declared_tables(self, dag_id: str) -> set[Source]:
        """The tables that any task of a DAG declares to write, as outlets or as the target of a commit."""
        dag = _stored(dag_id)
        return {table for task in ([] if dag is None else dag.tasks) for table in _targets(task)}

    def on_other_operation(self, dag_id: str, consumer: str) -> str | None:
        """Return the parameter of that name of a consumer's capture; None if the DAG has no such capture."""
        return getattr(_capture_of(_stored(dag_id), consumer), "on_other_operation", None)

    def tables_written(self, dag_id: str, consumer: str, *, only_changed: bool = False) -> set[Source]:
        """Return the tables that the commits downstream of a consumer's capture declare as targets.

        :param only_changed: Only tables of commits that declare that the job changes rows (``target_changes``).
        """
        dag = _stored(dag_id)
        capture = _capture_of(dag, consumer)
        if dag is None or capture is None:
            return set()
        return {
            table
            for commit in _commits_after(dag, capture)
            if not only_changed or getattr(commit, "target_changes", False)
            for table in _targets(commit)
        }


def _stored(dag_id: str) -> SerializedDAG | None:
    from airflow.models.serialized_dag import SerializedDagModel

    with database_errors("The stored DAGs could not be read"):
        return SerializedDagModel.get_dag(dag_id)


def _runs(dag_id: str) -> list[Any]:
    from airflow.models.dagrun import DagRun

    found: list[Any] = DagRun.find(dag_id=dag_id)
    return found


def _possible_dags(consumer: str) -> Iterator[str]:
    """The DAGs that may have a consumer: those whose id its name begins with, and the one that used it last."""
    parts = consumer.split(".")
    yield from (".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1))
    checkpoint = None
    with suppress(IpsError):
        checkpoint = VariableStore(access=ServerVariables()).read(consumer, even_if_moved=True)
    if checkpoint is not None:
        pending = checkpoint.pending and checkpoint.pending.run.dag_id
        yield from (dag_id for dag_id in (checkpoint.last_dag, pending) if dag_id)


def _commits_after(dag: SerializedDAG, capture: Any) -> Iterator[Any]:  # noqa: ANN401 - operators as Airflow stores them
    downstream = (dag.get_task(name) for name in capture.get_flat_relative_ids(upstream=False))
    return (task for task in downstream if task.task_type == "IpCommitOperator")


def _capture_of(dag: SerializedDAG | None, consumer: str) -> Any | None:  # noqa: ANN401 - an operator as Airflow stores it
    return next((task for task in (() if dag is None else dag.tasks) if dag_graph.owns(task, consumer)), None)


def _targets(commit: Any) -> Iterator[Source]:  # noqa: ANN401 - an operator as Airflow stores it
    verified = getattr(commit, "verify_target", None)
    if verified and "{{" not in verified:
        yield Source(verified)
    for outlet in commit.outlets or ():
        uri = getattr(outlet, "uri", None) or outlet.name.removeprefix(_ALIAS_PREFIX)
        if uri.startswith(f"{SCHEME}://"):
            yield TableUri.parse(uri).source
