"""Servers as processes of this machine, reachable from nowhere else, gone with the tests that started them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SECONDS_TO_START = 180
SECONDS_TO_STOP = 15

# Ends the server when the pipe from the test runner closes, also because the runner was killed and ran no `finally`,
# and waits until it has ended. Ends itself when the server ends before that.
_GUARD = """
ending=$1; shift
{ trap : "$ending"; "$@" </dev/null; kill -s "$ending" 0; } &
read -r _
trap : "$ending"; kill -s "$ending" 0; wait
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server and what it logged."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self, pattern: str) -> str:
        """What the pattern's group matched in the log, as soon as it stands there."""
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline:
            if found := re.search(pattern, self.log.read_text()):
                return found.group(1)
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise TimeoutError(f"{self.log.name} never said {pattern!r}:\n{self.log.read_text()[-4000:]}")


@contextlib.contextmanager
def server(
    log: Path, *command: str, environment: Mapping[str, str] | None = None, ending: str = "TERM", **account: Any
) -> Iterator[Server]:
    """Start a server, and stop it with all its children however the block ends, by a signal of this name.

    By default it has our environment, and our account and folder (by the names that ``subprocess.Popen`` gives these).
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", ending, *command],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **account,
        )
    try:
        yield Server(process, log)
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Close its pipe, give it time, then end what is left of its group."""
    assert process.stdin is not None
    process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(SECONDS_TO_STOP)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(SECONDS_TO_STOP)
