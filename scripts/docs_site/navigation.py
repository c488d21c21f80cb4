"""Which pages the site has, in which order: ``docs/navigation.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
HOME: Final = "docs/index.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Pages by their paths in the repository; the first one is the section's own."""

    title: str
    pages: tuple[str, ...]
    is_nested: bool


def sections() -> tuple[Section, ...]:
    """What the navigation says; a pattern stands for its files in order of their names."""
    said = tomllib.loads((ROOT / "docs" / "navigation.toml").read_text())["section"]
    return tuple(
        Section(title=each["title"], pages=tuple(_expanded(each["pages"])), is_nested=each.get("nested", False))
        for each in said
    )


def _expanded(pages: list[str]) -> list[str]:
    return [
        path
        for page in pages
        for path in (sorted(f.relative_to(ROOT).as_posix() for f in ROOT.glob(page)) if "*" in page else [page])
    ]


def documents() -> dict[str, str]:
    """Each page and its name on the site: ``docs/patterns/append.md`` becomes ``patterns/append``."""
    return {page: document(page) for page in [HOME, *(page for each in sections() for page in each.pages)]}


def document(path: str) -> str:
    """A file's name on the site. Outside of ``docs`` it is in lower case, and a README has that of its folder."""
    inside = path.removeprefix("docs/").removesuffix("/README.md").removesuffix(".md")
    return inside if path.startswith("docs/") else inside.lower()
