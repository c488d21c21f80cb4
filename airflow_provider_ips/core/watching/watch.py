"""What a sensor or trigger waits for: which sources, from where on, and how much."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from airflow_provider_ips.core.errors import InputError, unknown_choice
from airflow_provider_ips.core.identifiers import MAIN_BRANCH
from airflow_provider_ips.core.positions import InitialPosition
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.core.watching.thresholds import Require, Thresholds, parse_seconds

MISSING = ("wait", "fail")

_SINCE_FORMS = "a snapshot id or an ISO timestamp with its zone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The parameters of a sensor or trigger, checked when the DAG is parsed."""

    sources: tuple[SourceTable, ...]
    settings: CaptureSettings
    thresholds: Thresholds
    require: Require
    missing: str
    consumer: str | None
    min_interval_s: float | None = None
    """The least time between two events, whatever came in between."""

    @classmethod
    def parse(
        cls, *, table: object, consumer: object = None, since: object = None, initial: str | None = None, **rest: Any
    ) -> Self:
        """Read the parameters that a sensor and a trigger share."""
        if consumer is not None and (not isinstance(consumer, str) or not consumer.strip()):
            raise InputError(
                f"consumer={consumer!r} is not a name",
                consequence="Its checkpoint cannot be found",
                remedy="name the consumer of a capture, by default '<dag_id>.<task_id>'",
            )
        if consumer is not None and since is not None:
            raise InputError(
                f"consumer={consumer!r} and since={since!r} are both given",
                consequence="Each determines from where on to look",
                remedy="keep consumer= to wait for what a capture has not committed yet, or since= for a fixed place",
            )
        sources = parse_watched(table, branch=rest.pop("branch", MAIN_BRANCH))
        min_interval = rest.pop("min_interval", None)
        _refuse_one_snapshot_for_several(since, sources)
        settings = CaptureSettings(
            initial=parse_since(since) or initial or "full",
            data_operations=rest.pop("data_operations", ("append",)),
            on_other_operation=rest.pop("on_other_operation", "fail"),
            on_gap=rest.pop("on_gap", "fail"),
        )
        for source in sources:
            source.settings(settings)  # refuse a wrong override here, and not while waiting
        return cls(
            sources=sources,
            consumer=consumer,
            require=Require.parse(rest.pop("require", "any")),
            missing=_missing(rest.pop("missing", "wait")),
            settings=settings,
            min_interval_s=None if min_interval is None else parse_seconds("min_interval", min_interval),
            thresholds=Thresholds.parse(**rest),
        )


def parse_watched(table: object, *, branch: object = MAIN_BRANCH) -> tuple[SourceTable, ...]:
    """Read a table or a list of tables, each a string, a SourceTable, or what :func:`watched_to_text` wrote."""
    entries = table if isinstance(table, list | tuple) else (table,)
    sources = tuple(_source(entry, branch) for entry in entries)
    labels = [table.source.label for table in sources]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice or not sources:
        raise InputError(
            f"table {twice[0]!r} is there twice" if twice else f"table={table!r} names no table",
            consequence="The two would be the same" if twice else "There is nothing to wait for",
            remedy="name each table once",
        )
    return sources


def _source(entry: object, branch: object) -> SourceTable:
    if isinstance(entry, SourceTable):
        return entry
    if isinstance(entry, str) and entry.startswith("{"):
        return SourceTable(**json.loads(entry))
    if isinstance(entry, Mapping) and isinstance(entry.get("table"), str):
        return SourceTable(**entry)
    return SourceTable(entry, branch=branch)  # type: ignore[arg-type]  # it refuses anything but strings


def watched_to_text(source: SourceTable) -> str:
    """Write a source as one string. Airflow compares triggers by their arguments, which may not be nested."""
    overrides = {name: list(v) if isinstance(v, tuple) else v for name, v in source.overrides}
    return json.dumps({"table": source.table, "branch": source.branch, **overrides}, sort_keys=True)


def parse_since(since: object) -> str | None:
    """Read a snapshot id (string or number), a datetime, or an ISO timestamp."""
    if since is None:
        return None
    text = since.isoformat() if isinstance(since, datetime) else since
    if isinstance(since, int) and not isinstance(since, bool):
        text = str(since)
    if not isinstance(text, str) or InitialPosition.parse_place(text, parameter="since") is None:
        raise InputError(
            f"since={since!r} is not {_SINCE_FORMS}",
            consequence="It is not clear from where to look: nothing is ever newer than 'latest', and for 'full' every "
            "row is new",
            remedy=f"use {_SINCE_FORMS}, such as '2026-10-01T00:00:00+00:00'",
        )
    return text


def _refuse_one_snapshot_for_several(since: object, sources: tuple[SourceTable, ...]) -> None:
    text = parse_since(since)
    if text is None or len(sources) == 1 or InitialPosition.parse(text).kind != "snapshot":
        return
    raise InputError(
        f"since={text!r} is one snapshot, and there are {len(sources)} tables",
        consequence="A snapshot is in the lineage of one table only",
        remedy="use a time such as '2026-10-01T00:00:00+00:00', or a sensor for each table",
    )


def parse_interval(name: str, seconds: object) -> float:
    """Read a number of seconds above zero."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        raise InputError(
            f"{name}={seconds!r} is not a length of time above zero",
            consequence="The catalog would be polled without a pause",
            remedy=f"set {name} to seconds, for example 60",
        )
    return float(seconds)


def _missing(value: object) -> str:
    if value not in MISSING:
        unclear = "What to do about a table that does not exist yet is not specified"
        raise unknown_choice("missing", value, MISSING, consequence=unclear)
    return str(value)
