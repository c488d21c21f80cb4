"""Measure captures on an object store whose every request takes a while.

    python -m benchmarks.objects --publish                      all of it, into docs/explanation/speed.md (40 minutes)
    python -m benchmarks.objects --delays 30 --manifests 300    one case of it

Each operation is compared with as many requests as there are manifests, one after the other, timed in the same run. It
fails if an operation makes requests that it need not make, or takes longer than the targets allow.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyiceberg.io.pyarrow import PyArrowFileIO

from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.iceberg.icdc.leftovers import delete_leftovers, find_icdc_tables, find_leftovers
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from benchmarks.contenders import ContenderError, Java
from benchmarks.generator import SOURCE, snapshot_id
from benchmarks.objects.report import Measured, lost, publish, table
from benchmarks.objects.store import FILE_IOS, WAREHOUSE, Cost, FarStore, far_store
from benchmarks.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.catalog import Catalog

FILES_A_MANIFEST: Final = 10
ONE_BY_ONE: Final = 30
JAVA_DELAY: Final = 30.0
JAVA_MANIFESTS: Final = 1_000
"""At most: it makes four requests a manifest, one after the other."""
JAVA_WARM_UP: Final = 300
"""With more manifests than this, a JVM is warm long before it is done."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delays", default="10,30,100", help="milliseconds a request, with commas")
    parser.add_argument("--manifests", default="1,30,300,1000,3000", help="numbers, with commas")
    parser.add_argument("--file-ios", default=",".join(FILE_IOS), help=", ".join(FILE_IOS))
    parser.add_argument("--without", default="", help="java")
    parser.add_argument("--publish", action="store_true", help="write the table into the documentation")
    options = parser.parse_args()
    found: list[Measured] = []
    for delay in map(float, options.delays.split(",")):
        for manifests in map(int, options.manifests.split(",")):
            with_java = options.without != "java" and delay == JAVA_DELAY and manifests <= JAVA_MANIFESTS
            for measured in _measure(delay, manifests, options.file_ios.split(","), with_java=with_java):
                print(measured.line, flush=True)
                found.append(measured)
    if options.publish:
        publish(found)
    else:
        print(table(found))
    print(*lost(found), sep="\n")
    return 1 if lost(found) else 0


def _measure(delay: float, manifests: int, file_ios: list[str], *, with_java: bool) -> Iterator[Measured]:
    shape = Shape(files=manifests * FILES_A_MANIFEST, snapshots=manifests)
    since = snapshot_id(shape.last_before)
    with tempfile.TemporaryDirectory(prefix="ips-objects-") as name, far_store(Path(name), delay) as store:
        store.add_table(shape)
        a_request = _seconds_a_request(store)

        def measured(by: str, operation: str, cost: Cost) -> Measured:
            return Measured(
                delay_ms=delay, manifests=manifests, operation=operation, by=by, cost=cost, request_seconds=a_request
            )

        for file_io in file_ios:
            for operation, cost in _operations(store, file_io, since):
                yield measured(file_io, operation, cost)
        if with_java:
            yield measured("java", "capture", _published_code(store, since, warm_up=manifests <= JAVA_WARM_UP))


def _operations(store: FarStore, file_io: str, since: int) -> Iterator[tuple[str, Cost]]:
    catalog = store.catalog(file_io)
    capture(catalog, SOURCE, since=since, into="icdc.warm_up")
    drop_icdc(catalog, "icdc.warm_up")
    yield "poll", store.measured(lambda: open_source(catalog, Source(SOURCE)))
    yield "capture", store.measured(lambda: capture(catalog, SOURCE, since=since, into="icdc.made"))
    yield "drop", store.measured(lambda: drop_icdc(catalog, "icdc.made"))
    _leave_files(catalog, since)
    yield "gc", store.measured(lambda: _collect(catalog))


def _leave_files(catalog: Catalog, since: int) -> None:
    """As a task that was killed between the drop and the deletion of its files."""
    name = "icdc.db_t_" + "a" * 20
    capture(catalog, SOURCE, since=since, into=name)
    catalog.drop_table(name)


def _collect(catalog: Catalog) -> None:
    found = list(find_leftovers(catalog, "icdc", find_icdc_tables(catalog, "icdc")))
    if not found:
        raise ContenderError("gc found none of the files that were left over")
    delete_leftovers(catalog, found)


def _seconds_a_request(store: FarStore) -> float:
    """As a client takes that waits for each answer."""
    system = PyArrowFileIO(store.properties).fs_by_scheme("s3", "lake")

    def ask(times: int) -> float:
        started = time.perf_counter()
        for _ in range(times):
            system.get_file_info("lake/db/t/metadata/00001-source.metadata.json")
        return (time.perf_counter() - started) / times

    ask(1)
    return ask(ONE_BY_ONE)


def _published_code(store: FarStore, since: int, *, warm_up: bool) -> Cost:
    with Java("4g") as java:
        run: Callable[[], object] = lambda: java.run_in_s3(store.database, WAREHOUSE, store.properties, since)  # noqa: E731
        if warm_up:
            run()
        return store.measured(run)


if __name__ == "__main__":
    sys.exit(main())
