"""The strict check of a built site: every link, picture and script leads to a file and a place that are there.

Nothing is loaded from elsewhere: a page needs no network. Links that a reader may follow to other sites are let be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOADED: Final = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
_NOT_LOADED: Final = {"canonical", "next", "prev", "index", "search", "author", "copyright"}


@dataclass
class _Page(HTMLParser):
    """What one page has and refers to."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.ids |= {said[name] for name in ("id", "name") if name in said}
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        elif (name := _LOADED.get(tag)) in said and said.get("rel") not in _NOT_LOADED:
            self.loaded.append(said[name or ""])


def broken(site: Path) -> list[str]:
    """What is wrong with the links of a site, a line each."""
    # The theme leaves a template of its own among the static files.
    pages = {file: _read(file) for file in sorted(site.rglob("*.html")) if "_static" not in file.parts}
    return [f"{file.relative_to(site)}: {said}" for file, page in pages.items() for said in _wrong(file, page, pages)]


def _read(file: Path) -> _Page:
    page = _Page()
    page.feed(file.read_text())
    return page


def _wrong(file: Path, page: _Page, pages: dict[Path, _Page]) -> Iterator[str]:
    for target in page.loaded:
        if urlsplit(target).netloc:
            yield f"loads {target}, which needs a network"
    for target in dict.fromkeys([*page.links, *page.loaded]):
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        linked = (file.parent / unquote(parts.path)).resolve() if parts.path else file
        if not linked.is_file():
            yield f"{target} is not there"
        elif parts.fragment and linked in pages and unquote(parts.fragment) not in pages[linked].ids:
            yield f"{target} is not a place on that page"
