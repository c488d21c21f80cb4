"""An HTTP proxy on loopback that passes requests on to a real server, and meddles with those it is told to."""

from __future__ import annotations

import contextlib
import functools
import http.client
import re
import socket
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.kit.http import Handler, http_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# Between two servers, not for the one behind; http.client and this proxy write their own.
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})

DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class When(Enum):
    """What becomes of a request that is meddled with."""

    NEVER = "the server behind does not see it"
    BEFORE = "the server behind carries it out, and its answer is thrown away"
    LATER = "the server behind gets it only once it is released, after the client has its answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meddling:
    """A fault for requests of one kind. Without a status, the connection is closed instead of an answer."""

    method: str
    path: str
    when: When
    status: int | None = None
    body: bytes = b""

    def concerns(self, method: str, path: str) -> bool:
        return method == self.method and re.search(self.path, path) is not None


class Meddler:
    """The proxy's address, and what it does."""

    def __init__(self, behind: str, port: int) -> None:
        self.behind = urlsplit(behind)
        self.address = f"http://127.0.0.1:{port}{self.behind.path}"
        self._meddlings: list[Meddling] = []
        self._held: list[Callable[[], object]] = []
        self.requests: list[tuple[str, str]] = []
        self.connections: set[socket.socket] = set()
        self.guard: Callable[[str, Mapping[str, str]], bool] = lambda _path, _headers: True

    @contextlib.contextmanager
    def meddling(
        self, method: str, path: str, when: When, *, status: int | None = None, body: bytes = b""
    ) -> Iterator[None]:
        """Meddle with every request of this kind while the block lasts."""
        wanted = Meddling(method=method, path=path, when=when, status=status, body=body)
        self._meddlings.append(wanted)
        try:
            yield
        finally:
            self._meddlings.remove(wanted)

    def release(self) -> None:
        """Let the server behind have the requests that were held back."""
        while self._held:
            self._held.pop(0)()

    def hold(self, request: Callable[[], object]) -> None:
        self._held.append(request)

    def fault_for(self, method: str, path: str) -> Meddling | None:
        return next((m for m in self._meddlings if m.concerns(method, path)), None)


@contextlib.contextmanager
def meddler(behind: str) -> Iterator[Meddler]:
    """Stand before a server on a free port of loopback."""
    with http_server(_Handler) as listening:
        proxy = Meddler(behind, listening.server_port)
        listening.meddler = proxy  # type: ignore[attr-defined]
        try:
            yield proxy
        finally:
            for connection in list(proxy.connections):
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(Handler):
    def setup(self) -> None:
        super().setup()
        self.server.meddler.connections.add(self.connection)  # type: ignore[attr-defined]

    def finish(self) -> None:
        self.server.meddler.connections.discard(self.connection)  # type: ignore[attr-defined]
        with contextlib.suppress(OSError):
            super().finish()

    def handle_request(self) -> None:
        proxy: Meddler = self.server.meddler  # type: ignore[attr-defined]
        body = self.read_body()
        proxy.requests.append((self.command, self.path))
        # Bound now: by the time a held request is released, this handler has had others on its connection.
        pass_on = functools.partial(_pass_on, proxy.behind.netloc, self.command, self.path, self.headers.items(), body)
        fault = proxy.fault_for(self.command, self.path)
        if not proxy.guard(self.path, dict(self.headers.items())):
            self._answer(403, [("Content-Type", "application/xml")], DENIED)
            return
        if fault is None:
            self._answer(*pass_on())
            return
        if fault.when is When.BEFORE:
            pass_on()
        elif fault.when is When.LATER:
            proxy.hold(pass_on)
        if fault.status is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self._answer(fault.status, [("Content-Type", "application/json")], fault.body)

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        length = str(len(body))
        for name, value in headers:
            if self.command == "HEAD" and name.lower() == "content-length":
                length = value
            elif name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _pass_on(
    behind: str, method: str, path: str, headers: list[tuple[str, str]], body: bytes
) -> tuple[int, list[tuple[str, str]], bytes]:
    """With the Host that the client sent: it is part of what S3 clients sign, and of the addresses Nessie gives."""
    connection = http.client.HTTPConnection(behind, timeout=60)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            if name.lower() not in _HOP:
                connection.putheader(name, value)
        if body or method in ("POST", "PUT"):
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()
    finally:
        connection.close()
