"""The documentation as data: its fenced blocks, tables, links and headings."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for top in ("docs", "docker") for page in sorted((ROOT / top).rglob("*.md"))),
]

_FENCE = re.compile(r"^ *(?P<ticks>```+)(?P<language>\S*) *$")
_DIRECTIVE = re.compile(r"^<!-- (?P<name>[a-z]+)(?:: (?P<value>.+?))? -->$")
_HEADING = re.compile(r"^#+ +(?P<title>.+?) *$")
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block. ``line`` is that of its first line of content, ``directive`` the comment right above it."""

    page: str
    line: int
    language: str
    text: str
    directive: str | None
    value: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_dag_file(self) -> bool:
        """A block that makes a DAG is what a DAG folder would hold."""
        return self.language == "python" and re.search(r"\bDAG\(|^@dag\b", self.text, re.MULTILINE) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table, cell by cell, and the heading it stands under."""

    heading: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path) -> list[Block]:
    """Every fenced block of a page. A fence that is never closed is an error here, for it swallows the page."""
    found, lines, at = [], path.read_text().splitlines(), 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if opening is None:
            at += 1
            continue
        end = next((n for n in range(at + 1, len(lines)) if lines[n].strip() == opening["ticks"]), None)
        if end is None:
            raise AssertionError(f"{relative(path)}:{at + 1}: this fence is never closed")
        above = _DIRECTIVE.match(next((line for line in reversed(lines[:at]) if line.strip()), "").strip())
        found.append(
            Block(
                page=relative(path),
                line=at + 2,
                language=opening["language"],
                text=textwrap.dedent("\n".join(lines[at + 1 : end]) + "\n"),
                directive=above["name"] if above else None,
                value=above["value"] if above else None,
            )
        )
        at = end + 1
    return found


def all_blocks(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if not languages or block.language in languages]


def prose(path: Path) -> list[str]:
    """The page without its fenced blocks; lines keep their numbers."""
    lines = path.read_text().splitlines()
    for block in blocks(path):
        for n in range(block.line - 2, block.line + block.text.count("\n")):
            lines[n] = ""
    return lines


def links(path: Path) -> list[str]:
    return [match["target"] for line in prose(path) for match in _LINK.finditer(line)]


def anchors(path: Path) -> set[str]:
    """What GitHub makes of the headings."""
    titles = [match["title"] for line in prose(path) if (match := _HEADING.match(line))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def tables(path: Path) -> list[Table]:
    found, heading, rows = [], "", []
    for line in [*prose(path), ""]:
        if line.startswith("|"):
            rows.append(tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]))
        elif rows:
            found.append(Table(heading=heading, header=rows[0], rows=tuple(rows[2:])))
            rows = []
        if match := _HEADING.match(line):
            heading = match["title"]
    return found


def table(page: str, heading: str) -> Table:
    """The one table under a heading."""
    [only] = [t for t in tables(ROOT / page) if t.heading == heading]
    return only
