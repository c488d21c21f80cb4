"""What a stage took: by the clock, by Spark's own event log, and by the operating system."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from benchmarks.pipeline.lake import Written

MILLISECONDS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One stage as its process saw it."""

    stage: str
    began_ms: int
    ended_ms: int
    wall_seconds: float
    driver_cpu_seconds: float
    """Of the Python process: where capture and commit run."""
    read_bytes: int
    """Of Spark's process and of the Python process, as the kernel counts it.

    Tasks report less: Parquet's vectored reads pass by the statistics of Hadoop's local file system.
    """
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One stage of one contender in one round."""

    wall_seconds: float
    cpu_seconds: float
    """Of all tasks of Spark's executors, and of the Python process."""
    read_bytes: int
    written_bytes: int
    read_rows: int
    written_rows: int
    shuffled_bytes: int
    peak_bytes: int
    idle_seconds: float
    """In which no task ran: planning, compiling, commits, and what the Python process does, captures among it."""
    one_core_seconds: float
    """In which a single task ran, and the other core had nothing to do."""

    def __add__(self, other: Self) -> Cost:
        """Both stages: sums, but the larger peak."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in asdict(self)}
        return Cost(**{**sums, "peak_bytes": max(self.peak_bytes, other.peak_bytes)})


@contextmanager
def metered(stage: str, pid: int, spans: list[Span]) -> Iterator[None]:
    """Add a span for what happens inside."""
    # Forgets the peak so far of Spark's process; the kernel keeps it from here on.
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    read, began, wall, cpu = _read_bytes(pid), time.time(), time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    spans.append(
        Span(
            stage=stage,
            began_ms=int(began * MILLISECONDS),
            ended_ms=int(time.time() * MILLISECONDS) + 1,
            wall_seconds=wall,
            driver_cpu_seconds=cpu,
            read_bytes=_read_bytes(pid) - read,
            peak_bytes=_peak_bytes(pid),
        )
    )


def _peak_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"the kernel does not tell the peak memory of process {pid}")


def _read_bytes(pid: int) -> int:
    """By this process and another."""
    fields = [Path(f"/proc/{one}/io").read_text().splitlines()[0].split() for one in (pid, "self")]
    if any(name != "rchar:" for name, _ in fields):
        raise RuntimeError(f"the kernel does not tell what process {pid} reads")
    return sum(int(count) for _, count in fields)


def costs(spans: Iterable[Span], event_log: Path, written: Mapping[str, Written]) -> dict[str, Cost]:
    """By stage. A task belongs to the stage in whose time it ended."""
    tasks = list(_tasks(event_log))
    return {span.stage: _cost(span, tasks, written[span.stage]) for span in spans}


def _tasks(event_log: Path) -> Iterator[Mapping[str, Any]]:
    logs = [path for path in event_log.iterdir() if path.is_file() and not path.name.startswith(".")]
    if len(logs) != 1:
        raise RuntimeError(f"{len(logs)} event logs instead of one: a contender has one Spark session")
    with logs[0].open() as lines:
        yield from (event for line in lines if (event := json.loads(line))["Event"] == "SparkListenerTaskEnd")


def _cost(span: Span, tasks: Iterable[Mapping[str, Any]], written: Written) -> Cost:
    ended = [t for t in tasks if span.began_ms <= t["Task Info"]["Finish Time"] <= span.ended_ms]
    mine = [t["Task Metrics"] for t in ended]
    idle, one_core = _lulls(span, [t["Task Info"] for t in ended])
    nanoseconds = sum(m["Executor CPU Time"] + m["Executor Deserialize CPU Time"] for m in mine)
    return Cost(
        wall_seconds=round(span.wall_seconds, 2),
        cpu_seconds=round(nanoseconds / 1e9 + span.driver_cpu_seconds, 2),
        read_bytes=span.read_bytes,
        written_bytes=written.size_bytes,
        read_rows=sum(m["Input Metrics"]["Records Read"] for m in mine),
        written_rows=written.rows,
        shuffled_bytes=sum(m["Shuffle Write Metrics"]["Shuffle Bytes Written"] for m in mine),
        peak_bytes=span.peak_bytes,
        idle_seconds=round(idle, 2),
        one_core_seconds=round(one_core, 2),
    )


def _lulls(span: Span, tasks: Iterable[Mapping[str, Any]]) -> tuple[float, float]:
    """For how long no task ran, and for how long just one."""
    begun = [(max(task["Launch Time"], span.began_ms), 1) for task in tasks]
    edges = sorted([*begun, *((task["Finish Time"], -1) for task in tasks)])
    lasted, running, at = [0, 0], 0, span.began_ms
    for moment, change in (*edges, (span.ended_ms, 0)):
        if running < len(lasted):
            lasted[running] += moment - at
        running, at = running + change, moment
    return lasted[0] / MILLISECONDS, lasted[1] / MILLISECONDS
