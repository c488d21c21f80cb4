"""Give every reader bytes, documents and texts that nobody should write, and see only errors of ours, soon.

python -m tests.system.fuzz --seconds 60 --seed 7
python -m tests.system.fuzz --count 2000 --seed 7
python -m tests.system.fuzz --only filters --seed 7 --first 1203 --count 1

The law: a reader answers, or raises an error of this package, within a few seconds and without much memory. What
breaks it is printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from uuid import UUID

from airflow_provider_ips.core.errors import IpsError
from tests.system.fuzz.cases import cases

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS_A_CASE = 10
"""Of the processor's time: what else the machine does is not the reader's fault."""

KILOBYTES_MORE = 1024 * 1024
"""Of memory that a case may take beyond what was taken before."""


class TooSlowError(BaseException):
    """The case took longer than any may. Not an ``Exception``, so that no reader takes it for damage."""


def main() -> int:
    """Exit with 1 if a case broke the law."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.fuzz")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--count", type=int, help="of cases for each reader, however long they take")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", default="", help="the name of one reader")
    options = parser.parse_args()
    signal.signal(signal.SIGPROF, _too_slow)
    with tempfile.TemporaryDirectory(prefix="ips-fuzz-") as folder:
        # The same ids in every run, so that a case is the same, too. Names of folders are of one length.
        ids = Random(options.seed)  # noqa: S311 - a seed repeats it
        with patch("uuid.uuid4", lambda: UUID(int=ids.getrandbits(128), version=4)):
            readers = {name: read for name, read in cases(Path(folder)).items() if options.only in ("", name)}
        number, broken, end = options.first, 0, time.monotonic() + options.seconds
        while broken < 5 and (number < options.first + options.count if options.count else time.monotonic() < end):
            for name, read in readers.items():
                rng = Random(f"{options.seed} {number} {name}")  # noqa: S311 - a seed repeats it
                failure = _failure_of(read, rng)
                if failure:
                    broken += 1
                    again = f"--only {name} --seed {options.seed} --first {number} --count 1"
                    print(f"{name}: {failure}\n    python -m tests.system.fuzz {again}\n")
            number += 1
    print(
        f"{number - options.first} cases for each of {', '.join(readers)}, seed {options.seed}: {broken} broke the law"
    )
    return 1 if broken else 0


def _too_slow(*_: object) -> None:
    raise TooSlowError


def _failure_of(read: Callable[[Random], Any], rng: Random) -> str:
    """Why a case breaks the law; nothing if it does not."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_PROF, SECONDS_A_CASE)
    try:
        read(rng)
    except IpsError as error:
        if not error.problem:
            return "an error without a problem"
    except TooSlowError:
        return f"longer than {SECONDS_A_CASE} s\n{traceback.format_exc(limit=-8)}"
    except Exception:  # noqa: BLE001 - whatever else it is, it breaks the law
        return traceback.format_exc(limit=-8, chain=False)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return f"{more // 1024} MB more memory" if more > KILOBYTES_MORE else ""


if __name__ == "__main__":
    sys.exit(main())
