"""Bring the jars that Spark needs for Iceberg into `.cache/jars`, and print where they are.

Spark's own resolver downloads them, so whatever mirror or proxy Spark is set up for is used here as well. A jar counts
as there when its SHA-256 is the one written below; a run that finds all of them starts no Java. With `--servers` the
jars of the servers that tests start are brought into `.cache/servers` too; they are large, and Spark never sees them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

JARS_FOLDER = Path(__file__).resolve().parent.parent / ".cache" / "jars"
SERVERS_FOLDER = JARS_FOLDER.with_name("servers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """A Maven artifact, known by its content."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str = ""
    folder: Path = JARS_FOLDER

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def path(self) -> Path:
        classified = f"-{self.classifier}" if self.classifier else ""
        return self.folder / f"{self.artifact}-{self.version}{classified}.jar"

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

S3_FOR_SPARK = Jar(  # Spark's own S3A would need six hundred megabytes of the same SDK
    group="org.apache.iceberg",
    artifact="iceberg-aws-bundle",
    version="1.12.0",
    sha256="dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
    folder=SERVERS_FOLDER,
)
NESSIE = Jar(  # an Iceberg REST catalog in one jar
    group="org.projectnessie.nessie",
    artifact="nessie-quarkus",
    version="0.99.0",
    sha256="ce9fa33e2878bf5ea3981876b9e6204cabc0362b3dd82326b10e47271a78c417",
    classifier="runner",
    folder=SERVERS_FOLDER,
)
S3PROXY = Jar(  # S3 over a folder
    group="org.gaul",
    artifact="s3proxy",
    version="3.1.0",
    sha256="7e348225287f2efa580b1f9be170a3efe187bc6cfa9cd3730968863d1c7363ac",
    classifier="jar-with-dependencies",
    folder=SERVERS_FOLDER,
)
SERVER_JARS = (S3_FOR_SPARK, NESSIE, S3PROXY)

# Spark brings the first; the second holds annotations for a Java compiler.
NOT_NEEDED = ("org.slf4j:slf4j-api", "org.checkerframework:checker-qual")


class JarsUnavailableError(Exception):
    """Some jar could not be brought, or is not what it should be."""


def jar_paths(jars: tuple[Jar, ...] = JARS) -> list[Path]:
    """Return the jars for Spark's class path, or those asked for; `make jars` must have run."""
    missing = [jar.path for jar in jars if not jar.path.exists()]
    if missing:
        raise JarsUnavailableError(
            f"{', '.join(path.name for path in missing)} not in {missing[0].parent}: what needs them cannot start; "
            "run 'make jars'"
        )
    return [jar.path for jar in jars]


def main(arguments: list[str]) -> int:
    asked_for = (*JARS, *SERVER_JARS) if arguments == ["--servers"] else JARS
    wanted = [jar for jar in asked_for if not _is_intact(jar.path, jar)]
    try:
        if plain := [jar for jar in wanted if not jar.classifier]:
            _resolve(plain)
        if classified := [jar for jar in wanted if jar.classifier]:
            _resolve_classified(classified)
    except JarsUnavailableError as error:
        print(f"jars: {error}", file=sys.stderr)
        return 1
    print(*jar_paths(), sep="\n")
    return 0


def _is_intact(path: Path, jar: Jar) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == jar.sha256


def _resolve(wanted: list[Jar]) -> None:
    with _ivy_folder() as ivy:
        output = _run_spark_resolver(wanted, ivy)
        for jar in wanted:
            _keep(ivy / "jars" / jar.name_given_by_ivy, jar, output)


def _resolve_classified(wanted: list[Jar]) -> None:
    """What Spark's option cannot name, the resolver inside Spark can: it is started by itself."""
    with _ivy_folder() as ivy:
        output = _run_ivy(wanted, ivy)
        for jar in wanted:
            _keep(ivy / "jars" / jar.path.name, jar, output)


@contextlib.contextmanager
def _ivy_folder() -> Iterator[Path]:
    # An Ivy folder of its own: one shared with other programs may hold half a download of theirs.
    JARS_FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ivy-", dir=JARS_FOLDER.parent) as folder:
        yield Path(folder)


def _keep(found: Path, jar: Jar, output: str) -> None:
    if not found.is_file():
        raise JarsUnavailableError(_not_found(jar, output))
    if not _is_intact(found, jar):
        actual = hashlib.sha256(found.read_bytes()).hexdigest()
        raise JarsUnavailableError(
            f"{jar.coordinates} has SHA-256 {actual} and not {jar.sha256}: it is not the jar that was "
            "tested; try again, and if it stays so, find out what your repository mirror serves"
        )
    jar.path.parent.mkdir(parents=True, exist_ok=True)
    # Within one file system, so that a run that is stopped never leaves half a jar under the final name.
    found.replace(jar.path)


IVY_MODULE = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="airflow-provider-ips" module="servers"/>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""
IVY_DEPENDENCY = (
    '<dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}" transitive="false">'
    '<artifact name="{jar.artifact}" type="jar" ext="jar" m:classifier="{jar.classifier}"/></dependency>'
)
# As Spark's resolver does, a repository named by this variable stands in for Maven Central.
IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="repository"/>
  <resolvers><ibiblio name="repository" m2compatible="true"{root}/></resolvers>
</ivysettings>
"""


def _run_ivy(wanted: list[Jar], ivy: Path) -> str:
    import pyspark

    spark_jars = Path(pyspark.__file__).parent / "jars"
    class_path = [str(path) for name in ("ivy", "commons-cli") for path in spark_jars.glob(f"{name}-*.jar")]
    repository = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY", "")
    root = f' root="{repository}"' if repository else ""
    dependencies = "".join(IVY_DEPENDENCY.format(jar=jar) for jar in wanted)
    (ivy / "ivy.xml").write_text(IVY_MODULE.format(dependencies=dependencies))
    (ivy / "ivysettings.xml").write_text(IVY_SETTINGS.format(root=root))
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else Path("java")
    command = [str(java), "-cp", os.pathsep.join(class_path), "org.apache.ivy.Main", "-settings"]
    command += [str(ivy / "ivysettings.xml"), "-ivy", str(ivy / "ivy.xml"), "-cache", str(ivy / "cache")]
    command += ["-retrieve", f"{ivy}/jars/[artifact]-[revision](-[classifier]).[ext]"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    except FileNotFoundError:
        raise JarsUnavailableError(f"{java} does not exist: correct JAVA_HOME, or install a Java") from None
    return result.stdout + result.stderr


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
    sys.exit(main(sys.argv[1:]))
