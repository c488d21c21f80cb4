"""Bring the jars that Spark needs for Iceberg into `.cache/jars`, and print where they are.

Spark's own resolver downloads them, so whatever mirror or proxy Spark is set up for is used here as well. A jar counts
as there when its SHA-256 is the one written below; a run that finds all of them starts no Java.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

JARS_FOLDER = Path(__file__).resolve().parent.parent / ".cache" / "jars"


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """A Maven artifact, known by its content."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def path(self) -> Path:
        return JARS_FOLDER / f"{self.artifact}-{self.version}.jar"

    @property
    def name_given_by_ivy(self) -> str:
        return f"{self.group}_{self.artifact}-{self.version}.jar"


JARS = (
    Jar(
        group="org.apache.iceberg",
        artifact="iceberg-spark-runtime-4.1_2.13",
        version="1.12.0",
        sha256="3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    ),
    Jar(  # the JDBC catalog on SQLite: demo, examples, tests
        group="org.xerial",
        artifact="sqlite-jdbc",
        version="3.51.0.0",
        sha256="b0ca8cf80d6eff80ee18aa6e8a6aa72f697af0bf9c822c4b2ad9e35c7a3146e1",
    ),
    Jar(  # the JDBC catalog on PostgreSQL
        group="org.postgresql",
        artifact="postgresql",
        version="42.7.11",
        sha256="1981b31d3993c58702783c1cddf10a34e48c1f413d70ff1cb6def0a143484647",
    ),
)

# Spark brings the first; the second holds annotations for a Java compiler.
NOT_NEEDED = ("org.slf4j:slf4j-api", "org.checkerframework:checker-qual")


class JarsUnavailableError(Exception):
    """Some jar could not be brought, or is not what it should be."""


def jar_paths() -> list[Path]:
    """Return the jars for Spark's class path; `make jars` must have run."""
    missing = [jar.path.name for jar in JARS if not jar.path.exists()]
    if missing:
        raise JarsUnavailableError(
            f"{', '.join(missing)} not in {JARS_FOLDER}: Spark cannot read Iceberg; run 'make jars'"
        )
    return [jar.path for jar in JARS]


def main() -> int:
    wanted = [jar for jar in JARS if not _is_intact(jar.path, jar)]
    if wanted:
        try:
            _resolve(wanted)
        except JarsUnavailableError as error:
            print(f"jars: {error}", file=sys.stderr)
            return 1
    print(*jar_paths(), sep="\n")
    return 0


def _is_intact(path: Path, jar: Jar) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == jar.sha256


def _resolve(wanted: list[Jar]) -> None:
    JARS_FOLDER.mkdir(parents=True, exist_ok=True)
    # An Ivy folder of its own: one shared with other programs may hold half a download of theirs.
    with tempfile.TemporaryDirectory(prefix="ivy-", dir=JARS_FOLDER.parent) as ivy:
        output = _run_spark_resolver(wanted, Path(ivy))
        for jar in wanted:
            found = Path(ivy, "jars", jar.name_given_by_ivy)
            if not found.is_file():
                raise JarsUnavailableError(_not_found(jar, output))
            if not _is_intact(found, jar):
                actual = hashlib.sha256(found.read_bytes()).hexdigest()
                raise JarsUnavailableError(
                    f"{jar.coordinates} has SHA-256 {actual} and not {jar.sha256}: it is not the jar that was "
                    "tested; try again, and if it stays so, find out what your repository mirror serves"
                )
            # Within one file system, so that a run that is stopped never leaves half a jar under the final name.
            found.replace(jar.path)


def _run_spark_resolver(wanted: list[Jar], ivy: Path) -> str:
    application = ivy / "nothing.py"
    application.touch()
    environment = {
        **os.environ,
        # spark-submit is a shell script that asks the first python3 on the PATH where pyspark is.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    environment.pop("SPARK_HOME", None)  # another Spark's resolver would look for jars of another Scala
    command = [
        str(Path(sys.executable).with_name("spark-submit")),
        "--master=local[1]",
        f"--packages={','.join(jar.coordinates for jar in wanted)}",
        f"--exclude-packages={','.join(NOT_NEEDED)}",
        f"--conf=spark.jars.ivy={ivy}",
        str(application),
    ]
    if not shutil.which(command[0]):
        raise JarsUnavailableError(f"{command[0]} does not exist: pyspark is not installed here; run 'make env'")
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    return result.stdout + result.stderr


def _not_found(jar: Jar, output: str) -> str:
    telling = [
        line.strip() for line in output.splitlines() if "unresolved" in line or "Error" in line or "JAVA" in line
    ]
    return (
        f"{jar.coordinates} could not be downloaded ({'; '.join(telling[:3]) or 'no reason given'}): check that Maven "
        "Central or your mirror of it is reached (spark.jars.ivySettings in spark-defaults.conf), or put the jar into "
        f"{jar.path.parent} as {jar.path.name}"
    )


if __name__ == "__main__":
    sys.exit(main())
