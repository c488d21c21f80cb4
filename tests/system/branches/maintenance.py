"""Iceberg's own library in several releases, each in a process that carries out one command after the other."""

from __future__ import annotations

import subprocess
import sysconfig
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.local_spark import BRIEF_JVM
from scripts.spark_jars import JARS
from tests.kit.packages import file_of_maven

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROGRAM: Final = Path(__file__).with_name("Maintenance.java")
OWN: Final = "1.12.0"
OTHERS: Final = {
    "1.8.1": "iceberg-spark-runtime-3.5_2.12:1.8.1",
    "1.9.2": "iceberg-spark-runtime-3.5_2.12:1.9.2",
    "1.10.1": "iceberg-spark-runtime-3.5_2.12:1.10.1",
    "1.11.0": "iceberg-spark-runtime-4.0_2.13:1.11.0",
}


class Release:
    """One release at work on one catalog; ``done`` counts what it has carried out."""

    def __init__(self, version: str, process: subprocess.Popen[str]) -> None:
        self.version = version
        self.done = Counter[str]()
        self._process = process

    def run(self, *words: object) -> str:
        """Carry out one command, and give the error if it failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        assert answer, f"Iceberg {self.version} has ended at {words}"
        self.done[str(words[0])] += answer == "done"
        return answer.removeprefix("done").removeprefix("failed ")


def _jar(version: str) -> Path:
    return JARS[0].path if version == OWN else file_of_maven(f"org.apache.iceberg:{OTHERS[version]}")


@contextmanager
def releases(folder: Path, versions: Sequence[str]) -> Iterator[list[Release]]:
    """Start some releases on the SQLite catalog in a folder, and stop them at the end."""
    hadoop = Path(sysconfig.get_path("purelib")) / "pyspark" / "jars" / "*"
    with ExitStack() as running:
        started = []
        for version in versions:
            path = f"{_jar(version)}:{JARS[1].path}:{hadoop}"
            places = [f"jdbc:sqlite:file:{folder}/catalog.db", f"file://{folder}/warehouse"]
            process = running.enter_context(
                subprocess.Popen(
                    ["java", *BRIEF_JVM, "-Xmx192m", "-cp", path, str(PROGRAM), *places],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            running.callback(process.kill)
            assert process.stdout is not None
            said = process.stdout.readline()
            assert version in said, said
            started.append(Release(version, process))
        yield started
