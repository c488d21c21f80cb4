"""A writer, two incremental stages in a whole Airflow, and SIGKILLs at random moments; then every row is counted.

make soak                                          ten minutes, a seed of its own
make soak SOAK_ARGS='--minutes 2 --seed 7'         as long as you like; what is drawn depends on the seed
make soak SOAK_ARGS='--modes BRANCH HELD'          the modes of the two stages; HELD is ICDC with hold_source
"""

import argparse
import shutil
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random, SystemRandom

from tests.kit.deployment import deployed
from tests.system.soak.killing import Killer
from tests.system.soak.verdict import Failed, judge
from tests.system.soak.writer import Writer

DAGS = Path(__file__).parent / "dags"
SETTINGS = {
    "AIRFLOW__IPS__HISTORY_LENGTH": "100000",
    # The sooner a task whose supervisor is dead is missed, the more can be killed.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "8",
}
MAX_KILLS = 200
SECONDS_TO_DRAIN = 240


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="how long it is written and killed (default: 10)")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6), help="default: a random one")
    parser.add_argument("--modes", nargs=2, choices=("ICDC", "BRANCH", "HELD"), default=("ICDC", "ICDC"))
    arguments = parser.parse_args()
    settings = {**SETTINGS, "IPS_SOAK_MODES": " ".join(arguments.modes)}
    print(f"seed {arguments.seed}, {arguments.minutes:g} minutes, {' and '.join(arguments.modes)}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="ips-soak-"))
    try:
        with deployed(folder, dags=DAGS, settings=settings) as airflow:
            soak(airflow, Random(arguments.seed), seconds=60 * arguments.minutes)  # noqa: S311 - to be drawn again
    except (Failed, AssertionError) as failure:
        print(f"\nFAILED with seed {arguments.seed}: {failure}\nlogs: {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def soak(airflow, random, *, seconds):
    """Write and kill for so long, let the runs come to an end, and judge."""
    writer = Writer(airflow.lakes["lake"], Random(random.random()))  # noqa: S311 - to be drawn again
    killer = Killer(airflow, random)
    deadline = time.monotonic() + seconds
    with ExitStack() as stack:
        stack.enter_context(writing(writer))
        while time.monotonic() < deadline and killer.counts.total() < MAX_KILLS:
            time.sleep(random.uniform(0.5, 4))
            writer.check()
            killer.strike()
    killer.say(
        f"the writer stops after {writer.rows} rows in {writer.appends} appends, {writer.compactions} compactions"
    )
    judge(airflow, writer, killer, seconds_to_drain=SECONDS_TO_DRAIN)


class writing:  # noqa: N801 - reads as what happens meanwhile
    """Append all the time, beside everything else."""

    def __init__(self, writer):
        self._writer = writer
        self._thread = threading.Thread(target=writer.run, name="writer", daemon=True)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._writer.stop()
        self._thread.join(timeout=60)


if __name__ == "__main__":
    sys.exit(main())
