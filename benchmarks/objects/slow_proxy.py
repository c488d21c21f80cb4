"""An HTTP proxy before an object store that answers each request later, and counts them: a store that is far away.

    python -m benchmarks.objects.slow_proxy 127.0.0.1:9000 30

Prints its port, then answers each line on standard input with what it has counted since the last one. It ends with
its standard input.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

_END_OF_HEAD = b"\r\n\r\n"


@dataclass(slots=True)
class Counts:
    """Requests since they were last told, by method, and the most that were under way at once."""

    methods: Counter[str] = field(default_factory=Counter)
    under_way: int = 0
    most_at_once: int = 0

    def begin(self, method: str) -> None:
        self.methods[method] += 1
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)

    def take(self) -> str:
        told = {"requests": self.methods.total(), "most_at_once": self.most_at_once, "methods": dict(self.methods)}
        self.methods.clear()
        self.most_at_once = self.under_way
        return json.dumps(told)


class Proxy:
    """Passes requests on, one connection to the store for each of a client's."""

    def __init__(self, host: str, port: int, delay_s: float) -> None:
        self.counts = Counts()
        self._store = host, port
        self._delay_s = delay_s

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_store, to_store = await asyncio.open_connection(*self._store)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(_END_OF_HEAD)
                method = head.split(b" ", 1)[0].decode()
                self.counts.begin(method)
                try:
                    await self._exchange(head, method, reader, writer, from_store, to_store)
                finally:
                    self.counts.under_way -= 1
        to_store.close()
        writer.close()

    async def _exchange(
        self,
        head: bytes,
        method: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_store: asyncio.StreamReader,
        to_store: asyncio.StreamWriter,
    ) -> None:
        await asyncio.sleep(self._delay_s)
        if re.search(rb"\r\nexpect: *100-continue", head, re.IGNORECASE):
            # Answered here: the client waits for it before it sends the body.
            head = re.sub(rb"\r\nexpect: *100-continue", b"", head, flags=re.IGNORECASE)
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        to_store.write(head)
        await _relay_body(head, reader, to_store)
        answer = await from_store.readuntil(_END_OF_HEAD)
        writer.write(answer)
        has_body = method != "HEAD" and not re.match(rb"HTTP/1.1 (?:1\d\d|204|304)", answer)
        if has_body:
            await _relay_body(answer, from_store, writer)
        await writer.drain()


async def _relay_body(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if re.search(rb"\r\ntransfer-encoding: *chunked", head, re.IGNORECASE):
        while True:
            size_line = await reader.readuntil(b"\r\n")
            chunk = await reader.readexactly(int(size_line.split(b";")[0], 16) + 2)
            writer.write(size_line + chunk)
            if chunk == b"\r\n":
                return
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    left = int(length.group(1)) if length else 0
    while left:
        data = await reader.read(min(left, 1 << 20))
        if not data:
            raise ConnectionError("the body ended early")
        left -= len(data)
        writer.write(data)
        await writer.drain()
    await writer.drain()


async def _main(store: str, delay_ms: float) -> None:
    host, _, port = store.rpartition(":")
    proxy = Proxy(host, int(port), delay_ms / 1000)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(proxy.counts.take(), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], float(sys.argv[2])))
