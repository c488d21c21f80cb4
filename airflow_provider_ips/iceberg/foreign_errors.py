"""Which of our errors stands in for one of PyIceberg, its storage or its database: none of those leaves this ring."""

from __future__ import annotations

import re
import struct
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from gzip import BadGzipFile
from typing import Final

from airflow_provider_ips.core.errors import CatalogError, UnsupportedTableError
from airflow_provider_ips.redaction import cause_without_secrets, chain_of, redacted_message

NOTHING_CAPTURED: Final = "Nothing was captured and no checkpoint moved"


@contextmanager
def translate_errors(action: str, *, consequence: str = NOTHING_CAPTURED, remedy: str = "") -> Iterator[None]:
    """Raise a :class:`CatalogError` for a foreign error, which says what failed, for example ``loading db.events``."""
    try:
        yield
    except ImportError as error:  # PyIceberg imports the package of a file system or codec when it first needs it
        raise UnsupportedTableError(
            f"{action} needs a package that is not installed: {redacted_message(error)}",
            consequence=consequence,
            remedy="install the named package where Airflow's tasks run",
        ) from cause_without_secrets(error)
    except foreign_errors() as error:
        denied = "permission was denied: " if is_denied(error) else ""
        raise CatalogError(
            f"{action} failed: {denied}{redacted_message(error)}",
            consequence=consequence,
            remedy=remedy or remedy_for(error),
        ) from cause_without_secrets(error)


def is_denied(error: BaseException) -> bool:
    """Whether a catalog or a storage has refused a request because a right is missing."""
    return bool(_DENIES.search(_described(error)))


class parsing:  # noqa: N801 - used like the functions of contextlib
    """Raise an :class:`UnsupportedTableError` that names what was read, if it cannot be what a writer has written.

    A class, because what a generator of contextlib raises again gets a new traceback, and Thrift's errors cannot be
    changed.
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        """Nothing is needed before."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, UnsupportedTableError) and self._what not in error.problem:
            raise UnsupportedTableError(
                f"{self._what}: {error.problem}", consequence=error.consequence, remedy=error.remedy
            ) from error.__cause__
        if isinstance(error, Exception) and _is_unparsable(error):
            raise UnsupportedTableError(
                f"{self._what} cannot be parsed: {redacted_message(error)}",
                consequence="It is not known which rows the table has",
                remedy="if engines can read the table, it may be of a later version of Iceberg: update PyIceberg where "
                "Airflow's tasks run. If they cannot, check the storage: the file was cut off or overwritten",
            ) from cause_without_secrets(error)


_BAD_BYTES: Final = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, EOFError, RecursionError),
    *(NotImplementedError, MemoryError, re.error, struct.error, zlib.error),
)


def _is_unparsable(error: Exception) -> bool:
    """Whether an error is about bytes that were read. A response that is not of the REST protocol is an outage."""
    from pydantic import ValidationError
    from pyiceberg import exceptions

    if isinstance(error, ValidationError):
        return not (error.title.endswith("Response") and all(each["type"] == "json_invalid" for each in error.errors()))
    if isinstance(error, exceptions.ValidationError | exceptions.ResolveError | BadGzipFile):
        return True
    return isinstance(error, _BAD_BYTES) and not is_foreign(error)


_PACKAGES: Final = frozenset(
    {
        *("pyiceberg", "pydantic_core", "pyarrow", "requests", "urllib3", "aiohttp", "sqlalchemy", "tenacity"),
        *("boto3", "botocore", "azure", "google", "gcsfs", "grpc", "thrift"),
    }
)
"""What catalogs and storage are reached with. Few are installed, so their errors are known by the names of modules."""


def is_foreign(error: BaseException) -> bool:
    """Whether a catalog or a storage raises such an error by design. Any other error is a bug and stays one."""
    return isinstance(error, OSError) or not _PACKAGES.isdisjoint(_packages_of(error))


def _packages_of(error: BaseException) -> set[str]:
    return {each.__module__.partition(".")[0] for each in type(error).__mro__}


def foreign_errors() -> tuple[type[Exception], ...]:
    """What an ``except`` clause catches: the type of the error that is being handled, if it is a foreign one."""
    error = sys.exception()
    return (type(error),) if isinstance(error, Exception) and is_foreign(error) else ()


_MAY_STILL_BE_PROCESSED: Final = frozenset({408, 425, 502, 503, 504})
"""A gateway that got no answer in time does not know whether the server will carry the request out."""


_REFUSED_BY_DATABASE: Final = frozenset({"ProgrammingError", "IntegrityError", "DataError", "NotSupportedError"})
"""By Python's rules for database clients: the statement is wrong or not allowed, so it was not carried out."""


def outcome_is_unknown(error: Exception) -> bool:
    """Whether a request that failed with this error may still be carried out, even after a look for its effect."""
    from pyiceberg import exceptions

    status = _status_of(error)
    if status is not None:
        return status in _MAY_STILL_BE_PROCESSED
    if isinstance(error, exceptions.CommitStateUnknownException | exceptions.ServiceUnavailableError):
        return True
    if "sqlalchemy" in _packages_of(error):
        return _REFUSED_BY_DATABASE.isdisjoint(each.__name__ for each in type(error).__mro__)
    # PyIceberg's other errors are the catalog's decision. All else is a broken connection, or an unreadable answer.
    return type(error).__module__ != exceptions.__name__


def _status_of(error: BaseException) -> int | None:
    """The HTTP status in an error or a cause of it, wherever requests, botocore, Azure's or Google's client has it."""
    for link in chain_of(error):
        response = getattr(link, "response", None)
        if isinstance(response, Mapping):
            response = response.get("ResponseMetadata") or {}
        of_aws = response.get("HTTPStatusCode") if isinstance(response, Mapping) else None
        of_response, of_error = getattr(response, "status_code", None), getattr(link, "status_code", None)
        for status in (of_aws, of_response, of_error, getattr(link, "code", None)):
            if isinstance(status, int) and 100 <= status < 600:  # noqa: PLR2004 - the range of HTTP
                return int(status)
    return None


_DENIES: Final = re.compile(
    r"ACCESS_?DENIED|SIGNATURE_?DOES_?NOT_?MATCH|INVALID_?(ACCESS_?KEY|CLIENT_?TOKEN)|access denied|not authorized|"
    r"HTTP status (401|403|419)|(?<!timeout )expired|EXPIRED_?TOKEN|Permission ?(Error|denied)|NoCredentials|"
    r"Unable to locate credentials|RefreshError|AuthenticationFailed|AuthorizationFailure",
    re.IGNORECASE,
)
_LACKS: Final = re.compile(
    r"NO_?SUCH_?(BUCKET|KEY)|Path does not exist|No such file|Cannot open file|(Blob|Container)NotFound|"
    r"HTTP status 404",
    re.IGNORECASE,
)
_FAILS: Final = re.compile(
    r"SLOW_?DOWN|SERVICE_?UNAVAILABLE|INTERNAL_?(FAILURE|SERVER|SERVICE)|NETWORK_CONNECTION|time(d )?-?_?out|throttl|"
    r"TooManyRequests|LimitExceeded|(can ?not|could not) connect|connection|TTransport|TSocket|HTTP status (429|5\d\d)",
    re.IGNORECASE,
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
    "retry the task: the catalog did not answer, or had a failure; if that does not help, look at the catalog's "
    "log, and check that tasks can reach its address in the connection"
)
_STORAGE_TRANSIENT: Final = (
    "retry the task: the storage did not answer, or had a failure; if that does not help, check that tasks can "
    "reach the endpoint in the connection"
)
_RIGHTS: Final = (
    "source and ICDC table are each opened with the credentials that the catalog hands out for it, or else with those "
    "in the connection's extra (s3.access-key-id and so on): allow them to read the source's metadata and to write to "
    "the ICDC table's location, or set icdc_location to a place where they may write"
)
_MISSING: Final = (
    "check that bucket and endpoint in the connection are right; if they are, a file that the table needs was deleted "
    "without the catalog's knowledge"
)
_PLAIN_UPLOADS: Final = (
    "the storage refuses uploads with the checksums that newer S3 clients send: set AWS_REQUEST_CHECKSUM_CALCULATION="
    "when_required in the environment of Airflow's tasks, or update the storage; without keys in the connection's "
    "extra the same error appears, so check these first"
)
_ANYTHING: Final = "check that catalog and storage answer and that the connection may do this, then retry the task"
_BY_TEXT: Final = (  # what to do where storage said it, and where a catalog's service did
    (_CHECKSUMS, _PLAIN_UPLOADS, _PLAIN_UPLOADS),
    (_DENIES, _RIGHTS, _BY_STATUS[403]),
    (_LACKS, _MISSING, _BY_STATUS[404]),
    (_FAILS, _STORAGE_TRANSIENT, _TRANSIENT),
)
_SERVICES: Final = frozenset({"botocore", "thrift"})


def remedy_for(error: BaseException) -> str:
    """What to do about a foreign error, as far as its status or message shows the reason."""
    packages, status = _packages_of(error), _status_of(error)
    if "requests" in packages or ("pyiceberg" in packages and status is not None):
        return _TRANSIENT if status is None else _BY_STATUS.get(status, _TRANSIENT)
    text, is_service = _described(error), not packages.isdisjoint(_SERVICES)
    found = ((storage, service) for pattern, storage, service in _BY_TEXT if pattern.search(text))
    return next(found, (_ANYTHING, _ANYTHING))[is_service]


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error} HTTP status {_status_of(error)}"
