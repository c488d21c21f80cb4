"""Waits until Iceberg tables hold appended rows that nobody has processed yet."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowSensorTimeout, AirflowSkipException

from airflow_provider_ips.checkpoints.opening import check_store
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.watch import Watch, parse_interval

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from airflow.sdk import Context

    from airflow_provider_ips.core.settings import SourceTable
    from airflow_provider_ips.core.thresholds import AtLeast
    from airflow_provider_ips.sensors._look import Looker

_AS_THE_CAPTURE = ("initial", "on_other_operation", "on_gap")
"""Left out, these are what the capture says that owns the consumer."""

_PARAMETERS = (
    *("table", "branch", "consumer", "since", "data_operations", "require", "missing"),
    *("min_files", "min_records", "min_bytes", "or_after"),
    *_AS_THE_CAPTURE,
)


class IcebergAppendSensor(BaseSensorOperator):
    """
    Wait until Iceberg tables hold appended rows beyond a consumer's checkpoint, or beyond a position.

    Lets go for appended rows only: never for compaction, expiry, rollback or an empty commit. A poke that finds nothing
    new costs one catalog load per table and opens no manifest. What would make the capture fail (a gap in the lineage,
    a snapshot that changes rows) makes the sensor fail, with the same message and remedy.

    Returns what it saw as XCom: ``tables``, with the position it looked from, the head, and the number of snapshots,
    files, records and bytes of each.

    ``timeout``, ``soft_fail``, ``mode``, retries and the rest are those of every Airflow sensor.

    :param table: ``"db.t"``, a :class:`SourceTable`, or a list of these. (templated)
    :param iceberg_conn_id: The :ref:`Iceberg connection id<howto/connection:iceberg>` of the catalog. (templated)
    :param branch: The branch of tables given as strings. (templated)
    :param consumer: Wait for rows beyond this consumer's checkpoint: the ``consumer`` of a capture, by default
        ``<dag_id>.<task_id>``. Either this or ``since`` is needed. (templated)
    :param since: Wait for rows beyond a snapshot id, or an ISO timestamp with its zone. (templated)
    :param initial: Where a consumer without a checkpoint starts. Left out: where the capture of this DAG starts that
        owns the consumer; a consumer of another DAG must have a checkpoint, for its name may be misspelt. (templated)
    :param data_operations: As in a capture.
    :param on_other_operation: As in a capture. Left out: as in the capture of this DAG that owns the consumer.
    :param on_gap: Likewise.
    :param min_files: Wait for so many files, or ``AtLeast(files, or_after=age)``. All thresholds given must be met.
    :param min_records: Wait for so many records.
    :param min_bytes: Wait for so many bytes.
    :param or_after: Let less through once the oldest unprocessed snapshot is so old (timedelta or seconds).
    :param require: Of several tables, whether ``"any"`` or ``"all"`` must be ready.
    :param missing: What to do about a table, namespace or branch that does not exist: ``"wait"`` or ``"fail"``.
    :param checkpoint_store: Where the consumer's checkpoint lives, by name. Left out: where the capture of this DAG
        that owns the consumer keeps it, else ``[ips] checkpoint_store``.
    :param deferrable: Wait in the triggerer, without a worker. The default is ``[operators] default_deferrable``.
        ``poke_interval`` is then the pause between two polls.
    """

    template_fields: Sequence[str] = ("table", "iceberg_conn_id", "branch", "consumer", "since", "initial")
    ui_color = "#d6f0ef"

    def __init__(
        self,
        *,
        table: str | SourceTable | Sequence[str | SourceTable],
        iceberg_conn_id: str = "iceberg_default",
        branch: str = "main",
        consumer: str | None = None,
        since: str | int | datetime | None = None,
        initial: str | None = None,
        data_operations: Collection[str] = ("append",),
        on_other_operation: str | None = None,
        on_gap: str | None = None,
        min_files: int | AtLeast | None = None,
        min_records: int | AtLeast | None = None,
        min_bytes: int | AtLeast | None = None,
        or_after: timedelta | float | None = None,
        require: str = "any",
        missing: str = "wait",
        checkpoint_store: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.iceberg_conn_id = iceberg_conn_id
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
        self.or_after = or_after
        self.require = require
        self.missing = missing
        self.checkpoint_store = checkpoint_store
        self.deferrable = deferrable
        self._looker: Looker | None = None
        parse_interval("poke_interval", self.poke_interval)
        self._check()

    def execute(self, context: Context) -> Any:  # noqa: ANN401 - as Airflow's own
        """Poke until rows are there, or hand the waiting over to the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        from airflow_provider_ips.operators._context import now_ms

        return self._poke_or_defer(context, give_up_at_ms=now_ms() + int(self.timeout * 1000))

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as Airflow's own
        """Look again: an event is a wake-up, and what it saw may be processed by now."""
        if event["status"] == "timeout":
            self._time_out()
        return self._poke_or_defer(context, give_up_at_ms=event["give_up_at_ms"])

    def poke(self, context: Context) -> PokeReturnValue:
        """Look at every table once."""
        outcome = self._look_from(context).look()
        for finding in outcome.findings:
            self.log.info("%s", finding.readiness.reason)
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
        from airflow_provider_ips.operators._context import now_ms
        from airflow_provider_ips.triggers.iceberg_append import IcebergAppendTrigger

        remaining = timedelta(milliseconds=give_up_at_ms - now_ms())
        if remaining <= timedelta(0):
            self._time_out()
        trigger = IcebergAppendTrigger(
            **self._parameters(self._as_the_capture(context)),
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

    def _look_from(self, context: Context) -> Looker:
        """One looker for all pokes of this process: it keeps the catalog, and what it has looked at."""
        from airflow_provider_ips.sensors._look import Looker, capture_of

        if self._looker is None:
            self._check()
            watch = Watch.parse(**self._parameters(self._as_the_capture(context)))
            is_known = self.initial is not None or capture_of(self.consumer, context["dag"]) is not None
            store = self._store_name(context)
            self._looker = Looker(watch, self.iceberg_conn_id, store, consumer_may_be_new=is_known)
        return self._looker

    def _as_the_capture(self, context: Context) -> dict[str, Any]:
        """What was left out, taken from the capture that owns the consumer: the two must agree on what is new."""
        from airflow_provider_ips.sensors._look import capture_of, setting_of

        owner = capture_of(self.consumer, context["dag"])
        left_out = [name for name in _AS_THE_CAPTURE if getattr(self, name) is None]
        return {name: None if owner is None else setting_of(owner, name) for name in left_out}

    def _store_name(self, context: Context) -> str | None:
        """A store that a capture brings itself, which has no name, is for that capture alone."""
        from airflow_provider_ips.sensors._look import capture_of, setting_of

        owner = None if self.checkpoint_store else capture_of(self.consumer, context["dag"])
        name = self.checkpoint_store if owner is None else setting_of(owner, "checkpoint_store")
        return name if isinstance(name, str) else None

    def _parameters(self, replacing: Mapping[str, Any]) -> dict[str, Any]:
        """What sensor and trigger share; what is left out is left to :class:`Watch`."""
        given = {name: replacing.get(name, getattr(self, name)) for name in _PARAMETERS}
        return {name: value for name, value in given.items() if value is not None}

    def _check(self) -> None:
        """Refuse what cannot be right. What is still a template is passed over here, and met again at run time."""
        if (self.consumer is None) == (self.since is None):
            raise InputError(
                f"consumer={self.consumer!r} and since={self.since!r}: exactly one is needed",
                consequence="The sensor would not know from where to look",
                remedy="set consumer= to wait for what a capture has not committed, or since= to a snapshot id or time",
            )
        check_store(self.checkpoint_store)
        later = {"table": "known.later"}
        templates = [name for name in self.template_fields if _is_template(getattr(self, name))]
        Watch.parse(**self._parameters({name: later.get(name) for name in templates}))


def _is_template(value: Any) -> bool:  # noqa: ANN401 - any parameter
    """Tell a value that is not known before the task runs."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, list | tuple):
        return any(_is_template(item) for item in value)
    return callable(getattr(value, "resolve", None))
