"""The job that makes the warehouse's bucket, against a storage of our own that knows buckets and nothing else."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.docker.stack import DOCKER


@pytest.fixture
def storage():
    class Buckets(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        found: set[str]
        broken = False

        def do_HEAD(self):
            self._answer(500 if self.broken else 200 if self._bucket() in self.found else 404)

        def do_PUT(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.found.add(self._bucket())
            self._answer(200)

        def _bucket(self):
            return self.path.strip("/").partition("?")[0]

        def _answer(self, status):
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format, *arguments):  # noqa: A002 - named by the base class
            pass

    Buckets.found = set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Buckets) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def make_bucket(storage, name):
    environment = {
        "S3_ENDPOINT": f"http://127.0.0.1:{storage.server_address[1]}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    command = [sys.executable, str(DOCKER / "storage" / "make_bucket.py"), name]
    return subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=120)


def test_the_bucket_is_made_once_and_found_ever_after(storage):
    first, second = make_bucket(storage, "warehouse"), make_bucket(storage, "warehouse")

    assert storage.RequestHandlerClass.found == {"warehouse"}
    assert (first.stdout, second.stdout) == ("bucket warehouse made\n", "bucket warehouse is there\n")


def test_a_storage_that_does_not_answer_well_is_an_error(storage):
    storage.RequestHandlerClass.broken = True

    assert make_bucket(storage, "warehouse").returncode != 0
    assert not storage.RequestHandlerClass.found
