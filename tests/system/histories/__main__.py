"""Run random histories: `make test-histories HISTORIES_ARGS='--seed 7 --count 50'`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.system.histories.generator import History
from tests.system.histories.lake import open_lake
from tests.system.histories.registry import Step
from tests.system.histories.runner import Outcome, run, shrink


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="histories-") as folder:
        lake = open_lake(Path(folder))
        try:
            return _run_all(lake, arguments)
        finally:
            lake.spark.stop()


def _run_all(lake, arguments) -> int:
    started = time.monotonic()
    tally: Counter[str] = Counter()
    failed: list[Outcome] = []
    long_enough = 0
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        outcome = run(lake, _history(seed, arguments.steps))
        tally += outcome.tally
        long_enough += outcome.done >= 10
        if sys.stderr.isatty() or arguments.verbose:
            print(f"history {seed}: {outcome.done} steps", file=sys.stderr, flush=True)
        if outcome.failure:
            failed.append(_report(lake, outcome, shrinks=not arguments.no_shrink))
            if len(failed) >= arguments.max_failures:
                break
    _summarise(tally, verbose=arguments.verbose)
    ran = seed - arguments.seed + 1
    seconds = time.monotonic() - started
    print(f"{ran} histories, {long_enough} of them of 10 steps or more, {len(failed)} failed")
    print(f"{seconds:.0f} s, {seconds / ran:.1f} s each", flush=True)
    return 1 if failed else 0


def _history(seed: int, steps: str | None) -> History:
    history = History.draw(seed)
    return replace(history, steps=tuple(Step.parse(s) for s in steps.split())) if steps else history


def _report(lake, outcome: Outcome, *, shrinks: bool) -> Outcome:
    print(f"\nhistory {outcome.history.seed} FAILED: {outcome.failure}\nreplay: {outcome.replay}", flush=True)
    if not shrinks:
        return outcome
    smallest = shrink(lake, outcome)
    print(f"shrunk to {len(smallest.history.steps)} steps, {smallest.history.profile}")
    for step in smallest.history.steps:
        print(f"    {step}")
    print(f"which says: {smallest.failure}\nreplay: {smallest.replay}", flush=True)
    return smallest


def _summarise(tally: Counter[str], *, verbose: bool) -> None:
    for key, number in sorted(tally.items()):
        if verbose or key.startswith(("exact", "refused", "changes")):
            print(f"{number:6} {key}")


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first history's number")
    parser.add_argument("--count", type=int, default=210, help="how many histories")
    parser.add_argument("--steps", help="run these steps in place of the drawn ones (with --count 1)")
    parser.add_argument("--no-shrink", action="store_true", help="report failures as they are")
    parser.add_argument("--max-failures", type=int, default=5, help="stop after so many")
    parser.add_argument("--verbose", action="store_true", help="also count steps done, and those an engine refused")
    arguments = parser.parse_args()
    if arguments.steps:
        arguments.count = 1
    return arguments


if __name__ == "__main__":
    sys.exit(main())
