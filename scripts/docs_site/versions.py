"""Versions of the site beside each other: a folder each, and two files above them that know which there are.

A folder that is published keeps the folders of earlier versions; building adds one, or replaces it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DEVELOPMENT: Final = "dev"
_REDIRECT: Final = """<!doctype html>
<meta charset="utf-8">
<title>airflow-provider-ips</title>
<meta http-equiv="refresh" content="0; url={0}/index.html">
<a href="{0}/index.html">Documentation of airflow-provider-ips</a>
"""


def list_versions(site: Path) -> None:
    """Write which versions there are, and let the folder itself lead to the newest release."""
    there = in_order(folder.name for folder in site.iterdir() if (folder / "index.html").is_file())
    pages = {name: sorted(_pages(site / name)) for name in there}
    (site / "versions.js").write_text(
        f"window.DOCS_VERSIONS = {json.dumps(there)};\nwindow.DOCS_PAGES = {json.dumps(pages)};\n"
    )
    (site / "index.html").write_text(_REDIRECT.format(there[0]))


def in_order(names: Iterable[str]) -> list[str]:
    """The newest release first, and what is under development last."""
    return sorted(names, key=_rank, reverse=True)


def _rank(name: str) -> tuple[bool, Version]:
    try:
        return True, Version(name)
    except InvalidVersion:
        return False, Version("0")


def _pages(folder: Path) -> set[str]:
    return {page.relative_to(folder).as_posix() for page in folder.rglob("*.html")}
