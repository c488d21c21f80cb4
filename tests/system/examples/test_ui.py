"""`make ui`: four processes on the loopback that show the examples, and nothing left when it ends."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.kit.deployment import is_alive
from tests.kit.rest import Rest

SCRIPT = Path(__file__).parents[3] / "scripts" / "ui.py"


@pytest.mark.timeout(300)
def test_airflow_opens_with_the_examples_and_closes_without_a_trace(tmp_path):
    """Healthy, reachable with the login it prints, no import errors, no port open to others, no process left."""
    ui = subprocess.Popen(
        [sys.executable, SCRIPT, f"--folder={tmp_path}", "--port=0", "--for-seconds=240"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        printed = read_until(ui.stdout, "Ctrl-C")
        ((address, user, password),) = re.findall(r"(http://127\.0\.0\.1:\d+)\s+login (\S+) / (\S+)", printed)
        parts = psutil.Process(ui.pid).children(recursive=True)
        assert {ip for part in parts for ip in listening(part)} == {"127.0.0.1"}

        rest = Rest(address)
        rest.log_in(user, password)
        rest.wait_for(lambda: rest.knows("playback_incremental"), "the example's file to be read")
        assert rest.import_errors() == []
    finally:
        ui.terminate()
        last, _ = ui.communicate(timeout=90)
    assert (ui.returncode, last.strip()) == (0, "Stopped.")
    assert not [part for part in parts if is_alive(part)]
    assert not (tmp_path / "ui.pid").exists()


def test_a_second_one_over_the_same_tables_is_refused(tmp_path):
    """Two schedulers over one SQLite file would corrupt each other's work."""
    holder = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()", "ui.py"], stdin=subprocess.PIPE, text=True
    )
    (tmp_path / "ui.pid").write_text(str(holder.pid))
    try:
        second = subprocess.run(
            [sys.executable, SCRIPT, f"--folder={tmp_path}", "--port=0"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        holder.communicate(timeout=30)
    assert second.returncode == 1
    assert f"process {holder.pid}" in second.stderr
    assert (tmp_path / "ui.pid").exists()


def test_a_port_that_is_taken_is_named_with_the_way_to_another_one(tmp_path):
    """Before anything is started, and before tables are made."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = subprocess.run(
            [sys.executable, SCRIPT, f"--folder={tmp_path}", f"--port={port}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert refused.returncode == 1
    assert f"make ui PORT={port + 1}" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def listening(process):
    """On which addresses. The DAG processor has a process for each file, and one that has ended listens on none."""
    try:
        return {c.laddr.ip for c in process.net_connections() if c.status == psutil.CONN_LISTEN}
    except psutil.NoSuchProcess:
        return set()


def read_until(stream, text):
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"ended before {text!r}: {''.join(lines)}")
