"""The job that makes the warehouse's bucket, against a storage of our own that knows buckets and nothing else."""

import subprocess
import sys

import pytest

from tests.docs.docker.stack import DOCKER
from tests.kit.http import Handler, http_server


@pytest.fixture
def storage():
    class Buckets(Handler):
        found: set[str]
        broken = False

        def handle_request(self):
            bucket = self.path.strip("/").partition("?")[0]
            if self.command == "PUT":
                self.read_body()
                self.found.add(bucket)
            self.answer(500 if self.broken else 200 if bucket in self.found else 404)

    Buckets.found = set()
    with http_server(Buckets) as server:
        yield server


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
