"""Play random histories of tables and consumers, and runs of DAGs, and print what breaks either law.

python -m tests.model --seed 7 --count 500
python -m tests.model --theme "lost history" --with A1
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.model.catalog import model_catalog
from tests.model.evidence_law import broken as broken_evidence
from tests.model.evidence_law import runs
from tests.model.generator import THEMES, stories
from tests.model.known import KNOWN
from tests.model.shrink import shrunk
from tests.model.story import failure_of


def main() -> int:
    """Exit with 1 if a history broke the law."""
    parser = argparse.ArgumentParser(prog="python -m tests.model")
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--theme", choices=sorted(THEMES), default="", help="what all histories are about")
    parser.add_argument("--show", type=int, default=5, help="how many counterexamples to shorten and print")
    parser.add_argument("--with", dest="including", action="append", choices=sorted(KNOWN), default=[])
    options = parser.parse_args()
    begun, broken = time.monotonic(), 0
    avoiding = [name for name in KNOWN if name not in options.including]
    with model_catalog():
        for number, story in enumerate(stories(options.seed, options.count, options.theme)):
            if failure_of(story, avoiding) is None:
                continue
            broken += 1
            if broken <= options.show:
                short, why = shrunk(story, avoiding)
                lines = "\n".join(why.__notes__).splitlines()
                print(f"\nhistory {number} of seed {options.seed}: {type(why).__name__}: {why}", flush=True)
                print("\n".join([str(short), *(f"# {line}" for line in lines)]), flush=True)
    print(f"{options.count} histories in {time.monotonic() - begun:.0f} s, {broken} broke the law")
    lost = [found for run in runs(options.seed, options.count) if (found := broken_evidence(run)) is not None]
    print("\n".join([*lost[: options.show], f"{options.count} runs of DAGs, {len(lost)} broke the law of evidence"]))
    return 1 if broken or lost else 0


if __name__ == "__main__":
    sys.exit(main())
