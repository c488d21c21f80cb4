r"""What no message may show: secrets in messages that libraries and servers write.

Known secrets are the values of a connection. They are found however they are spelled, and patterns find others.

    {"token": "ab-cd\nef-gh"}     ab-cd\nef-gh as it is, escaped, encoded for a URL; ab-cd and ef-gh by themselves
    {"s3.region": "eu-north-1"}   nothing: its name says that it is not a secret
    {"uri": "http://me:pw@host"}  me:pw and pw
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
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
    r"[\w.\-]{0,60}(?:password|passwd|secret|token|credential|signature)[\w.\-]{0,60}"
    r"|[\w.\-]{0,60}(?:access|api|account|shared)[-_]?key[\w.\-]{0,60}|sig|authorization|bearer|header\.[\w.\-]{1,60}"
)
_SECRET_PAIR: Final = re.compile(
    rf"(?i)((?<![a-z])(?:{_NAMES})[\"']?\s*[=:]\s*[\"']?)(?:(?:bearer|basic)\s+)?([^\s,;&\"'<>}}]+)"
)
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/\-]{8,}=*")
_USER_INFO: Final = re.compile(r"(?i)(?P<scheme>[a-z0-9+.\-]{1,20}://)(?:[^/\s@:]*:[^\s\"'<>]*|[^/\s@]+)@")

_ESCAPES: Final[tuple[Callable[[str], str], ...]] = (
    lambda text: quote(_bytes(text), safe=""),
    lambda text: re.sub("%..", lambda escape: escape[0].lower(), quote(_bytes(text), safe="")),
    lambda text: quote(_bytes(text)),
    lambda text: quote_plus(_bytes(text)),
    lambda text: repr(text)[1:-1],
    lambda text: repr('"' + text)[2:-1],  # as in a string that holds both kinds of quotes
    lambda text: repr(_bytes(text))[2:-1],
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text)[1:-1].replace("/", r"\/"),
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    html.escape,
)
"""How a string is written in URLs, literals of Python and JSON, and pages; also twice: a request's body in an error."""

_LONGEST: Final = 20_000
"""Characters of a message that are looked at. Servers answer with whole pages, of which an error shows a line."""

_known: dict[str, set[str]] = {}
"""Secrets, and their spellings."""


def remember_secrets(properties: Mapping[str, object]) -> list[str]:
    """Have the secrets among a catalog's properties replaced in all messages; return what to hide in other logs.

    Airflow compiles one pattern of all that it hides whenever one more is added: these are few, and the long ones last.
    """
    secrets = {secret for secret in _secrets_in(properties) if secret.lower() not in ("true", "false")}
    for secret in secrets - _known.keys():
        _known[secret] = _spellings(secret)
    for oldest in list(_known)[:-_MAX_REMEMBERED]:
        del _known[oldest]
    masks = {text for secret in secrets for text in (*_parts(secret), *_escaped(secret), *_in_base64(_bytes(secret)))}
    return sorted((mask for mask in masks if len(mask.strip()) >= _SHORTEST), key=len)


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
            yield from re.split("[;,=]", value) if name.lower().startswith("header.") else ()
        yield from _secrets_in_text(value)
    elif isinstance(value, int) and re.fullmatch(_NAMES, name, re.IGNORECASE):
        yield str(value)


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
    if text.lstrip().startswith(("{", "[")):
        yield from _secrets_in(_parsed(text))


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _parts(secret: str) -> set[str]:
    """A secret whole, decoded, on one line, line by line and word by word."""
    return {secret, unquote(secret), " ".join(secret.split()), *secret.splitlines(), *secret.split()}


def _escaped(text: str) -> set[str]:
    return {text, *(escape(text) for escape in _ESCAPES)}


def _spellings(secret: str) -> set[str]:
    """A secret and its parts as errors show them: escaped up to twice, within base64, or as hex."""
    found: set[str] = set()
    for part in _parts(secret):
        found |= {spelling for once in _escaped(part) for spelling in _escaped(once)}
        found |= {*_in_base64(_bytes(part)), _bytes(part).hex()}
    return {spelling for spelling in found if len(spelling.strip()) >= _SHORTEST}


def _in_base64(secret: bytes) -> Iterator[str]:
    """What base64 shows of a secret within anything, whatever comes before and after it.

    Three bytes are four characters, so there are three ways, by where it begins:

        user:secret      dXNlcjpzZWNyZXQ=      the part of "secret" without its neighbours' bits: zZWNyZX
    """
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(bytes(before) + secret).decode().rstrip("=")
            yield text[(0, 2, 3)[before] : len(text) - ((before + len(secret)) % 3 > 0)]


def _bytes(text: str) -> bytes:
    return text.encode(errors="replace")


def redact(text: str) -> str:
    """Replace passwords, keys and tokens in a message that a library or a server wrote."""
    text = text[:_LONGEST]
    lower = text.lower()
    found = {spelling for spellings in _known.values() for spelling in spellings if spelling.lower() in lower}
    for spelling in sorted(found, key=len, reverse=True):  # so that no tail is left of one that starts like another
        text = re.sub(re.escape(spelling), "***", text, flags=re.IGNORECASE)
    text = _USER_INFO.sub(r"\g<scheme>***@", text)
    return _BEARER.sub(r"\1 ***", _SECRET_PAIR.sub(r"\1***", text))


def redacted_message(error: BaseException) -> str:
    """Type and message of an error on one line, without secrets."""
    _remember_sent(error)
    return redact(f"{type(error).__name__}: {' '.join(str(error).split())}")[:400]


def _remember_sent(error: BaseException) -> None:
    """Know the token that a request was sent with. A catalog may have handed it out, so no connection has it."""
    for link in chain_of(error):
        request = getattr(getattr(link, "response", None), "request", None) or getattr(link, "request", None)
        headers = getattr(request, "headers", None)
        if isinstance(headers, Mapping):
            sent = (str(headers.get(name) or "") for name in ("Authorization", "Proxy-Authorization"))
            remember_secrets({"token": [value.rpartition(" ")[2] for value in sent if value]})


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """An error, its cause, that one's cause, and so on. Some clients raise errors that are their own cause."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def cause_without_secrets(error: BaseException | None) -> BaseException | None:
    """The error, as the cause of ours; None if a log, which shows the whole chain, would show a secret or never end."""
    last: BaseException | None = None
    for last in chain_of(error):
        if not _is_harmless(last):
            return None
    return error if last is None or (last.__cause__ or last.__context__) is None else None


def _is_harmless(error: BaseException) -> bool:
    """Whether nothing is redacted in what a log shows of one error: its text, its notes, the errors of a group."""
    shown = "\n".join((str(error), *getattr(error, "__notes__", ())))
    within = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return redact(shown) == shown and all(cause_without_secrets(each) is not None for each in within)
