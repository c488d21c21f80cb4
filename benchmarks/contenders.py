"""Starting contenders: a fresh Python process for each run, one JVM for all runs on a table."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self

from benchmarks.generator import ICDC, SOURCE
from benchmarks.measurements import Run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.generator import Generated

HERE: Final = Path(__file__).resolve().parent
JARS: Final = HERE.parent / ".cache" / "jars"
PROGRAM: Final = HERE / "PublishedCode.java"
_LOGGING_AND_HADOOP: Final = (
    "slf4j-api",
    "log4j-slf4j2-impl",
    "log4j-api",
    "log4j-core",
    "hadoop-client-api",
    "hadoop-client-runtime",
    "commons-logging",
)


class ContenderError(Exception):
    """A contender failed, or made another table than it should have."""


class Python:
    """A contender that runs in a fresh process of this interpreter."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, table: Generated) -> Run:
        """Once."""
        words = [self.name, str(table.folder), str(table.since), _target()]
        command = [sys.executable, "-m", "benchmarks.contender", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE.parent)
        if done.returncode:
            raise ContenderError(f"{self.name} failed on {table.shape.name}:\n{done.stderr[-4000:]}")
        return _checked(self.name, table, json.loads(done.stdout.splitlines()[-1]))


class Java:
    """The published code, in a JVM that stays: its first runs warm it up and do not count."""

    name = "java"

    def __init__(self, heap: str) -> None:
        home = os.environ.get("JAVA_HOME")
        programs = str(Path(home, "bin")) if home else None
        java = shutil.which("java", path=programs)
        if java is None or shutil.which("javac", path=programs) is None:
            raise ContenderError(
                "the published code is compiled as it starts, and neither the PATH nor JAVA_HOME has a Java compiler: "
                "install a JDK (Debian: apt-get install openjdk-17-jdk-headless), or leave this contender out with "
                "--without java"
            )
        # A file and not a pipe: a pipe that nobody reads stops the JVM once it is full.
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the JVM
        command = [java, f"-Xmx{heap}", "-cp", _class_path(), str(PROGRAM)]
        self._jvm = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._commands.close()
        self._jvm.wait()
        self._answers.close()
        self._errors.close()

    def run(self, table: Generated) -> Run:
        """Once; the JVM is warm if it has run before."""
        words = (table.database, f"file://{table.warehouse}", SOURCE, _target(), table.since)
        return _checked(self.name, table, self._run(words, table.shape.name))

    def run_in_s3(self, database: Path, warehouse: str, properties: Mapping[str, str], since: int) -> Run:
        """Once, on a table whose files are in S3."""
        region = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "client.region": properties["s3.region"]}
        pairs = [f"{key}={value}" for key, value in {**properties, **region}.items()]
        return Run.parse(self._run((database, warehouse, SOURCE, _target(), since, *pairs), warehouse))

    def _run(self, words: Sequence[object], table: str) -> dict[str, Any]:
        self._commands.write(" ".join(str(word) for word in words) + "\n")
        self._commands.flush()
        result = None
        for line in self._answers:
            if line.startswith("RESULT "):
                result = json.loads(line.removeprefix("RESULT "))
            if line.startswith("READY"):
                break
        if result is None:
            self._errors.seek(0)
            raise ContenderError(f"the Java program failed on {table}:\n{self._errors.read()[-4000:]}")
        return dict(result)

    @property
    def _commands(self) -> IO[str]:
        if self._jvm.stdin is None:
            raise ContenderError("the JVM was started without a pipe to it")
        return self._jvm.stdin

    @property
    def _answers(self) -> IO[str]:
        if self._jvm.stdout is None:
            raise ContenderError("the JVM was started without a pipe from it")
        return self._jvm.stdout


def _target() -> str:
    """A name that no earlier run, ended or killed, has left a table under."""
    return f"{ICDC}.t_{secrets.token_hex(4)}"


def _checked(name: str, table: Generated, result: dict[str, Any]) -> Run:
    """Speed counts only for the right files."""
    run = Run.parse(result)
    expected = table.expected
    if name != "load_table" and (run.files, run.records) != expected:
        raise ContenderError(
            f"{name} captured {run.files} files with {run.records} rows of {table.shape.name}, not {expected}"
        )
    return run


def _class_path() -> str:
    import pyspark

    spark = Path(pyspark.__file__).parent / "jars"
    jars = [*JARS.glob("iceberg-spark-runtime-*.jar"), *JARS.glob("sqlite-jdbc-*.jar")]
    jars += JARS.with_name("servers").glob("iceberg-aws-bundle-*.jar")
    for name in _LOGGING_AND_HADOOP:
        jars += spark.glob(f"{name}-[0-9]*.jar")
    if not any(jar.name.startswith("iceberg") for jar in jars):
        raise ContenderError(f"no Iceberg jar in {JARS}: run 'make jars'")
    return ":".join(str(jar) for jar in jars)
