"""A server that tests start ends in good order with the tests, however these end."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.kit.processes import server

SERVER = """
import pathlib, signal, sys, time
def ends(*_):
    time.sleep(0.3)
    pathlib.Path(sys.argv[1]).write_text("in good order")
    sys.exit()
signal.signal(getattr(signal, sys.argv[2]), ends)
print("ready", flush=True)
time.sleep(60)
"""
RUNNER = """
import pathlib, sys, time
from tests.kit.processes import server
with server(pathlib.Path(sys.argv[1]), *sys.argv[2:]) as running:
    running.said("(ready)")
    print("started", flush=True)
    time.sleep(60)
"""


def command(ended, signal_name="SIGTERM"):
    return (sys.executable, "-c", SERVER, str(ended), signal_name)


@pytest.mark.parametrize("ending", ["TERM", "QUIT"])
def test_it_is_waited_for(tmp_path, ending):
    ended = tmp_path / "ended"
    with server(tmp_path / "log", *command(ended, f"SIG{ending}"), ending=ending) as running:
        running.said("(ready)")

    assert ended.read_text() == "in good order"


def test_it_ends_when_the_test_runner_is_killed(tmp_path):
    ended = tmp_path / "ended"
    started = [sys.executable, "-c", RUNNER, str(tmp_path / "log"), *command(ended)]
    with subprocess.Popen(started, stdout=subprocess.PIPE) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"started\n"
        os.kill(runner.pid, signal.SIGKILL)

    deadline = time.monotonic() + 10
    while not ended.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert ended.exists()


def test_one_that_ends_by_itself_is_noticed(tmp_path):
    with (
        server(tmp_path / "log", sys.executable, "-c", "print('no license')") as running,
        pytest.raises(TimeoutError, match="no license"),
    ):
        running.said("(ready)")
