"""Spark's classes in the form in which a JVM has them in memory, so that a job of seconds starts three seconds sooner.

A JVM spends most of the start of Spark on reading and checking the same ten thousand classes. Java can keep them in a
file, its archive for class data sharing, which fits one JVM and one class path only. `make jars` makes it once, by
running a job. Without it, or with a JVM that makes none, jobs start as they always did.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.spark_jars import JARS_FOLDER, jar_paths

if TYPE_CHECKING:
    from scripts.lake import Lake

SECONDS: Final = 300
JOB: Final = Path(__file__).resolve().parent.parent / "dags_examples" / "jobs" / "playback_quality.py"


def class_path(spark_home: str) -> list[Path]:
    """Name every jar in one order. Spark adds its folder of settings after these, and no archive covers a folder."""
    return [*jar_paths(), *sorted(Path(spark_home, "jars").glob("*.jar"))]


@cache
def archive(spark_home: str) -> Path:
    """Where the archive for this JVM and these jars is, if there is one. A jar that was written again is another."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
    try:
        version = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except FileNotFoundError:
        version = "none"
    known = [version, *(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in class_path(spark_home))]
    name = hashlib.sha256("\n".join(known).encode()).hexdigest()[:12]
    return JARS_FOLDER.with_name(f"classes-{name}.jsa")


def java_options(spark_home: str) -> tuple[str, ...]:
    """What has a JVM use the archive, if it was made."""
    path = archive(spark_home)
    return (f"-XX:SharedArchiveFile={path}",) if path.exists() else ()


def main() -> int:
    """Make the archive unless it is there; whether that works or not, Spark runs."""
    from scripts.lake import Lake, pyspark_folder

    wanted = archive(pyspark_folder())
    if wanted.exists():
        return 0
    with tempfile.TemporaryDirectory(prefix="classes-", dir=wanted.parent) as folder:
        made = Path(folder, wanted.name)
        lake = Lake.on_sqlite(Path(folder, "lake"))
        environment = {**os.environ, **lake.environment(java_options=(f"-XX:ArchiveClassesAtExit={made}",))}
        _fill(lake)
        command = ["spark-submit", "--master", "local[2]", str(JOB), "--source", "lake.db.source"]
        command += ["--target", "lake.db.target"]
        done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=SECONDS)
        if done.returncode == 0 and made.exists():
            # Within one file system, so that no JVM ever finds half an archive.
            made.replace(wanted)
            for old in wanted.parent.glob("classes-*.jsa"):
                if old != wanted:
                    old.unlink()
        else:
            print("jars: this JVM keeps no archive of Spark's classes; jobs start some seconds later without")
    return 0


def _fill(lake: Lake) -> None:
    from scripts.wide_events import create_wide_table, day_of_wide_events

    day = date(2026, 1, 1)
    table = create_wide_table(lake.catalog(), "db.source")
    table.append(day_of_wide_events(day, number=0, rows=100, earliest=day, seed=0))


if __name__ == "__main__":
    sys.exit(main())
