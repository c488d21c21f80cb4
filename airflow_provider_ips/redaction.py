r"""What no message may show: secrets in texts that libraries and servers write.

Known secrets are the values of a connection. They are found however they are spelled, and patterns find others.

    {"token": "ab-cd\nef-gh"}     ab-cd\nef-gh as it is, escaped, encoded for a URL; ab-cd and ef-gh by themselves
    {"s3.region": "eu-north-1"}   nothing: its name says that it is not a secret
    {"uri": "http://me:pw@host"}  me:pw and pw
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus, unquote

_SHORTEST: Final = 5
"""Shorter values are parts of ordinary words, and Airflow does not mask them either."""
_MAX_REMEMBERED: Final = 2000
"""Catalogs hand out new credentials all the time: the oldest are forgotten first."""
_NO_SECRET: Final = re.compile(
    r"(?i)(?!header\.).*\b(type|uri|url|name|warehouse|prefix|scope|audience|resource|region|endpoint|impl|enabled|"
    r"timeout|role-arn|project-id|tenant-id|location|namespace|access|consistency|addressing)(-ms)?"
    r"|catalog_name|header\.(x-iceberg-access-delegation|content-type|accept|user-agent)|s3\.signer"
)
_NAMES: Final = (
    r"[\w.\-]*(?:password|passwd|secret|token|credential|signature)[\w.\-]*"
    r"|[\w.\-]*(?:access|api|account|shared)[-_]?key[\w.\-]*|sig|authorization|bearer|header\.[\w.\-]+"
)
_SECRET_PAIR: Final = re.compile(
    rf"(?i)((?<![a-z])(?:{_NAMES})[\"']?\s*[=:]\s*[\"']?)(?:(?:bearer|basic)\s+)?([^\s,;&\"'<>}}]+)"
)
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/\-]{8,}=*")
_USER_INFO: Final = re.compile(r"(?i)(?P<scheme>[a-z0-9+.\-]+://)(?:[^/\s@:]*:[^\s\"'<>]*|[^/\s@]+)@")

_known: dict[str, None] = {}


def remember_secrets(properties: Mapping[str, object]) -> list[str]:
    """Have the secrets among a catalog's properties replaced in all messages; return them in all their spellings."""
    found = [spelling for secret in _secrets_in(properties) for spelling in _spellings(secret)]
    new = [spelling for spelling in found if spelling not in _known]
    _known.update(dict.fromkeys(new))
    for oldest in list(_known)[:-_MAX_REMEMBERED]:
        del _known[oldest]
    return found


def _secrets_in(value: object, name: str = "") -> Iterator[str]:
    """Every value whose name does not say that it is harmless; of a URL or a connection string also its parts."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _secrets_in(inner, str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secrets_in(inner, name)
    elif isinstance(value, str):
        if not _NO_SECRET.fullmatch(name):
            yield value
            yield value.partition(":")[2]  # of a client's id and secret
        yield from _secrets_in_text(value)


def _secrets_in_text(text: str) -> Iterator[str]:
    """Those of a URL, a connection string or a JSON document."""
    for user_info in re.findall(r"(?s)://(.+)@", text):
        yield user_info
        yield user_info.partition(":")[2]
    for separators in (";", "[;&?]"):  # the key in a connection string may hold the separators of a URL
        for pair in re.split(separators, text):
            name, _, value = pair.partition("=")
            if re.fullmatch(_NAMES, name, re.IGNORECASE):
                yield value
    if text.lstrip().startswith("{"):
        yield from _secrets_in(_parsed(text))


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _spellings(secret: str) -> set[str]:
    """A secret as errors show it: decoded or encoded for a URL, escaped in quotes, line by line."""
    if secret.lower() in ("true", "false"):
        return set()
    found = {" ".join(secret.split()), quote(quote(secret.encode(errors="replace"), safe=""))}
    for plain in (secret, unquote(secret), *secret.splitlines(), *secret.split()):
        encoded = plain.encode(errors="replace")
        found |= {plain, quote(encoded, safe=""), quote(encoded), quote_plus(encoded)}
        found |= {repr(plain)[1:-1], json.dumps(plain)[1:-1], repr(encoded)[2:-1], base64.b64encode(encoded).decode()}
    return {spelling for spelling in found if len(spelling.strip()) >= _SHORTEST}


def redact(text: str) -> str:
    """Replace passwords, keys and tokens in a message that a library or a server wrote."""
    lower = text.lower()
    found = [secret for secret in tuple(_known) if secret.lower() in lower]
    for secret in sorted(found, key=len, reverse=True):  # so that no tail is left of one that starts like another
        text = re.sub(re.escape(secret), "***", text, flags=re.IGNORECASE)
    text = _USER_INFO.sub(r"\g<scheme>***@", text)
    return _BEARER.sub(r"\1 ***", _SECRET_PAIR.sub(r"\1***", text))


def redacted_message(error: BaseException) -> str:
    """Type and message of an error on one line, without secrets."""
    return redact(f"{type(error).__name__}: {' '.join(str(error).split())}")[:400]


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """An error, its cause, that one's cause, and so on. Some clients raise errors that are their own cause."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def cause_without_secrets(error: Exception | None) -> Exception | None:
    """The error, as the cause of ours; None if a log, which shows the whole chain, would show a secret or never end."""
    last: BaseException | None = None
    for last in chain_of(error):
        if redact(str(last)) != str(last):
            return None
    return error if last is None or (last.__cause__ or last.__context__) is None else None
