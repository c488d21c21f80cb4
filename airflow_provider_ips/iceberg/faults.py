"""The edge of this ring: what PyIceberg, its storage and its databases raise leaves as one of our errors."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.errors import CatalogError, UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_CREDENTIALS: Final = re.compile(r"(?P<scheme>[a-z0-9+.\-]+://)[^/\s@]+@", re.IGNORECASE)
_SECRET_PAIR: Final = re.compile(
    r"(?i)((?:[\w.\-]*(?:password|passwd|secret|token|credential|signature)[\w.\-]*|[\w.]*access[-_]?key[\w.\-]*"
    r"|authorization|bearer)[\"']?\s*[=:]\s*[\"']?)(?:(?:bearer|basic)\s+)?[^\s,;&\"'<>}]+"
)
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/\-]{8,}=*")

# A gateway that got no answer in time says nothing about what the server behind it is still going to do.
_NO_ANSWER_YET: Final = frozenset({408, 425, 502, 503, 504})


def redact(text: str) -> str:
    """Take passwords, keys and tokens out of a message that a library or a server composed."""
    text = _CREDENTIALS.sub(r"\g<scheme>***@", text)
    return _BEARER.sub(r"\1 ***", _SECRET_PAIR.sub(r"\1***", text))


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
    return redact(f"{type(error).__name__}: {text}")[:400]


def showable(error: Exception | None) -> Exception | None:
    """The error as the cause of ours, if nothing in its chain is secret: a log shows every message of the chain."""
    link: BaseException | None = error
    while link is not None:
        if redact(str(link)) != str(link):
            return None
        link = link.__cause__ or link.__context__
    return error


def may_still_happen(error: Exception) -> bool:
    """Whether a request that failed like this may be carried out all the same, now or after this process has looked."""
    from pyiceberg import exceptions

    status = _http_status(error)
    if status is not None:
        return status in _NO_ANSWER_YET
    if isinstance(error, exceptions.CommitStateUnknownException | exceptions.ServiceUnavailableError):
        return True
    # PyIceberg raises of itself what is decided. All else is a connection that broke, or an answer of no known form.
    return type(error).__module__ != exceptions.__name__


def _http_status(error: BaseException) -> int | None:
    """PyIceberg gives its own errors the one of requests as cause, and that one has the answer."""
    link: BaseException | None = error
    while link is not None:
        status = getattr(getattr(link, "response", None), "status_code", None)
        if isinstance(status, int):
            return status
        link = link.__cause__
    return None


_STORAGE_DENIES: Final = re.compile(
    r"ACCESS_DENIED|SIGNATURE_DOES_NOT_MATCH|INVALID_(ACCESS_KEY|CLIENT_TOKEN)|InvalidAccessKeyId|access denied|"
    r"HTTP status 40[13]|expired|EXPIRED_TOKEN|Permission denied",
    re.IGNORECASE,
)
_STORAGE_LACKS: Final = re.compile(r"NO_SUCH_BUCKET|NO_SUCH_KEY|Path does not exist|No such file|Cannot open file")
_STORAGE_FAILS: Final = re.compile(
    r"SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|NETWORK_CONNECTION|REQUEST_TIMEOUT|HTTP status 5\d\d"
)
_CHECKSUMS: Final = re.compile(r"HTTP status (400|501)\) during (UploadPart|PutObject|CreateMultipartUpload)")

_BY_STATUS: Final = {
    400: "the catalog does not understand the request: check the catalog's type, its address with its path "
    "(for example /iceberg) and the warehouse in the connection",
    401: "check the credential or token in the connection: the catalog does not accept it, or it has expired",
    403: "let the connection's user read the source, and create and drop tables in the ICDC namespace",
    404: "check the catalog's address with its path, the warehouse and the names in the connection",
    419: "check the credential or token in the connection: it has expired",
}
_TRANSIENT: Final = (
    "retry the task: the catalog did not answer, or failed by itself; if it stays so, look at its own log, and check "
    "that its address in the connection is reached from where tasks run"
)
_STORAGE_TRANSIENT: Final = (
    "retry the task: the storage did not answer, or failed by itself; if it stays so, check that the endpoint in the "
    "connection is reached from where tasks run"
)
_RIGHTS: Final = (
    "source and ICDC table are opened each with the keys that the catalog hands out for it, or else those in the "
    "connection's extra (s3.access-key-id and so on): let them read the source's metadata and write under the ICDC "
    "table's location, or move that by icdc_location to where they may"
)
_MISSING: Final = (
    "check that bucket and endpoint in the connection are right; if they are, a file that the table needs was deleted "
    "behind the catalog's back"
)
_PLAIN_UPLOADS: Final = (
    "the storage refuses uploads with the checksums that newer S3 clients send: set AWS_REQUEST_CHECKSUM_CALCULATION="
    "when_required in the environment of Airflow's tasks, or update the storage; without keys in the connection's "
    "extra the same error appears, so check these first"
)
_ANYTHING: Final = "check that catalog and storage answer and that the connection may do this, then retry the task"
_BY_STORAGE: Final = (
    (_CHECKSUMS, _PLAIN_UPLOADS),
    (_STORAGE_DENIES, _RIGHTS),
    (_STORAGE_LACKS, _MISSING),
    (_STORAGE_FAILS, _STORAGE_TRANSIENT),
)


def remedy_for(error: BaseException) -> str:
    """What to do about a foreign error, as far as it tells."""
    from requests import RequestException

    status = _http_status(error)
    if status is not None:
        return _BY_STATUS.get(status, _TRANSIENT)
    if isinstance(error, RequestException):
        return _TRANSIENT
    text = str(error)
    return next((remedy for pattern, remedy in _BY_STORAGE if pattern.search(text)), _ANYTHING)


NOTHING_HAPPENED: Final = "Nothing was captured and no checkpoint moved"


@contextmanager
def mapped(doing: str, *, consequence: str = NOTHING_HAPPENED, remedy: str = "") -> Iterator[None]:
    """Turn a foreign error into a :class:`CatalogError` that says what was being done, and where that leaves things."""
    try:
        yield
    except ImportError as error:  # PyIceberg asks for the package of a file system or of a codec when it meets one
        raise UnsupportedTableError(
            f"{doing} needs a package that is not installed: {describe(error)}",
            consequence=consequence,
            remedy="install the named package where Airflow's tasks run",
        ) from error
    except foreign_faults() as error:
        raise CatalogError(
            f"{doing} failed: {describe(error)}",
            consequence=consequence,
            remedy=remedy or remedy_for(error),
        ) from showable(error)
