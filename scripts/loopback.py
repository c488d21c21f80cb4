"""The one address that the servers of demo and tests listen on, and free ports there."""

from __future__ import annotations

import socket
from typing import Final

HOST: Final = "127.0.0.1"


def free_port() -> int:
    """Return a port that nobody listens on, for a server that can't choose one itself and say which it was."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
