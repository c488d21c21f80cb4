"""What a sensor or trigger takes from the capture that it waits for, so that nothing has to be written twice."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.settings import CaptureSettings, parse_sources
from airflow_provider_ips.dag_checks.arguments import read_source_dicts
from airflow_provider_ips.dag_graph import CaptureTask, is_expanded, is_template

if TYPE_CHECKING:
    from collections.abc import Mapping


def settled_by_capture(capture: object, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a capture settles. One that is also ``given`` has to say the same."""
    if not isinstance(capture, CaptureTask) or is_expanded(capture):
        raise InputError(
            f"capture={capture!r} is not an IpCaptureOperator, or has several instances in a run",
            consequence="Its tables and its consumer are not known while the DAG file is read",
            remedy="pass the operator itself; for one instance of an expanded capture set table= and consumer=",
        )
    initial: Any = getattr(capture, "initial", None)
    settled = {
        "table": capture.source_tables,
        "iceberg_conn_id": capture.iceberg_conn_id,
        "consumer": _consumer(capture),
        "initial": initial.isoformat() if isinstance(initial, datetime) else initial,
        "data_operations": getattr(capture, "data_operations", None),
        "on_other_operation": getattr(capture, "on_other_operation", None),
        "on_gap": getattr(capture, "on_gap", None),
        "checkpoint_store": _store(capture),
    }
    never = {"branch": None, "since": None}  # a capture names branches by SourceTable, and its checkpoint is the start
    for name, value in {**settled, **never}.items():
        _refuse_other(name, given.get(name), value, capture)
    return settled


def _consumer(capture: CaptureTask) -> Any:  # noqa: ANN401 - a name or a template
    name = capture.consumer
    if name is not None:
        return name
    if not capture.has_dag():  # type: ignore[no-untyped-call]
        raise InputError(
            f"capture {capture.task_id!r} has neither a consumer nor a DAG",
            consequence="By default its consumer is named after its DAG, so its checkpoint is not known yet",
            remedy="set consumer= of the capture, or create it in its DAG first",
        )
    return f"{capture.dag_id}.{capture.task_id}"


def _store(capture: CaptureTask) -> str | None:
    store = capture.checkpoint_store
    if store is None or isinstance(store, str):
        return store
    raise InputError(
        f"capture {capture.task_id!r} has a store object, {type(store).__name__}",
        consequence="A triggerer cannot reach it",
        remedy="set the checkpoint_store= of the capture to the name of a store",
    )


def _refuse_other(name: str, given: object, settled: object, capture: CaptureTask) -> None:
    if given is None or _comparable(name, given) == _comparable(name, settled):
        return
    raise InputError(
        f"{name}={given!r} contradicts capture {capture.task_id!r}, which has {settled!r}",
        consequence="It would wait for other rows than the run then captures",
        remedy=f"leave {name} out: it is taken from the capture",
    )


def _comparable(name: str, value: Any) -> object:  # noqa: ANN401 - an argument
    if is_template(value):
        return value
    if name == "table":
        tables = parse_sources(read_source_dicts(value), CaptureSettings())
        return sorted((table.source, table.overrides) for table in tables)
    if name == "data_operations":
        return CaptureSettings(data_operations=value).data_operations
    return value.isoformat() if isinstance(value, datetime) else value


def refuse_templates(settled: Mapping[str, object]) -> None:
    """Refuse what only a run can render, for a watcher, which has none."""
    for name in (name for name, value in settled.items() if is_template(value)):
        raise InputError(
            f"{name}={settled[name]!r} of the capture is a template",
            consequence="A watcher renders no templates, because there is no run yet",
            remedy="write the value itself, or use an IcebergAppendSensor(capture=…) in the DAG",
        )
