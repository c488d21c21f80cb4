"""What the repository says about a release: its version, its changelog, its tables."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

from scripts import compatibility

ROOT: Final = Path(__file__).resolve().parents[2]
_HEADING: Final = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)


def version() -> str:
    """The one place that says it; everything else is made from it, or compared with it."""
    text = (ROOT / "airflow_provider_ips" / "__init__.py").read_text()
    match = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if match is None:
        raise LookupError("airflow_provider_ips/__init__.py says no __version__")
    return match[1]


def problems(tag: str | None = None) -> Iterator[str]:
    """What has to be corrected in the repository before this version can be released."""
    said = version()
    yield from _of_version(said, tag)
    yield from of_changelog((ROOT / "CHANGELOG.md").read_text(), said)
    for page, table in ((compatibility.README, compatibility.table), (compatibility.SUPPORT, compatibility.matrix)):
        if compatibility.written(page.read_text(), table()) != page.read_text():
            yield f"{page.relative_to(ROOT)} has old versions in its table: run `make compatibility`"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for wanted in ("Homepage", "Documentation", "Source", "Issues", "Changelog"):
        if wanted not in project["urls"]:
            yield f"pyproject.toml has no URL called {wanted}"
    for name in project["license-files"]:
        if not (ROOT / name).is_file():
            yield f"{name} is a licence file by pyproject.toml, and is not there"


def _of_version(said: str, tag: str | None) -> Iterator[str]:
    try:
        parsed = Version(said)
    except InvalidVersion:
        yield f"{said} is not a version that a package index takes"
        return
    if str(parsed) != said or parsed.local or parsed.is_devrelease:
        yield f"{said} is not a version to release: write {parsed.public.partition('.dev')[0]} in __init__.py"
    if tag is not None and tag != f"v{said}":
        yield f"the tag is {tag}, and the version {said}: tag v{said}, or correct __version__"


def of_changelog(text: str, said: str) -> Iterator[str]:
    """The version's section is the first one with a date, and nothing waits for a later release."""
    found = list(_HEADING.finditer(text))
    released = [match for match in found if match["version"] != "Unreleased"]
    if not released or released[0]["version"] != said or not released[0]["date"]:
        yield f"CHANGELOG.md does not begin with `## [{said}] - ` and a date: name the section of this release so"
    elif not text[released[0].end() :].strip().startswith(("#", "The", "-")):
        yield f"CHANGELOG.md says nothing about {said}"
    for match in found:
        if match["version"] == "Unreleased" and (waiting := _section(text, match.end())):
            yield f"CHANGELOG.md has unreleased changes: move them to {said} ({waiting.splitlines()[0]!r} …)"
    if f"[{said}]: https://" not in text:
        yield f"CHANGELOG.md does not say where {said} can be seen: add `[{said}]: https://…` at its end"


def _section(text: str, start: int) -> str:
    following = _HEADING.search(text, start)
    return text[start : following.start() if following else len(text)].strip()
