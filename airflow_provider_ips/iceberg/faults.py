"""The edge of this ring: what PyIceberg, its storage and its databases raise leaves as one of our errors."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import CatalogError, UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_CREDENTIALS = re.compile(r"(?P<scheme>[a-z0-9+.\-]+://)[^/\s@]+@", re.IGNORECASE)
_SECRET_PAIR = re.compile(r"(?i)(password|secret|token|credential|signature)([\"']?\s*[=:]\s*[\"']?)[^\s,;&\"']+")


def redact(text: str) -> str:
    """Take passwords out of a message that a library composed."""
    return _SECRET_PAIR.sub(r"\1\2***", _CREDENTIALS.sub(r"\g<scheme>***@", text))


@cache
def foreign_faults() -> tuple[type[Exception], ...]:
    """Every error that a catalog or a storage raises by design. Anything else is a bug and stays one."""
    import pyiceberg.exceptions
    from pydantic import ValidationError
    from requests import RequestException

    named = [
        value
        for value in vars(pyiceberg.exceptions).values()
        if isinstance(value, type) and issubclass(value, Exception)
    ]
    try:
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError:  # a REST-only installation has no SQLAlchemy
        return (*named, OSError, RequestException, ValidationError)
    return (*named, OSError, RequestException, ValidationError, SQLAlchemyError)


def describe(error: BaseException) -> str:
    """One line, without secrets."""
    text = " ".join(str(error).split())
    return redact(f"{type(error).__name__}: {text[:300]}")


@contextmanager
def mapped(doing: str, *, remedy: str = "") -> Iterator[None]:
    """Turn a foreign error into a :class:`CatalogError` that says what was being done."""
    try:
        yield
    except ImportError as error:  # PyIceberg asks for the package of a file system or of a codec when it meets one
        raise UnsupportedTableError(
            f"{doing} needs a package that is not installed: {describe(error)}",
            consequence="Nothing was captured and no checkpoint moved",
            remedy="install the named package where Airflow's tasks run",
        ) from error
    except foreign_faults() as error:
        raise CatalogError(
            f"{doing} failed: {describe(error)}",
            consequence="Nothing was captured and no checkpoint moved",
            remedy=remedy
            or "check that catalog and storage answer and that the connection may do this, then retry the task",
        ) from error
