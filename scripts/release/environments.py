"""What the built files do where nothing else of the repository is: installed, listed, and tested."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name

from scripts.release.sources import ROOT

ARTEFACTS: Final = ROOT / ".artefacts" / "release"
QUICK: Final = (
    *("tests/core/test_checkpoint.py", "tests/core/test_lineage.py", "tests/core/test_plan.py"),
    *("tests/iceberg/test_append_capture.py", "tests/package/test_public_surface.py", "tests/package/test_rings.py"),
    *("tests/docs/test_links.py", "tests/docs/docker/test_compose.py"),
)
"""A part of the tests that needs no server and ends within a minute."""

MUST_LIST: Final = ("apache-airflow-core", "pyiceberg", "pyarrow")


def use(distribution: Path, name: str) -> Iterator[str]:
    """Install it into an environment of its own and run the smoke test there."""
    done = subprocess.run(["scripts/smoke", str(distribution), name], cwd=ROOT, check=False)
    if done.returncode:
        yield f"{distribution.name} does not work where it is installed: see above"


def list_parts(version: str, environment: Path) -> Iterator[str]:
    """Write the bill of materials: all that an installation has, by versions and licences."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    bill = ARTEFACTS / f"airflow-provider-ips-{version}.cdx.json"
    command = [sys.executable, "-m", "cyclonedx_py", "environment", str(environment / "bin" / "python")]
    command += [
        "--pyproject",
        str(ROOT / "pyproject.toml"),
        "--mc-type",
        "library",
        "--output-reproducible",
        "--validate",
    ]
    done = subprocess.run([*command, "--output-file", str(bill)], capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"no bill of materials: {done.stderr}"
        return
    said = json.loads(bill.read_text())
    # The tool takes the package's own entry from pyproject.toml, where the version is not.
    said["metadata"]["component"] |= {"version": version, "purl": f"pkg:pypi/airflow-provider-ips@{version}"}
    bill.write_text(json.dumps(said, indent=1) + "\n")
    yield from of_bill(said)


def of_bill(bill: dict[str, Any]) -> Iterator[str]:
    """A bill of something else, or one that lacks what the package stands on, says nothing about it."""
    if bill["metadata"]["component"]["name"] != "airflow-provider-ips":
        yield f"the bill of materials is one of {bill['metadata']['component']['name']}"
    listed = {canonicalize_name(each["name"]): each.get("version") for each in bill["components"]}
    for name in MUST_LIST:
        if not listed.get(canonicalize_name(name)):
            yield f"the bill of materials lists no {name} with its version"


def run_its_tests(sdist: Path) -> Iterator[str]:
    """Unpack the source distribution, and run a part of the tests with nothing but what is in it."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
        home = Path(folder) / sdist.name.removesuffix(".tar.gz")
        where = [sys.executable, "-c", "import airflow_provider_ips; print(airflow_provider_ips.__file__)"]
        found = subprocess.run(where, cwd=home, capture_output=True, text=True, check=False).stdout.strip()
        if not Path(found).is_relative_to(home):
            yield f"the tests of {sdist.name} would import {found}"
            return
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--numprocesses", "2", *QUICK]
        if subprocess.run(command, cwd=home, check=False).returncode:
            yield f"the tests in {sdist.name} do not pass where it is unpacked: see above"
