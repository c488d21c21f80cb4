"""Airflow's Variables as a task sees them, and as a command on the server sees them."""

# ruff: noqa: AIR311 - a command has no API server to ask, only the database: there the model is the one that works

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_ips.core.errors import IpsError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class VariableAccess(Protocol):
    """What a store needs of Variables."""

    def get(self, key: str) -> str | None:
        """Return the value. None is no proof of absence: Airflow says the same during an outage."""
        ...

    def set(self, key: str, value: str, *, description: str) -> None:
        """Create or overwrite."""
        ...

    def keys(self, *, prefix: str) -> Sequence[str]:
        """List keys in the metadata database. Raises if the list cannot be had, so its answer is proof."""
        ...

    def shadowed_by(self, key: str) -> str | None:
        """Name what answers in place of the metadata database, as far as this process can tell."""
        ...


class TaskVariables:
    """Within a task or trigger: through the task SDK, which has no database."""

    def get(self, key: str) -> str | None:
        from airflow.sdk import Variable
        from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

        _forget_cached(key)
        with _answered(f"Variable {key!r} could not be read"):
            try:
                return _as_text(Variable.get(key))
            except AirflowRuntimeError as error:
                if error.error.error is ErrorType.VARIABLE_NOT_FOUND:
                    return None
                raise

    def set(self, key: str, value: str, *, description: str) -> None:
        from airflow.sdk import Variable

        with _answered(f"Variable {key!r} could not be written"):
            Variable.set(key, value, description=description)

    def keys(self, *, prefix: str) -> Sequence[str]:
        from airflow.sdk import Variable

        with _answered(f"Variables could not be listed by prefix {prefix!r}"):
            return list(Variable.keys(prefix=prefix))

    def shadowed_by(self, key: str) -> str | None:
        from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

        return _first_with(key, ensure_secrets_backend_loaded())


class ServerVariables:
    """In a command on a machine that reaches the metadata database."""

    def get(self, key: str) -> str | None:
        from airflow.models import Variable

        _forget_cached(key)
        with _answered(f"Variable {key!r} could not be read"):
            return _as_text(Variable.get(key, default_var=None))

    def set(self, key: str, value: str, *, description: str) -> None:
        from airflow.models import Variable

        with _answered(f"Variable {key!r} could not be written"):
            Variable.set(key, value, description=description)

    def keys(self, *, prefix: str) -> Sequence[str]:
        from airflow.models import Variable
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with _answered(f"Variables could not be listed by prefix {prefix!r}"), create_session() as session:
            found = select(Variable.key).where(Variable.key.startswith(prefix, autoescape=True)).order_by(Variable.key)
            return list(session.scalars(found))

    def shadowed_by(self, key: str) -> str | None:
        from airflow.configuration import ensure_secrets_loaded

        return _first_with(key, ensure_secrets_loaded())


_KEEPERS = ("MetastoreBackend", "ExecutionAPISecretsBackend")
"""What reads the metadata database itself, on a server and through the API server."""


def _first_with(key: str, backends: Iterable[Any]) -> str | None:
    """One that fails is passed over, as Airflow does when it reads."""
    for backend in backends:
        if type(backend).__name__ in _KEEPERS:
            continue
        with suppress(Exception):
            if backend.get_variable(key) is not None:
                return type(backend).__name__
    return None


def _forget_cached(key: str) -> None:
    """A cache of secrets, where one is on, may hold an older revision, or the absence before the first."""
    from airflow.sdk import SecretCache

    SecretCache.invalidate_variable(key)


def _as_text(value: object) -> str | None:
    return None if value is None else str(value)


@contextmanager
def _answered(problem: str) -> Iterator[None]:
    """Map whatever Airflow, HTTP or the database raise: for a checkpoint they all mean that the answer is unknown."""
    try:
        yield
    except IpsError:
        raise
    except Exception as error:
        raise StoreUnavailableError(
            f"{problem}: {type(error).__name__}",
            consequence="Where the consumer stands is unknown; taking it for new would process everything again",
            remedy="let the task run again once Airflow's API server and database answer; the log above has the cause",
        ) from error
