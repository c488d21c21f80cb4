"""Waits until Iceberg tables hold appended rows that are not processed yet."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowSensorTimeout, AirflowSkipException

from airflow_provider_ips import compat as _compat  # noqa: F401 - refuses versions that do not fit
from airflow_provider_ips import config
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.watching.watch import Watch, parse_interval
from airflow_provider_ips.dag_graph import argument, capture_of_consumer, is_template
from airflow_provider_ips.retries import at_once

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from airflow.sdk import Context

    from airflow_provider_ips.core.watching.thresholds import AtLeast
    from airflow_provider_ips.dag_graph import CaptureTask
    from airflow_provider_ips.watching import Poller


_TAKEN_FROM_CAPTURE = ("initial", "on_other_operation", "on_gap")
"""Parameters that are taken from the capture that owns the consumer, if they are left out."""

_PARAMETERS = (
    *("table", "branch", "consumer", "since", "data_operations", "require", "missing"),
    *("min_files", "min_records", "min_bytes", "quiet_for", "or_after"),
    *_TAKEN_FROM_CAPTURE,
)


class IcebergAppendSensor(BaseSensorOperator):
    """
    Wait until Iceberg tables hold appended rows beyond a consumer's checkpoint, or beyond a position.

    Succeeds for appended rows only: never for compaction, expiry, rollback or an empty commit. A poke that finds no new
    rows costs one catalog load per table and opens no manifest. What would make the capture fail (a gap in the lineage,
    a snapshot that changes rows) makes the sensor fail, with the same message and remedy.

    Returns what it found as XCom: ``tables``, with the position it started from, the head, and the number of snapshots,
    files, records and bytes of each table.

    ``timeout``, ``soft_fail``, ``mode``, retries and the rest are those of every Airflow sensor.

    :param capture: The ``IpCaptureOperator`` to wait for. Tables, connection, consumer, store, ``initial``,
        ``data_operations``, ``on_other_operation`` and ``on_gap`` are then the capture's; one that is given beside it
        and differs is refused.
    :param table: ``"db.t"``, a :class:`SourceTable`, or a list of these. (templated)
    :param iceberg_conn_id: The :ref:`Iceberg connection id<howto/connection:iceberg>` of the catalog, by default
        ``iceberg_default``. (templated)
    :param branch: The branch of tables given as strings, by default ``main``. (templated)
    :param consumer: Wait for rows beyond this consumer's checkpoint: the ``consumer`` of a capture, by default
        ``<dag_id>.<task_id>``. Either this or ``since`` is needed. (templated)
    :param since: Wait for rows beyond a snapshot id, or an ISO timestamp with a time zone. (templated)
    :param initial: Where a consumer without a checkpoint starts. By default, as in the capture of this DAG that owns
        the consumer; a consumer of another DAG must have a checkpoint, because its name may be misspelt. (templated)
    :param data_operations: As in a capture, by default appends.
    :param on_other_operation: As in a capture. By default, as in the capture of this DAG that owns the consumer.
        (templated)
    :param on_gap: As in a capture. By default, as in the capture of this DAG that owns the consumer. (templated)
    :param min_files: Wait for this many files, or ``AtLeast(files, or_after=age)``. All given thresholds must be met.
    :param min_records: Wait for this many records.
    :param min_bytes: Wait for this many bytes.
    :param quiet_for: Wait until nothing was appended for this long (timedelta or seconds), by the commit times.
    :param or_after: Succeed with less once the oldest unprocessed snapshot has this age (timedelta or seconds).
    :param require: Of several tables, whether ``"any"`` or ``"all"`` must be ready.
    :param missing: What to do if a table, namespace or branch does not exist: ``"wait"`` or ``"fail"``.
    :param checkpoint_store: The store of the consumer's checkpoint, by name. By default, the store of the capture of
        this DAG that owns the consumer, else ``[ips] checkpoint_store``.
    :param deferrable: Wait in the triggerer, without a worker. The default is ``[operators] default_deferrable``.
        ``poke_interval`` is then the pause between two polls.
    """

    template_fields: Sequence[str] = (
        *("table", "iceberg_conn_id", "branch", "consumer", "since"),
        *_TAKEN_FROM_CAPTURE,
    )
    ui_color = "#d6f0ef"

    def __init__(
        self,
        *,
        capture: CaptureTask | None = None,
        table: object = None,
        iceberg_conn_id: str | None = None,
        branch: str | None = None,
        consumer: str | None = None,
        since: str | int | datetime | None = None,
        initial: str | None = None,
        data_operations: Collection[str] | None = None,
        on_other_operation: str | None = None,
        on_gap: str | None = None,
        min_files: int | AtLeast | None = None,
        min_records: int | AtLeast | None = None,
        min_bytes: int | AtLeast | None = None,
        quiet_for: timedelta | float | None = None,
        or_after: timedelta | float | None = None,
        require: str = "any",
        missing: str = "wait",
        checkpoint_store: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.iceberg_conn_id = iceberg_conn_id or "iceberg_default"
        self.branch = branch
        self.consumer = consumer
        self.since = since
        self.initial = initial
        self.data_operations = data_operations
        self.on_other_operation = on_other_operation
        self.on_gap = on_gap
        self.min_files = min_files
        self.min_records = min_records
        self.min_bytes = min_bytes
        self.quiet_for = quiet_for
        self.or_after = or_after
        self.require = require
        self.missing = missing
        self.checkpoint_store = checkpoint_store
        self.deferrable = deferrable
        self._poller: Poller | None = None
        if capture is not None:
            self._take_from(capture, iceberg_conn_id=iceberg_conn_id)
        parse_interval("poke_interval", self.poke_interval)
        self._check()

    @at_once()
    def execute(self, context: Context) -> Any:  # noqa: ANN401 - as Airflow's own
        """Poke until there are rows, or leave the waiting to the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        from airflow_provider_ips.runs.environment import now_ms

        return self._poke_or_defer(context, give_up_at_ms=now_ms() + int(self.timeout * 1000))

    @at_once()
    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:  # noqa: ANN401 - as Airflow's own
        """Continue after a wake-up. What is permanent is so here, too."""
        return super().resume_execution(next_method, next_kwargs, context)

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as Airflow's own
        """Poke again: an event is only a wake-up, and its rows may have been processed since."""
        if event["status"] == "timeout":
            self._time_out()
        return self._poke_or_defer(context, give_up_at_ms=event["give_up_at_ms"])

    def poke(self, context: Context) -> PokeReturnValue:
        outcome = self._poller_for(context).poll()
        for source_result in outcome.sources:
            self.log.info("%s", source_result.readiness.reason)
        if outcome.error is not None and not outcome.ready:
            raise outcome.error
        return PokeReturnValue(is_done=outcome.ready, xcom_value=outcome.to_json())

    def _poke_or_defer(self, context: Context, *, give_up_at_ms: int) -> Any:  # noqa: ANN401 - as Airflow's own
        try:
            seen = self.poke(context)
        except AirflowException:
            raise
        except Exception as error:
            if self.never_fail:
                raise AirflowSkipException("Skipping due to never_fail is set to True.") from error
            if not self.silent_fail:
                raise
            self.log.exception("Sensor poke failed")
        else:
            if seen:
                return seen.xcom_value
        return self._defer_until(context, give_up_at_ms)

    def _defer_until(self, context: Context, give_up_at_ms: int) -> NoReturn:
        from airflow_provider_ips.runs.environment import now_ms
        from airflow_provider_ips.triggers.iceberg_append import IcebergAppendTrigger

        remaining = timedelta(milliseconds=give_up_at_ms - now_ms())
        if remaining <= timedelta(0):
            self._time_out()
        trigger = IcebergAppendTrigger(
            **self._parameters(self._settings_of_capture(context)),
            iceberg_conn_id=self.iceberg_conn_id,
            checkpoint_store=self._store_name(context),
            poll_interval=self.poke_interval,
            once=True,
            give_up_at_ms=give_up_at_ms,
        )
        self.defer(trigger=trigger, method_name="execute_complete", timeout=remaining)

    def _time_out(self) -> NoReturn:
        message = f"Sensor has timed out: not enough was appended within the timeout of {self.timeout:g} seconds."
        if self.soft_fail or self.never_fail:
            raise AirflowSkipException(message)
        raise AirflowSensorTimeout(message)

    def _take_from(self, capture: CaptureTask, *, iceberg_conn_id: str | None) -> None:
        from airflow_provider_ips.dag_checks.watched_capture import settled_by_capture

        names = ("table", "branch", "consumer", "since", "checkpoint_store", "data_operations", *_TAKEN_FROM_CAPTURE)
        given = {"iceberg_conn_id": iceberg_conn_id, **{name: getattr(self, name) for name in names}}
        for name, value in settled_by_capture(capture, given).items():
            setattr(self, name, value)

    def _poller_for(self, context: Context) -> Poller:
        """Return one poller for all pokes in this process: it keeps the catalog, and what it has judged already."""
        from airflow_provider_ips.watching import Poller

        if self._poller is None:
            self._check()
            watch = Watch.parse(**self._parameters(self._settings_of_capture(context)))
            may_be_new = self.initial is not None or capture_of_consumer(self.consumer, context["dag"]) is not None
            store = self._store_name(context)
            self._poller = Poller(watch, self.iceberg_conn_id, store, consumer_may_be_new=may_be_new)
        return self._poller

    def _settings_of_capture(self, context: Context) -> dict[str, Any]:
        """Take what was left out from the capture that owns the consumer: both must agree on what is new."""
        owner = capture_of_consumer(self.consumer, context["dag"])
        left_out = [name for name in _TAKEN_FROM_CAPTURE if getattr(self, name) is None]
        return {name: None if owner is None else argument(owner, name) for name in left_out}

    def _store_name(self, context: Context) -> str | None:
        """Return the name of the store. One that a capture is given as an object has no name, and is not used here."""
        owner = None if self.checkpoint_store else capture_of_consumer(self.consumer, context["dag"])
        name = self.checkpoint_store if owner is None else argument(owner, "checkpoint_store")
        return name if isinstance(name, str) else None

    def _parameters(self, replacing: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that sensor and trigger share; the defaults of others are those of :class:`Watch`."""
        given = {name: replacing.get(name, getattr(self, name)) for name in _PARAMETERS}
        return {name: value for name, value in given.items() if value is not None}

    def _check(self) -> None:
        """Refuse parameters that cannot be right. Templates are skipped here, and checked when they are rendered."""
        if self.table is None:
            raise InputError(
                "neither capture= nor table= is given",
                consequence="The sensor does not know what to wait for",
                remedy="set capture= to the IpCaptureOperator, or table= with consumer= or since=",
            )
        if (self.consumer is None) == (self.since is None):
            raise InputError(
                f"consumer={self.consumer!r} and since={self.since!r}: exactly one is needed",
                consequence="The sensor does not know which rows count as new",
                remedy="set consumer= to wait for what a capture has not committed, or since= to a snapshot id or time",
            )
        config.check_store(self.checkpoint_store)
        placeholders = {"table": "rendered.later"}
        templates = [name for name in self.template_fields if is_template(getattr(self, name))]
        Watch.parse(**self._parameters({name: placeholders.get(name) for name in templates}))
