"""What `make bench-watch` writes down while it runs, each process in a file of its own. Imports no Airflow.

Started as a program it notes how late the machine wakes a process that does nothing: what no event loop can do better.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

FOLDER: Final = "IPS_BENCH_FOLDER"
LOADS: Final = "loads"
LAGS: Final = "lags"
MACHINE: Final = "machine"
SAMPLE_EVERY_S: Final = 0.05


def note(name: str, line: str) -> None:
    """Append to a file. One short write, which neither a thread nor the loop has to wait for."""
    with (Path(os.environ[FOLDER]) / name).open("a") as file:
        file.write(f"{time.time():.3f} {line}\n")


def noted(folder: Path, name: str) -> list[tuple[float, str]]:
    """What was noted, with its time in seconds."""
    path = folder / name
    lines = path.read_text().splitlines() if path.exists() else []
    return [(float(at), value) for at, _, value in (line.partition(" ") for line in lines)]


if __name__ == "__main__":
    while True:
        due = time.perf_counter() + SAMPLE_EVERY_S
        time.sleep(SAMPLE_EVERY_S)
        note(MACHINE, f"{(time.perf_counter() - due) * 1000:.2f}")
