"""A TCP proxy on loopback before PostgreSQL that passes bytes on, and can cut a connection before an answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 65536


class Cutter:
    """Where to connect, and when to cut."""

    def __init__(self, host: str, port: int) -> None:
        name, _, number = host.partition(":")
        self.behind = (name, int(number))
        self.address = f"127.0.0.1:{port}"
        self.cuts = 0
        self._after: bytes | None = None
        self._at = b""
        self._reaches = True
        self._left = 0

    @contextlib.contextmanager
    def cutting(self, *, after: bytes, at: bytes, reaches: bool = True, times: int = 1) -> Iterator[None]:
        """Cut the next connections that send ``at`` once they have sent ``after``.

        The server answers before its client's connection is cut; or, unless it ``reaches`` it, never sees ``at``.
        """
        self._after, self._at, self._reaches, self._left = after, at, reaches, times
        yield
        self._after = None

    def serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self.behind) as server:
            deaf = threading.Event()
            answers = threading.Thread(target=_pump, args=(server, client, deaf), daemon=True)
            answers.start()
            self._ask(client, server, deaf)
            answers.join()

    def _ask(self, client: socket.socket, server: socket.socket, deaf: threading.Event) -> None:
        said = b""
        while chunk := _receive(client):
            said = b"" if self._after is None else said + chunk
            if self._left and self._after and self._after in said and self._at in said.partition(self._after)[2]:
                self._left -= 1
                self.cuts += 1
                deaf.set()
                if self._reaches:
                    server.sendall(chunk)
                    return
                client.shutdown(socket.SHUT_RDWR)
                break
            server.sendall(chunk)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_WR)


def _pump(source: socket.socket, target: socket.socket, deaf: threading.Event) -> None:
    while chunk := _receive(source):
        if deaf.is_set():
            break
        with contextlib.suppress(OSError):
            target.sendall(chunk)
    for end in (target, source) if deaf.is_set() else (target,):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR if deaf.is_set() else socket.SHUT_WR)


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(_CHUNK)
    except OSError:
        return b""


@contextlib.contextmanager
def cutter(host: str) -> Iterator[Cutter]:
    """Stand before a server on a free port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        wire = Cutter(host, listening.getsockname()[1])
        thread = threading.Thread(target=_accept, args=(listening, wire), daemon=True)
        thread.start()
        try:
            yield wire
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _accept(listening: socket.socket, wire: Cutter) -> None:
    while True:
        try:
            client, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=wire.serve, args=(client,), daemon=True).start()
