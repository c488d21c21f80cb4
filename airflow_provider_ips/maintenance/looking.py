"""Verbs that only look: list, show, history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import CheckpointError
from airflow_provider_ips.maintenance.desk import existing, open_store
from airflow_provider_ips.maintenance.rows import consumer_row, history_rows, problem_row, source_rows

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_provider_ips.core.store import CheckpointStore
    from airflow_provider_ips.maintenance.desk import Desk, Row


def list_consumers(desk: Desk, args: Namespace) -> None:
    """One row per consumer, damaged ones included."""
    store = open_store(desk, args)
    desk.show([_listed(store, where, consumer) for where, consumer in store.documents()])


def show(desk: Desk, args: Namespace) -> None:
    """Where a consumer stands."""
    desk.show(source_rows(existing(open_store(desk, args), args.consumer)))


def history(desk: Desk, args: Namespace) -> None:
    """What a consumer has committed, and what people did to it."""
    desk.show(history_rows(existing(open_store(desk, args), args.consumer)))


def _listed(store: CheckpointStore, where: str, consumer: str | None) -> Row:
    if consumer is None:
        return problem_row(where, "damaged")
    try:
        found = store.read(consumer)
    except CheckpointError as error:
        return problem_row(consumer, error.problem)
    return problem_row(consumer, "no document yet") if found is None else consumer_row(consumer, found)
