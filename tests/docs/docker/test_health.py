"""The health check of Spark's services, against status pages of our own; tests/system/topology asks real ones."""

import json
import subprocess
import sys

import pytest

from tests.docs.docker.stack import DOCKER
from tests.kit.http import Handler, http_server

REGISTERED = {"status": "ALIVE", "masterwebuiurl": "http://spark-master:8080"}


@pytest.fixture
def status_page():
    """A page that says what it is told to say."""

    class Page(Handler):
        status = REGISTERED

        def handle_request(self):
            self.answer(200, json.dumps(self.status).encode())

    with http_server(Page) as server:
        yield server


def health(role, port):
    command = [sys.executable, str(DOCKER / "spark" / "healthy.py"), role, f"http://127.0.0.1:{port}"]
    return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode


@pytest.mark.parametrize(
    ("role", "status", "expected"),
    [
        ("master", REGISTERED, 0),
        ("master", REGISTERED | {"status": "STANDBY"}, 1),
        ("worker", REGISTERED, 0),
        ("worker", REGISTERED | {"masterwebuiurl": ""}, 1),
    ],
)
def test_a_master_must_lead_and_a_worker_be_registered(status_page, role, status, expected):
    status_page.RequestHandlerClass.status = status

    assert health(role, status_page.server_address[1]) == expected


def test_nobody_at_home_is_not_well(status_page):
    status_page.shutdown()
    status_page.server_close()

    assert health("master", status_page.server_address[1]) != 0
