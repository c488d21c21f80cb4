"""A table in S3 that consists of metadata only, behind a proxy that delays and counts requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from benchmarks.generator import SOURCE, write_metadata
from tests.kit.servers import BUCKET, Storage, s3_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog

    from benchmarks.shapes import Shape

WAREHOUSE: Final = f"s3://{BUCKET}"
FILE_IOS: Final = {"pyarrow": "pyiceberg.io.pyarrow.PyArrowFileIO", "fsspec": "pyiceberg.io.fsspec.FsspecFileIO"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one operation took."""

    seconds: float
    requests: int
    most_at_once: int
    methods: dict[str, int] = field(default_factory=dict)


class FarStore:
    """The store as clients see it."""

    def __init__(self, storage: Storage, proxy: subprocess.Popen[str], folder: Path) -> None:
        self._storage = storage
        self._proxy = proxy
        self._folder = folder
        self.endpoint = f"http://127.0.0.1:{self._line()}"

    @property
    def properties(self) -> dict[str, str]:
        """For clients."""
        return {**self._storage.properties, "s3.endpoint": self.endpoint}

    @property
    def database(self) -> Path:
        """The names of tables."""
        return self._folder / "catalog.db"

    def add_table(self, shape: Shape) -> None:
        """Write a table's metadata to where the store keeps its objects."""
        write_metadata(shape, f"{WAREHOUSE}/db/t", self._storage.folder / BUCKET / "db" / "t" / "metadata")

    def catalog(self, file_io: str) -> SqlCatalog:
        """A catalog that has loaded nothing yet."""
        from pyiceberg.catalog.sql import SqlCatalog

        properties = {**self.properties, "py-io-impl": FILE_IOS[file_io], "warehouse": WAREHOUSE}
        catalog = SqlCatalog("lake", uri=f"sqlite:///{self.database}", **properties)
        for namespace in ("db", "icdc"):
            catalog.create_namespace_if_not_exists(namespace)
        if not catalog.table_exists(SOURCE):
            catalog.register_table(SOURCE, f"{WAREHOUSE}/db/t/metadata/00001-source.metadata.json")
        return catalog

    def measured(self, work: Callable[[], object]) -> Cost:
        """Do something and see what it costs."""
        self.counts()
        started = time.perf_counter()
        work()
        seconds = time.perf_counter() - started
        return Cost(seconds=seconds, **self.counts())

    def counts(self) -> dict[str, Any]:
        """Requests since the last call."""
        if self._proxy.stdin is None:
            raise RuntimeError("the proxy was started without a pipe to it")
        self._proxy.stdin.write("\n")
        self._proxy.stdin.flush()
        return dict(json.loads(self._line()))

    def _line(self) -> str:
        if self._proxy.stdout is None:
            raise RuntimeError("the proxy was started without a pipe from it")
        return self._proxy.stdout.readline().strip()


@contextmanager
def far_store(folder: Path, delay_ms: float) -> Iterator[FarStore]:
    """Start S3Proxy, and before it the proxy that delays."""
    # S3Proxy refuses the checksums that newer clients append to a body.
    os.environ |= {"AWS_REQUEST_CHECKSUM_CALCULATION": "when_required", "AWS_EC2_METADATA_DISABLED": "true"}
    with s3_server(folder) as storage:
        address = storage.endpoint.removeprefix("http://")
        command = [sys.executable, "-m", "benchmarks.objects.slow_proxy", address, str(delay_ms)]
        proxy = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield FarStore(storage, proxy, folder)
        finally:
            proxy.terminate()
            proxy.wait()
