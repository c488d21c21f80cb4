"""Keys that open one table's folder only: a token service that hands them out, and a guard before S3 that checks them.

The token service gives every session the server's own keys and a token; what the token opens is the policy that Nessie
asked it for. So the guard alone tells sessions apart, as Amazon's S3 would.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from tests.kit.http import Handler, http_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.kit.servers import Storage

ANSWER = """\
<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
<AssumedRoleUser><AssumedRoleId>id:tests</AssumedRoleId><Arn>arn:aws:sts::1:assumed-role/r/tests</Arn></AssumedRoleUser>
<Credentials><AccessKeyId>{access_key}</AccessKeyId><SecretAccessKey>{secret_key}</SecretAccessKey>
<SessionToken>{token}</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>
</AssumeRoleResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></AssumeRoleResponse>
"""


class Sessions:
    """What each token opens, as patterns of ``bucket/key``."""

    def __init__(self, address: str, storage: Storage) -> None:
        self.address = address
        self._storage = storage
        self._opens: dict[str, list[str]] = {}
        self._numbers = itertools.count(1)
        self._closed = False

    def begin(self, policy: str) -> str:
        """Give the answer to one AssumeRole."""
        token = f"session-secret-{next(self._numbers)}-4711"
        statements = json.loads(policy)["Statement"]
        objects = [s["Resource"] for s in statements if s["Effect"] == "Allow" and "s3:GetObject" in s["Action"]]
        self._opens[token] = [arn.removeprefix("arn:aws:s3:::") for arns in objects for arn in arns]
        return ANSWER.format(access_key=self._storage.access_key, secret_key=self._storage.secret_key, token=token)

    @contextlib.contextmanager
    def opening_nothing(self) -> Iterator[None]:
        """Let no session in, as a policy does that somebody forgot to extend."""
        self._closed = True
        yield
        self._closed = False

    @property
    def tokens(self) -> set[str]:
        return set(self._opens)

    def allow(self, path: str, headers: Mapping[str, str]) -> bool:
        """Tell whether a request may pass; lists of a bucket may."""
        sent = {name.lower(): value for name, value in headers.items()}
        if "x-amz-security-token" not in sent:
            return True  # no session: the server behind knows its own keys, and nobody else
        opens = [] if self._closed else self._opens.get(sent["x-amz-security-token"], [])
        wanted = [unquote(urlsplit(path).path).lstrip("/")]
        if "x-amz-copy-source" in sent:
            wanted.append(unquote(sent["x-amz-copy-source"]).lstrip("/"))
        objects = [name for name in wanted if "/" in name.rstrip("/")]
        return bool(opens) and all(any(fnmatchcase(name, p) for p in opens) for name in objects)


@contextlib.contextmanager
def token_service(storage: Storage) -> Iterator[Sessions]:
    """The one call of Amazon's token service that Nessie makes, on a free port of loopback."""
    with http_server(_Handler) as listening:
        sessions = Sessions(f"http://127.0.0.1:{listening.server_port}/", storage)
        listening.sessions = sessions  # type: ignore[attr-defined]
        yield sessions


class _Handler(Handler):
    def handle_request(self) -> None:
        form = parse_qs(self.read_body().decode())
        session = self.server.sessions.begin(form["Policy"][0])  # type: ignore[attr-defined]
        self.answer(200, session.encode(), "text/xml")
