"""Let another day arrive in the demo's table, with late rows: one tenth within the window, and some older than it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.demo_days import DAYS_OFFLINE, FOLDER, OFFLINE_VIEWS, SOURCE, WINDOW_DAYS, Days
from scripts.demo_targets import INCREMENTAL, PLAIN
from scripts.lake import LATE_SHARE, Lake


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the state is")
    folder = parser.parse_args().folder.resolve()
    days = Days.read(folder)
    if days is None:
        print(
            "day: there is no table yet that a day could be added to; run `make demo` or `make ui` first",
            file=sys.stderr,
        )
        return 1
    source = Lake.on_sqlite(folder / "lake").catalog().load_table(SOURCE)
    days = days.arrive(source, with_offline=True)
    days.write(folder)
    print(
        f"{days.latest} has arrived in {SOURCE}: {days.rows:,} events, {LATE_SHARE:.0%} of them late by up to "
        f"{WINDOW_DAYS - 1} days,\nand {OFFLINE_VIEWS} of {days.offline_date}, {DAYS_OFFLINE} days late: older than a "
        f"window of {WINDOW_DAYS} days.\nTrigger {INCREMENTAL} and {PLAIN}, in the UI or from `make shell`:\n"
        f"  airflow dags trigger {INCREMENTAL}\n"
        f"  airflow dags trigger {PLAIN} --logical-date $(date -Iseconds)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
