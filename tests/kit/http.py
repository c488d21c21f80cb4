"""HTTP servers in a thread of the test's own process."""

from __future__ import annotations

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from scripts.loopback import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator


class Handler(BaseHTTPRequestHandler):
    """Has one method for all requests, which looks at ``self.command``, and prints none of them."""

    protocol_version = "HTTP/1.1"

    def handle_request(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.handle_request()

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - as the base class looks for them

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, body: bytes = b"", content_type: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - named by the base class
        pass


@contextlib.contextmanager
def http_server(handler: type[Handler]) -> Iterator[ThreadingHTTPServer]:
    """Answer on a free port of loopback until the block ends."""
    with ThreadingHTTPServer((HOST, 0), handler) as listening:
        listening.daemon_threads = True
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield listening
        finally:
            listening.shutdown()
            thread.join()
