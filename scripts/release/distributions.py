"""What was built: the two files that a package index gets."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import Final

from scripts.release.sources import ROOT

DIST: Final = ROOT / "dist"
LICENCES: Final = ("LICENSE", "NOTICE")
_RELATIVE: Final = re.compile(r"\]\((?!https://|#)[^)]*\)")


def wheel(version: str) -> Path:
    return DIST / f"airflow_provider_ips-{version}-py3-none-any.whl"


def sdist(version: str) -> Path:
    return DIST / f"airflow_provider_ips-{version}.tar.gz"


def problems(version: str) -> Iterator[str]:
    """What is wrong with the built files."""
    wanted = {wheel(version).name, sdist(version).name}
    there = {file.name for file in DIST.glob("*") if not file.name.startswith(".")}
    if there != wanted:
        yield f"dist/ has {sorted(there)}, and not {sorted(wanted)}"
        return
    for file, metadata, names in (_read_wheel(wheel(version)), _read_sdist(sdist(version))):
        yield from (f"{file}: {problem}" for problem in of_metadata(metadata, version))
        yield from (f"{file}: {name} is missing" for name in LICENCES if not any(n.endswith(f"/{name}") for n in names))
    yield from (f"{sdist(version).name} lacks {name}" for name in sorted(_tracked() - _inside(sdist(version))))
    command = [sys.executable, "-m", "twine", "check", "--strict", str(wheel(version)), str(sdist(version))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"a package index would not show the README: {done.stdout}{done.stderr}"


def of_metadata(metadata: Message, version: str) -> Iterator[str]:
    """What an index would show of it."""
    if metadata["Version"] != version:
        yield f"its version is {metadata['Version']}, and not {version}"
    if metadata["License-Expression"] != "Apache-2.0" or set(metadata.get_all("License-File", ())) != set(LICENCES):
        yield f"its licence is {metadata['License-Expression']} with {metadata.get_all('License-File')}"
    for target in _RELATIVE.findall(str(metadata.get_payload())):
        yield f"a link of the README leads nowhere on a package index: {target}"


def _read_wheel(file: Path) -> tuple[str, Message, set[str]]:
    with zipfile.ZipFile(file) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return file.name, message_from_string(archive.read(name).decode()), set(archive.namelist())


def _read_sdist(file: Path) -> tuple[str, Message, set[str]]:
    with tarfile.open(file) as archive:
        info = archive.extractfile(f"{file.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert info is not None  # noqa: S101 - it is a file
        return file.name, message_from_string(info.read().decode()), set(archive.getnames())


def _inside(file: Path) -> set[str]:
    with tarfile.open(file) as archive:
        return {member.name.partition("/")[2] for member in archive if member.isfile()}


def _tracked() -> set[str]:
    """All that is in the repository: tests, pages, examples, and what they need."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in done.stdout.split("\0") if name and (ROOT / name).exists()}
