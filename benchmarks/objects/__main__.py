"""Measure captures on an object store whose every request takes a while.

    python -m benchmarks.objects                                the table of docs/explanation/speed.md (half an hour)
    python -m benchmarks.objects --delays 30 --manifests 300    one case of it

Each operation is compared with the same number of requests one after the other, timed in the same run. Requests beyond
the floor, which is computed from what nobody could leave out, make it fail.
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
from benchmarks.objects.store import FILE_IOS, WAREHOUSE, Cost, FarStore, far_store
from benchmarks.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FILES_A_MANIFEST: Final = 10
ONE_BY_ONE: Final = 30
_KEYS_A_REQUEST: Final = 1_000
_AROUND_A_CAPTURE: Final = 16
"""Two a file that is read, one or three a file that is written, and what the catalog reads to register it."""
_AROUND_A_DROP: Final = 12


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delays", default="10,30,100", help="milliseconds a request, with commas")
    parser.add_argument("--manifests", default="1,30,300,1000,3000", help="numbers, with commas")
    parser.add_argument("--file-ios", default=",".join(FILE_IOS), help=", ".join(FILE_IOS))
    parser.add_argument("--without", default="", help="java")
    options = parser.parse_args()
    failures: list[str] = []
    print("| delay | manifests | by | operation | seconds | requests | most at once | one by one | times faster |")
    print("|--:|--:|---|---|--:|--:|--:|--:|--:|")
    for delay in map(float, options.delays.split(",")):
        for manifests in map(int, options.manifests.split(",")):
            failures += _measure(delay, manifests, options.file_ios.split(","), with_java=options.without != "java")
    print(*failures, sep="\n")
    return 1 if failures else 0


def _measure(delay: float, manifests: int, file_ios: list[str], *, with_java: bool) -> Iterator[str]:
    shape = Shape(files=manifests * FILES_A_MANIFEST, snapshots=manifests)
    since = snapshot_id(shape.last_before)
    with tempfile.TemporaryDirectory(prefix="ips-objects-") as name, far_store(Path(name), delay) as store:
        store.add_table(shape)
        a_request = _seconds_a_request(store)

        def show(by: str, operation: str, cost: Cost, floor: int) -> None:
            alone = a_request * floor
            print(
                f"| {delay:.0f} ms | {manifests:,} | {by} | {operation} | {cost.seconds:.2f} | {cost.requests:,} | "
                f"{cost.most_at_once} | {alone:.1f} | {alone / cost.seconds:.1f} |",
                flush=True,
            )

        for file_io in file_ios:
            for operation, cost, most in _operations(store, file_io, since, manifests):
                show(file_io, operation, cost, manifests)
                if cost.requests > most:
                    yield f"{file_io}: {operation} of {manifests:,} manifests took {cost.requests} requests, not {most}"
        if with_java:
            show("published code", "capture", _published_code(store, since), manifests)


def _operations(store: FarStore, file_io: str, since: int, manifests: int) -> Iterator[tuple[str, Cost, int]]:
    catalog = store.catalog(file_io)
    thousands = 1 + manifests // _KEYS_A_REQUEST
    capture(catalog, SOURCE, since=since, into="icdc.warm_up")
    drop_icdc(catalog, "icdc.warm_up")
    polled = store.measured(lambda: open_source(catalog, Source(SOURCE)))
    yield "poll", polled, 2
    made = store.measured(lambda: capture(catalog, SOURCE, since=since, into="icdc.made"))
    yield "capture", made, manifests + thousands + _AROUND_A_CAPTURE
    yield "drop", store.measured(lambda: drop_icdc(catalog, "icdc.made")), 2 * thousands + _AROUND_A_DROP
    _leave_files(catalog, since)
    yield "gc", store.measured(lambda: _collect(catalog)), 3 * thousands + 2 * _AROUND_A_DROP


def _leave_files(catalog: object, since: int) -> None:
    """As a task that was killed between the drop and the deletion of its files."""
    name = "icdc.db_t_" + "a" * 20
    capture(catalog, SOURCE, since=since, into=name)  # type: ignore[arg-type]
    catalog.drop_table(name)  # type: ignore[attr-defined]


def _collect(catalog: object) -> None:
    found = list(find_leftovers(catalog, "icdc", find_icdc_tables(catalog, "icdc")))  # type: ignore[arg-type]
    if not found:
        raise ContenderError("gc found none of the files that were left over")
    delete_leftovers(catalog, found)  # type: ignore[arg-type]


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


def _published_code(store: FarStore, since: int) -> Cost:
    with Java("4g") as java:
        run: Callable[[], object] = lambda: java.run_in_s3(store.database, WAREHOUSE, store.properties, since)  # noqa: E731
        run()
        return store.measured(run)


if __name__ == "__main__":
    sys.exit(main())
