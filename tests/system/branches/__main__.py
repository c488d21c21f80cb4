"""Play random histories of captures in branches, with several releases of Iceberg at work on the same table.

python -m tests.system.branches --seed 7 --count 50
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.kit.local_tables import new_catalog
from tests.system.branches.history import UNSAFE, loses_files_to_gaps, loses_files_to_leases_of_engines, play
from tests.system.branches.maintenance import OTHERS, OWN, releases
from tests.system.branches.rest import check_format_version_3


def main() -> int:
    """Exit with 1 if a history broke the law."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.branches")
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--releases", nargs="+", default=[*OTHERS, OWN])
    options = parser.parse_args()
    begun, done = time.monotonic(), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        new_catalog(Path(folder))
        with releases(Path(folder), options.releases) as engines:
            for engine in engines:
                for kind in ("branch", "tag"):
                    found = loses_files_to_leases_of_engines(Path(folder), engine, kind)
                    assert found is (engine.version in UNSAFE), f"{engine.version}: loses files is {found}"
                    result = "costs" if found else "keeps"
                    print(f"Iceberg {engine.version}: a {kind} with max-ref-age-ms {result} live files")
                for expires in ("java", "pyiceberg"):
                    found = loses_files_to_gaps(Path(folder), engine, expires)
                    assert found is (engine.version in UNSAFE), f"{engine.version}: loses files is {found}"
                    result = "costs" if found else "keeps"
                    print(f"Iceberg {engine.version}: a gap in main's history, made by {expires}, {result} live files")
                    assert not loses_files_to_gaps(Path(folder), engine, expires, has_tag=True)
                engine.done.clear()
            for number in range(options.count):
                history = play(Path(folder), options.seed + number, engines, options.steps)
                done.update(line.split("(")[0].strip() for line in history.log)
            for engine in engines:
                print(f"Iceberg {engine.version} has carried out {dict(sorted(engine.done.items()))}")
        check_format_version_3(Path(folder))
        print("Format version 3 by a REST catalog: row ids and sequence numbers are the source's")
    print(f"{options.count} histories of {options.steps} steps in {time.monotonic() - begun:.0f} s: {dict(done)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
