"""Which failed tasks Airflow tries again: those that failed for an outage, not those that would fail the same way."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ips.core.errors import IpsError

if TYPE_CHECKING:
    from collections.abc import Iterator

_final_types: dict[type[IpsError], type[IpsError]] = {}


@contextmanager
def at_once() -> Iterator[None]:
    """Have Airflow fail the task without another try for an error of ours that no other try would change."""
    try:
        yield
    except IpsError as error:
        if not error.is_permanent:
            raise
        final = _final(type(error), error.problem, error.consequence, error.remedy)
        raise final.with_traceback(error.__traceback__) from error.__cause__


def _final(kind: type[IpsError], problem: str, consequence: str, remedy: str) -> IpsError:
    return _final_type(kind)(problem, consequence=consequence, remedy=remedy)


def _final_type(kind: type[IpsError]) -> type[IpsError]:
    """The same type, as callbacks and logs see it, of which Airflow knows that it is final."""

    def reduced(error: IpsError) -> tuple[object, ...]:
        return _final, (kind, error.problem, error.consequence, error.remedy)

    if kind not in _final_types:
        members = {"__module__": kind.__module__, "__reduce__": reduced}
        _final_types[kind] = type(kind.__name__, (kind, AirflowFailException), members)
    return _final_types[kind]
