"""One contender, once, in a process of its own; prints what it took as a line of JSON.

    python -m benchmarks.contender capture .cache/bench/v2-pure-1000-in-10 <since> icdc.mine

Imports are done before the clock starts, those included that PyIceberg puts off until it opens a file.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyiceberg.io.pyarrow  # noqa: F401 - put off by PyIceberg until the first file is opened

from benchmarks.generator import SOURCE, open_catalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog.sql import SqlCatalog

Outcome = tuple[int | None, int | None]
"""Files and records of the table that was made."""

_PROC: Final = Path("/proc/self")


def load_table(catalog: SqlCatalog) -> Outcome:
    """What nothing can do without."""
    catalog.load_table(SOURCE)
    return 0, 0


def capture(catalog: SqlCatalog, since: int, into: str) -> Outcome:
    """This package."""
    from airflow_provider_ips.iceberg import capture as capture_range

    captured = capture_range(catalog, SOURCE, since=since, into=into).captured
    return captured.files, captured.records


def full_capture(catalog: SqlCatalog, into: str) -> Outcome:
    """This package, all live files."""
    from airflow_provider_ips.iceberg import capture as capture_range

    captured = capture_range(catalog, SOURCE, into=into).captured
    return captured.files, captured.records


def pyiceberg_append(catalog: SqlCatalog, since: int, into: str) -> Outcome:
    """PyIceberg's own means: plan an incremental append scan, and fast-append its files to a new table."""
    source = catalog.load_table(SOURCE)
    target = catalog.create_table(into, source.schema(), partition_spec=source.spec())
    files = records = 0
    with target.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
        for task in source.incremental_append_scan(from_snapshot_id_exclusive=since).plan_files():
            update.append_data_file(task.file)
            files, records = files + 1, records + task.file.record_count
    return files, records


def remove(catalog: SqlCatalog, contender: str, into: str) -> None:
    """Leave nothing behind, so that the next one finds the same."""
    if contender == "pyiceberg":
        location = catalog.load_table(into).location()
        catalog.drop_table(into)
        shutil.rmtree(location.removeprefix("file://"))
    elif contender != "load_table":
        from airflow_provider_ips.iceberg import drop_icdc

        drop_icdc(catalog, into)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contender", choices=("load_table", "capture", "full_capture", "pyiceberg"))
    parser.add_argument("folder", type=Path, help="of a generated table")
    parser.add_argument("since", type=int, nargs="?", default=0)
    parser.add_argument("into", nargs="?", default="")
    options = parser.parse_args()
    if options.contender in ("capture", "full_capture"):
        import airflow_provider_ips.iceberg.api  # noqa: F401 - not on the clock
    catalog = open_catalog(options.folder.resolve())
    work: dict[str, Callable[[], Outcome]] = {
        "load_table": lambda: load_table(catalog),
        "capture": lambda: capture(catalog, options.since, options.into),
        "full_capture": lambda: full_capture(catalog, options.into),
        "pyiceberg": lambda: pyiceberg_append(catalog, options.since, options.into),
    }
    print(json.dumps(measured(work[options.contender])))
    sys.stdout.flush()
    remove(catalog, options.contender, options.into)


def measured(work: Callable[[], Outcome]) -> dict[str, float | int | None]:
    """Run it once."""
    modules, io_before, before_bytes = len(sys.modules), _bytes_moved(), _peak_bytes()
    wall, cpu, user = time.perf_counter(), time.process_time(), os.times().user
    files, records = work()
    wall, cpu, user = time.perf_counter() - wall, time.process_time() - cpu, os.times().user - user
    io_after = _bytes_moved()
    return {
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "user_seconds": user,
        "before_bytes": before_bytes,
        "peak_bytes": _peak_bytes(),
        "read_bytes": io_after[0] - io_before[0] if io_before and io_after else None,
        "written_bytes": io_after[1] - io_before[1] if io_before and io_after else None,
        "files": files,
        "records": records,
        "modules_imported_on_the_clock": len(sys.modules) - modules,
    }


def _bytes_moved() -> tuple[int, int] | None:
    """Bytes that this process read and wrote so far, from whatever cache; only Linux counts them."""
    if not (_PROC / "io").exists():
        return None
    facts = dict(line.split(": ") for line in (_PROC / "io").read_text().splitlines())
    return int(facts["rchar"]), int(facts["wchar"])


def _peak_bytes() -> int:
    """The largest resident set so far. Linux' own counter: rusage is handed down from the process that started this."""
    if (_PROC / "status").exists():
        line = next(line for line in (_PROC / "status").read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if os.uname().sysname == "Darwin" else peak * 1024


if __name__ == "__main__":
    main()
