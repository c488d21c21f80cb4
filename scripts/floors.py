"""Run the built wheel on the oldest versions that it supports, under the constraints that Airflow publishes for them.

    python scripts/floors.py            installs the wheel of dist/ under each of tests/floors/*.txt, compares what was
                                        installed with what they pin, and runs the smoke test there
    python scripts/floors.py --tests    runs the tests of the Airflow layer on the oldest of them

The constraints are those for Python 3.12. Where no Python 3.12 can be found, nothing is run, and that is said. With
--tests it is also a failure.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parent.parent
CONSTRAINTS: Final = ROOT / "tests" / "floors"
ENVIRONMENTS: Final = ROOT / ".cache" / "floors"
PYTHON: Final = "3.12"
TESTS: Final = (
    *("tests/airflow", "tests/iceberg", "tests/checkpoints/test_claim_tables.py"),
    *("tests/checkpoints/test_iceberg_store.py", "tests/checkpoints/test_iceberg_store_in_dags.py"),
)
"""Other tests of checkpoints are about Variables, or about both stores."""

TEST_TOOLS: Final = (
    *("hypothesis", "jsonschema", "openlineage-python", "psycopg2-binary", "pytest", "pytest-timeout", "pytest-xdist"),
    *("PyYAML", "import-linter", "statsd"),
)
"""Of the tools in the extra `dev`, those that these tests import."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", action="store_true", help="run the tests on the oldest version")
    parser.add_argument("arguments", nargs="*", help="for pytest")
    options = parser.parse_args()
    python = find_python()
    if python is None:
        print(
            f"floors: NOT RUN: there is no Python {PYTHON} on this machine (on the PATH, by pyenv or uv), and the "
            f"constraints of {', '.join(floors())} are for that one. Nothing is known about these versions now.",
            file=sys.stderr,
        )
        return int(options.tests)  # who wants the tests shall not take this for a success
    if options.tests:
        return run_tests(python, min(floors(), key=_as_numbers), options.arguments)
    for airflow in sorted(floors(), key=_as_numbers):
        started = time.monotonic()
        run_smoke(python, airflow)
        print(f"floors: Airflow {airflow}: passed in {time.monotonic() - started:.0f} s", flush=True)
    return 0


def floors() -> dict[str, Path]:
    """Return the constraints file of each version of Airflow."""
    return {path.stem.removeprefix("airflow-"): path for path in CONSTRAINTS.glob("airflow-*.txt")}


def pins(airflow: str) -> dict[str, str]:
    """Return what the constraints of a version of Airflow pin."""
    lines = floors()[airflow].read_text().splitlines()
    pinned = (line.partition("==") for line in lines if "==" in line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, _, version in pinned}


def find_python() -> str | None:
    """Find a Python of the version that the constraints are for."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [
        shutil.which(f"python{PYTHON}"),
        *map(str, sorted(pyenv.glob(f"{PYTHON}*/bin/python"))),
        _output([_uv(), "python", "find", "--no-python-downloads", PYTHON]),
    ]
    said = "import sys; print('%d.%d' % sys.version_info[:2])"
    return next((path for path in candidates if path and _output([path, "-c", said]) == PYTHON), None)


def run_smoke(python: str, airflow: str) -> None:
    (wheel,) = (ROOT / "dist").glob("*.whl")
    environment = ENVIRONMENTS / airflow
    _install(python, environment, airflow, [str(wheel)])
    refuse_other_versions(environment, airflow)
    # -I: neither the folder of the script nor the one we are in is importable.
    command = [_python_of(environment), "-I", str(ROOT / "scripts" / "smoke.py")]
    subprocess.run(command, cwd=environment, check=True)


def run_tests(python: str, airflow: str, arguments: list[str]) -> int:
    environment = ENVIRONMENTS / f"{airflow}-tests"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    wanted = {canonicalize_name(tool) for tool in TEST_TOOLS}
    tools = [line for line in extras if canonicalize_name(Requirement(line).name) in wanted]
    _install(python, environment, airflow, ["--editable", str(ROOT), *tools])
    workers = ("--numprocesses", os.environ.get("WORKERS", "3"), "--dist", "loadgroup")
    command = [_python_of(environment), "-m", "pytest", *TESTS, *workers, *arguments]
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": path}, check=False).returncode


def refuse_other_versions(environment: Path, airflow: str) -> None:
    """Fail where something is installed in another version than the constraints pin."""
    listed = _output([_uv(), "pip", "list", "--python", _python_of(environment), "--format", "freeze"])
    installed = dict(re.findall(r"^(\S+)==(\S+)$", listed or "", re.MULTILINE))
    pinned = pins(airflow)
    other = {
        name: (version, pinned[canonicalize_name(name)])
        for name, version in installed.items()
        if pinned.get(canonicalize_name(name), version) != version
    }
    if other or canonicalize_name("apache-airflow") not in map(canonicalize_name, installed):
        sys.exit(f"floors: Airflow {airflow}: not as its constraints say (installed, pinned): {other}")
    print(f"floors: Airflow {airflow}: {len(installed)} packages, each as its constraints say", flush=True)


def _install(python: str, environment: Path, airflow: str, what: list[str]) -> None:
    print(f"floors: Airflow {airflow}: installing into {environment.relative_to(ROOT)}", flush=True)
    subprocess.run([_uv(), "venv", "--quiet", "--clear", "--python", python, str(environment)], check=True)
    command = [_uv(), "pip", "install", "--quiet", "--python", _python_of(environment)]
    subprocess.run([*command, "--constraint", str(floors()[airflow]), f"apache-airflow=={airflow}", *what], check=True)


def _python_of(environment: Path) -> str:
    return str(environment / "bin" / "python")


def _uv() -> str:
    return str(ROOT / ".venv" / "bin" / "uv")


def _output(command: list[str]) -> str | None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else None


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


if __name__ == "__main__":
    sys.exit(main())
