"""A fresh clone needs a Python and a Java: one that is missing is told in one line, with the remedy."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("cat", "cksum", "dirname", "grep", "head", "sed", "sh")

JAVA_17 = """echo 'openjdk version "17.0.15" 2025-04-15' >&2"""
JAVA_11 = """echo 'openjdk version "11.0.27" 2025-04-15' >&2"""
JAVA_8 = """echo 'java version "1.8.0_452"' >&2"""
MAC_STUB = "echo 'Unable to locate a Java Runtime.' >&2; exit 1"
PYTHON_39 = """case "$1" in --version) echo Python 3.9.2;; *) exit 1;; esac"""
PYTHON_WITHOUT_VENV = """case "$2" in *ensurepip*) exit 1;; esac"""


@pytest.fixture
def bootstrap(tmp_path):
    """Run a copy of the script on a machine that has the programs given and no others."""
    clone = tmp_path / "clone"
    (clone / "scripts").mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt", "scripts/bootstrap"):
        shutil.copy(ROOT / name, clone / name)
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in TOOLS:
        (programs / tool).symlink_to(shutil.which(tool))

    def run(environment=None, **scripts):
        for name, script in scripts.items():
            program = programs / name.replace("_", ".")
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
        result = subprocess.run(
            [clone / "scripts" / "bootstrap"],
            env={"PATH": str(programs), **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 1
        assert not (clone / ".venv").exists()
        (line,) = result.stderr.splitlines()
        return line

    return run


def test_no_java(bootstrap):
    line = bootstrap()

    assert line.startswith("bootstrap: Java 17 or newer is needed by Spark (found: none); install it (Debian: apt-get")


def test_a_stub_is_no_java(bootstrap):
    assert "found: none" in bootstrap(java=MAC_STUB)


@pytest.mark.parametrize(("java", "version"), [(JAVA_11, "11.0.27"), (JAVA_8, "1.8.0_452")], ids=["11", "8"])
def test_java_too_old(bootstrap, java, version):
    line = bootstrap(java=java)

    assert "Java 17 or newer is needed" in line
    assert version in line
    assert "install it" in line


def test_java_home_without_java(bootstrap):
    line = bootstrap({"JAVA_HOME": "/nowhere"}, java=JAVA_17)

    assert line == "bootstrap: JAVA_HOME=/nowhere has no bin/java, and Spark would start no other; correct or unset it"


def test_no_python(bootstrap):
    line = bootstrap(java=JAVA_17)

    assert line.startswith(
        "bootstrap: Python 3.11 or newer is needed (found: none); install it (Debian: apt-get install"
    )


def test_python_too_old(bootstrap):
    assert "Python 3.11 or newer is needed (found: Python 3.9.2)" in bootstrap(java=JAVA_17, python3=PYTHON_39)


def test_python_without_venv(bootstrap):
    line = bootstrap(java=JAVA_17, python3_11=PYTHON_WITHOUT_VENV)

    assert line.startswith("bootstrap: python3.11 cannot make environments")
    assert line.endswith("(Debian: apt-get install python3.11-venv)")


def test_the_python_named_is_too_old(bootstrap):
    line = bootstrap({"PYTHON": "python3.9"}, java=JAVA_17, python3_9=PYTHON_39)

    assert line == "bootstrap: PYTHON=python3.9 is no Python 3.11 or newer; name one that is, or unset it"
