"""Pages as the site's generator wants them, written from those in the repository, which stay plain Markdown.

Links between pages stay links between pages. An example that a page links to becomes a page itself, so that the built
folder is complete without a network; any other file of the repository is linked where the repository is hosted.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from scripts.docs_site.api import MARK, reference
from scripts.docs_site.navigation import HOME, ROOT, documents, sections

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EXAMPLES: Final = "dags_examples/"
PICTURES: Final = (".png", ".svg")
LANGUAGES: Final = {".py": "python", ".sql": "sql", ".yaml": "yaml", ".yml": "yaml"}
_FENCE: Final = re.compile(r"^ *(```+)")
_TARGET: Final = re.compile(r"(?<=\]\()(?P<path>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")


def stage(folder: Path) -> None:
    """Write everything into a folder, and remove from it what is there no longer."""
    named = documents()
    texts = {path: (ROOT / path).read_text() for path in named}
    linked = sorted({target for path, text in texts.items() for target in _examples_in(path, text)})
    named |= {path: f"examples/{path.removeprefix(EXAMPLES)}" for path in linked}
    written = {f"{named[path]}.md": _page(path, text, named) for path, text in texts.items()}
    written |= {f"{named[path]}.md": _example(path) for path in linked}
    _write(folder, written)
    for picture in _pictures():
        (folder / picture).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / "docs" / picture, folder / picture)
    _forget(folder, {*written, *_pictures()})


def source_url() -> str:
    """Where the repository is hosted, as the package says it."""
    urls: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    return urls["Source"]


def rewritten(path: str, text: str, named: dict[str, str]) -> str:
    """The text of a page with links that are right on the site."""
    here = PurePosixPath(named[path]).parent

    def target(match: re.Match[str]) -> str:
        linked, anchor = match["path"], match["anchor"] or ""
        if re.match(r"[a-z]+:", linked) or linked.endswith(PICTURES):
            return match[0]
        inside = _resolved(path, linked)
        if inside in named:
            return os.path.relpath(f"{named[inside]}.md", here) + anchor
        kind = "tree" if (ROOT / inside).is_dir() else "blob"
        return f"{source_url()}/{kind}/main/{inside}{anchor}"

    return "".join(line if fenced else _TARGET.sub(target, line) for line, fenced in _lines(text))


def _page(path: str, text: str, named: dict[str, str]) -> str:
    text = rewritten(path, text.replace(MARK, reference()) if MARK in text else text, named)
    if path == HOME:
        return text + "".join(
            _contents([f"{each.title} </{named[each.pages[0]]}>"]) for each in sections() if not each.is_nested
        )
    below = [page for each in sections() if each.pages[0] == path for page in each.pages[1:]]
    return text + _contents([f"/{named[page]}" for page in below]) if below else text


def _contents(entries: list[str]) -> str:
    """What puts pages into the navigation; the page itself shows nothing of it."""
    return "\n".join(["", "```{toctree}", ":hidden:", "", *entries, "```", ""])


def _example(path: str) -> str:
    language = LANGUAGES.get(Path(path).suffix, "text")
    where = f"{source_url()}/blob/main/{path}"
    code = (ROOT / path).read_text()
    return f"---\norphan: true\n---\n\n# `{path}`\n\n[In the repository]({where})\n\n````{language}\n{code}````\n"


def _examples_in(path: str, text: str) -> Iterator[str]:
    for line, fenced in _lines(text):
        for match in [] if fenced else _TARGET.finditer(line):
            inside = _resolved(path, match["path"])
            if inside.startswith(EXAMPLES) and (ROOT / inside).is_file():
                yield inside


def _resolved(path: str, linked: str) -> str:
    """A link's target as a path in the repository; a folder with a README is that page."""
    inside = os.path.normpath(PurePosixPath(path).parent / linked)
    readme = f"{inside}/README.md"
    return readme if (ROOT / readme).is_file() else inside


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is code."""
    opened = ""
    for line in text.splitlines(keepends=True):
        ticks = match[1] if (match := _FENCE.match(line)) else ""
        yield line, bool(opened or ticks)
        if ticks and not opened:
            opened = ticks
        elif ticks == opened:
            opened = ""


def _pictures() -> Iterable[str]:
    docs = ROOT / "docs"
    return sorted(file.relative_to(docs).as_posix() for file in docs.rglob("*") if file.suffix in PICTURES)


def _write(folder: Path, pages: dict[str, str]) -> None:
    """Leave a page alone that is as it was, so that it need not be built again."""
    for name, text in pages.items():
        file = folder / name
        if not file.is_file() or file.read_text() != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


def _forget(folder: Path, names: set[str]) -> None:
    for file in [file for file in folder.rglob("*") if file.is_file()]:
        if file.relative_to(folder).as_posix() not in names:
            file.unlink()
