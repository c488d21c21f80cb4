"""What tests of engines and catalogs need beside ``make env``: environments of Python, jars, programs of Go and npm.

Each lies in a folder of its own below ``.cache/packages``, is fetched once, and counts as there once it is complete.
What this machine cannot get is an :class:`UnavailableError`, whose text says why: it is shown as the reason for which
something was not run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER: Final = Path(__file__).resolve().parents[2] / ".cache" / "packages"
SECONDS: Final = 1500
"""For one download: the largest is 800 MB."""

PROJECT: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>tests</artifactId><version>1</version><dependencies>{dependencies}</dependencies>
</project>
"""
DEPENDENCY: Final = """\
<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
<classifier>{classifier}</classifier><exclusions>{exclusions}</exclusions></dependency>
"""
EXCLUSION: Final = "<exclusion><groupId>{group}</groupId><artifactId>*</artifactId></exclusion>"


class UnavailableError(Exception):
    """Something cannot be had on this machine."""


def python_with(name: str, *requirements: str, python: str = "3.11") -> Path:
    """The Python of an environment that holds these packages."""

    def build(folder: Path) -> None:
        uv = str(Path(sys.executable).with_name("uv"))
        _run(uv, "venv", "--quiet", "--clear", "--python", python, str(folder / "venv"))
        _run(uv, "pip", "install", "--quiet", "--python", str(folder / "venv"), *requirements)

    return _fetched(name, (python, *requirements), build) / "venv" / "bin" / "python"


def jars(name: str, *coordinates: str, without: tuple[str, ...] = ()) -> Path:
    """A folder with jars and all that they depend on, except for the groups in ``without``.

    :param coordinates: ``group:artifact:version``, and the classifier as a fourth part where there is one
    """

    def build(folder: Path) -> None:
        exclusions = "".join(EXCLUSION.format(group=group) for group in without)
        listed = "".join(_dependency(each, exclusions) for each in coordinates)
        (folder / "pom.xml").write_text(PROJECT.format(dependencies=listed))
        pom = ("--file", str(folder / "pom.xml"))
        _maven(*pom, "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'jars'}")

    return _fetched(name, (*coordinates, *without), build) / "jars"


def file_of_maven(coordinates: str, *, kind: str = "jar") -> Path:
    """One file of ``group:artifact:version``, without what it depends on."""
    _, artifact, version = coordinates.split(":")

    def build(folder: Path) -> None:
        _maven("dependency:copy", f"-Dartifact={coordinates}:{kind}", f"-DoutputDirectory={folder}")

    return _fetched(artifact, (coordinates, kind), build) / f"{artifact}-{version}.{kind}"


def program_of_go(module: str, version: str) -> Path:
    """A program that Go builds from a module."""

    def build(folder: Path) -> None:
        _run("go", "install", f"{module}@{version}", environment={"GOBIN": str(folder), "GOFLAGS": "-modcacherw"})

    program = module.rpartition("/")[2]
    return _fetched(program, (module, version), build) / program


def program_of_debian(package: str, path: str) -> Path:
    """A program of a Debian package: the one that is installed, or else one that is only unpacked."""
    if installed := shutil.which(path.rpartition("/")[2]):
        return Path(installed)

    def build(folder: Path) -> None:
        command = f"apt-get download {package} && dpkg --extract {package}_*.deb ."
        _run("sh", "-c", f"cd '{folder}' && {command}")

    return _fetched(package, (package, path), build) / path


def program_of_npm(package: str, version: str, program: str) -> Path:
    """A program that a package of npm brings."""

    def build(folder: Path) -> None:
        _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), f"{package}@{version}")

    return _fetched(package, (package, version), build) / "node_modules" / ".bin" / program


def _dependency(coordinates: str, exclusions: str) -> str:
    group, artifact, version, *classifier = coordinates.split(":")
    return DEPENDENCY.format(
        group=group,
        artifact=artifact,
        version=version,
        classifier="".join(classifier),
        exclusions=exclusions,
    )


def _maven(*arguments: str) -> None:
    _run("mvn", "--batch-mode", "--quiet", "--no-transfer-progress", *arguments)


def _fetched(name: str, wanted: tuple[str, ...], build: Callable[[Path], None]) -> Path:
    mark = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:10]
    folder = FOLDER / f"{name}-{mark}"
    complete = folder / "complete"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        build(folder)
        complete.touch()
    return folder


def _run(*command: str, environment: dict[str, str] | None = None) -> None:
    if not shutil.which(command[0]):
        raise UnavailableError(f"{Path(command[0]).name} is not installed")
    try:
        result = subprocess.run(
            command,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{Path(command[0]).name} did not end within {SECONDS} s") from None
    if result.returncode:
        said = [line.strip() for line in (result.stderr + result.stdout).splitlines() if line.strip()]
        raise UnavailableError(f"{Path(command[0]).name} could not fetch it: {' '.join(said)[:300]}")
