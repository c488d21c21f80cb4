"""Checks of a capture's parameters that the core does not know: names, choices, and values still to be rendered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import TableIdentifier
from airflow_provider_ips.core.settings import SourceTable

if TYPE_CHECKING:
    from airflow_provider_ips.operators.capture import IpCaptureOperator


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Refuse what is none of the choices."""
    if value not in choices:
        raise InputError(
            f"{name}={value!r} is unknown",
            consequence="The capture could not do what was meant",
            remedy=f"use {' or '.join(map(repr, choices))}",
        )


def check_texts(task: IpCaptureOperator) -> None:
    """Refuse names that name nothing."""
    for name in ("iceberg_conn_id", "consumer", "icdc_namespace", "icdc_location", "engine_catalog"):
        value = getattr(task, name)
        if is_template(value) or (value is None and name != "iceberg_conn_id"):
            continue
        if not isinstance(value, str) or not value.strip():
            raise InputError(
                f"{name}={value!r} is no name",
                consequence="Nothing could be found under it",
                remedy=f"set {name} to a text" + ("" if name == "iceberg_conn_id" else ", or leave it out"),
            )
        if name == "icdc_namespace":
            _check_namespace(value)


def _check_namespace(namespace: str) -> None:
    try:
        TableIdentifier.parse(f"{namespace}.t")
    except InputError as error:
        raise InputError(
            f"icdc_namespace={namespace!r} is malformed",
            consequence="No ICDC table could be made there",
            remedy='write it as "icdc" or "scratch.icdc"',
        ) from error


def entries_of(value: object) -> object:
    """Read dicts as arguments of SourceTable: what comes out of an XCom or a template is made of these."""
    if isinstance(value, Mapping):
        if not isinstance(value.get("table"), str):
            raise InputError(
                f"source_tables entry {dict(value)!r} has no 'table'",
                consequence="It does not say what to capture",
                remedy='write it as {"table": "db.t", …}',
            )
        return SourceTable(**dict(value))
    if isinstance(value, list | tuple):
        return [entries_of(entry) for entry in value]
    return value


def is_template(value: object) -> bool:
    """Tell a value that is not known before the task runs."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, Mapping):
        return any(is_template(item) for item in value.values())
    if isinstance(value, list | tuple | set):
        return any(is_template(item) for item in value)
    return callable(getattr(value, "resolve", None))
