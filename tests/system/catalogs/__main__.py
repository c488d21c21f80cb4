"""``make test-catalogs``: the story on every catalog and storage, and its table in the docs.

python -m tests.system.catalogs                      all of them
python -m tests.system.catalogs glue hive            only these
python -m tests.system.catalogs --publish            and write the page's table
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, Final

from tests.kit.packages import UnavailableError, python_with
from tests.system.catalogs.page import publish

PYICEBERG: Final = "pyiceberg[pyarrow,sql-postgres,sql-sqlite,glue,hive,s3fs,gcsfs,adlfs]==0.12.0"
"""The environment of Airflow cannot hold it: its constraints pin packages that boto3 does not accept."""

SECONDS: Final = 150
"""For one chapter."""

ENVIRONMENT: Final = {
    # Of servers that are not Amazon's and not Google's: no checksums after a body, and no gRPC.
    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    "AWS_EC2_METADATA_DISABLED": "true",
    "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
}


def main(arguments: list[str]) -> int:
    """Play it, in an environment of its own."""
    if importlib.util.find_spec("gcsfs") is None:
        python = python_with("catalogs", PYICEBERG, "psycopg2-binary>=2.9.9", "pytest", "uv")
        os.execve(python, [str(python), "-m", "tests.system.catalogs", *arguments], {**os.environ, **ENVIRONMENT})  # noqa: S606 - the same program, in the environment that has all clients
    from tests.system.catalogs.kinds import KINDS

    parser = argparse.ArgumentParser(prog="test-catalogs")
    parser.add_argument("kinds", nargs="*", default=[], help=f"of {', '.join(KINDS)}")
    parser.add_argument("--publish", action="store_true", help="write results and page")
    options = parser.parse_args(arguments)
    began, results = time.monotonic(), {}
    for name in options.kinds or KINDS:
        results[name] = _play(name)
    print(f"{time.monotonic() - began:.0f} s")
    if options.publish:
        publish(results)
    outcomes = {outcome.partition(":")[0] for each in results.values() for outcome in each["chapters"].values()}
    return int("failed" in outcomes or bool(options.kinds and "not run" in outcomes))


def _play(name: str) -> dict[str, Any]:
    """One kind; what does not start on this machine is not run, with the reason."""
    from tests.system.catalogs.kinds import KINDS
    from tests.system.catalogs.story import CHAPTERS, chapters_of

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"ips-{name}-") as folder:
        try:
            with KINDS[name](Path(folder)) as kind:
                print(f"\n== {kind.label}", flush=True)
                chapters = {title: _chapter(kind, title) for title in chapters_of(kind)}
                label = kind.label
        except (UnavailableError, OSError, TimeoutError) as error:
            said = str(error).strip().splitlines()
            reason = f"{said[0]} {said[-1] if said[1:] else ''}".strip()[:250]
            print(f"\n== {name}: not run: {reason}", flush=True)
            return {"label": name, "chapters": dict.fromkeys(CHAPTERS, f"not run: {reason}")}
    print(f"   {time.monotonic() - began:.0f} s", flush=True)
    return {"label": label, "chapters": chapters}


def _too_long(*_: object) -> None:
    raise TimeoutError(f"it took more than {SECONDS} s")


def _chapter(kind: Any, title: str) -> str:
    from tests.system.catalogs.story import NotTriedError, World, chapters_of

    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        chapters_of(kind)[title](World(kind))
        outcome = "ok"
    except NotTriedError as error:
        outcome = f"not tried: {error}"
    except Exception as error:  # noqa: BLE001 - every chapter is told, whatever becomes of one
        traceback.print_exc(limit=-4, chain=False)
        outcome = f"failed: {type(error).__name__}: {error}"[:300]
    finally:
        signal.alarm(0)
    print(f"   {title:22} {outcome}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
