"""The versions that tests rely on: pinned, complete, and the ones that are here."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENTS = [
    *PROJECT["dependencies"],
    *(requirement for extra in PROJECT["optional-dependencies"].values() for requirement in extra),
]
LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]


def pins_for(python, patch=0):
    environment = {"python_version": python, "python_full_version": f"{python}.{patch}"}
    pins = {}
    for line in LINES:
        pin = Requirement(line)
        if pin.marker is None or pin.marker.evaluate(environment):
            pins[canonicalize_name(pin.name)] = str(pin.specifier).removeprefix("==")
    return pins


def test_every_line_pins_one_version_and_names_no_place():
    for line in LINES:
        assert re.fullmatch(r"[a-z0-9-]+==[^\s=]+( ; [^:@]+)?", line), line


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_every_requirement_has_a_pin_that_satisfies_it(requirement, python):
    required = Requirement(requirement)

    assert pins_for(python)[canonicalize_name(required.name)] in required.specifier


def test_what_is_installed_here_is_what_is_pinned():
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    differing = {}
    for name, pin in pins_for(here, sys.version_info.micro).items():
        try:
            installed = version(name)
        except PackageNotFoundError:  # of another platform
            continue
        if installed != pin:
            differing[name] = (installed, pin)

    assert not differing


GROUPED = """
import os, pytest

@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("number", range(6))
def test_grouped(number):
    with open("workers", "a") as file:
        print(os.environ["PYTEST_XDIST_WORKER"], file=file)
"""


def test_the_test_runner_keeps_a_group_on_one_worker(tmp_path):
    """Groups share a Spark session; releases of pytest and pytest-xdist that do not fit ignore them without a word."""
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    command = [sys.executable, "-m", "pytest", "--numprocesses", "2", "--dist", "loadgroup", "test_grouped.py"]

    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 6
    assert len(set(workers)) == 1


def test_jars_that_are_there_are_not_fetched_again():
    """Without a Java nothing could be fetched."""
    result = subprocess.run(
        [sys.executable, ROOT / "scripts" / "spark_jars.py"],
        env={**os.environ, "JAVA_HOME": "no-java-here"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert [Path(line).exists() for line in result.stdout.splitlines()] == [True, True, True]


def test_a_damaged_jar_does_not_count_as_there(tmp_path):
    """It is fetched again, which without a Java must fail and say so."""
    shutil.copytree(ROOT / ".cache" / "jars", tmp_path / ".cache" / "jars")
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts" / "spark_jars.py", tmp_path / "scripts")
    (damaged,) = (tmp_path / ".cache" / "jars").glob("sqlite-jdbc-*.jar")
    damaged.write_bytes(b"half a download")

    result = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "JAVA_HOME": "no-java-here"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("jars: org.xerial:sqlite-jdbc:")
    assert "could not be downloaded" in line
