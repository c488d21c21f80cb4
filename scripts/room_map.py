"""Draw the rooms of the package and their imports into the architecture page (``make map``).

A module that lies beside the folders (``dag_graph``, ``params``) is drawn as a room of its own, and so are
``iceberg.api`` and ``.estimation``, which stand above the rooms of their ring; the modules beside them lie below.
Packages whose ``__init__`` only hands out names are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Final

from scripts.rooms import PACKAGE, ROOT, Graph, Module, read_graph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PAGE: Final = ROOT / "docs" / "explanation" / "architecture.md"
BEGIN: Final = "<!-- written by make map, from here -->"
END: Final = "<!-- to here, by make map -->"

OUTERMOST: Final = "Airflow layer"
RINGS: Final = (OUTERMOST, "iceberg", "core")
"""From the outermost to the innermost. Each imports those after it, never those before."""

FACADES: Final = (PACKAGE, f"{PACKAGE}.iceberg")
ROOMS_OF_THEIR_OWN: Final = (f"{PACKAGE}.iceberg.api", f"{PACKAGE}.iceberg.estimation")


def drawn_as(module: Module) -> str:
    """The room that a module is drawn in, without the package's name."""
    beside_folders = module.room == PACKAGE or module.name in ROOMS_OF_THEIR_OWN
    return (module.name if beside_folders else module.room).removeprefix(f"{PACKAGE}.")


def rooms_and_imports(graph: Graph) -> dict[str, set[str]]:
    """The rooms that are drawn, and which others each imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, module in graph.modules.items():
        if name not in FACADES:
            room = drawn_as(module)
            found[room] |= {drawn_as(graph.modules[other]) for other in graph.imported_by[name]} - {room}
    return dict(found)


def levels(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Rooms by level, the highest first: each imports only rooms of lower levels. A cycle is an error."""
    sorter = TopologicalSorter(imports)
    sorter.prepare()
    found = []
    while sorter.is_active():
        ready = sorter.get_ready()
        found.append(sorted(ready))
        sorter.done(*ready)
    return found[::-1]


def ring_of(room: str) -> str:
    """The ring that a room belongs to."""
    outer = room.partition(".")[0]
    return outer if outer in RINGS else OUTERMOST


def drawing(graph: Graph) -> str:
    """The generated part of the page: a picture in levels, and a table with a sentence for each room."""
    imports = rooms_and_imports(graph)
    drawn = {}
    for ring in RINGS:
        inside = {room for room in imports if ring_of(room) == ring}
        drawn[ring] = levels({room: imports[room] & inside for room in inside})
    order = [room for ring in RINGS for level in drawn[ring] for room in level]
    return "\n".join([*_picture(drawn), "", *_table(graph, imports, order)])


def _picture(drawn: Mapping[str, Sequence[Sequence[str]]]) -> Iterator[str]:
    rows = {
        ring: ["   ".join(room.removeprefix(f"{ring}.") for room in level) for level in rows]
        for ring, rows in drawn.items()
    }
    width = max(len(row) for ring in rows.values() for row in ring)
    yield "<!-- drawing -->"
    yield "```text"
    for ring, labels in rows.items():
        yield f"{ring:14}┌{'─' * (width + 2)}┐"
        yield from (f"{'':14}│ {label:{width}} │" for label in labels)
        yield f"{'':14}└{'─' * (width + 2)}┘"
    yield "```"


def _table(graph: Graph, imports: Mapping[str, set[str]], order: Sequence[str]) -> Iterator[str]:
    yield "| room | what it holds | imports |"
    yield "|---|---|---|"
    for room in order:
        named = ", ".join(f"`{other}`" for other in order if other in imports[room])
        yield f"| `{room}` | {sentence(graph.modules[f'{PACKAGE}.{room}'])} | {named} |"


def sentence(module: Module) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(module.docstring.partition("\n\n")[0].split())


def written(page: str, drawn: str) -> str:
    """The page with its generated part replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE} has no place for the map: it needs the lines\n{BEGIN}\n{END}")
    return f"{before}{BEGIN}\n\n{drawn}\n\n{END}{after}"


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    page = PAGE.read_text()
    updated = written(page, drawing(read_graph()))
    PAGE.write_text(updated)
    print(f"{PAGE.relative_to(ROOT)} {'is up to date' if page == updated else 'was rewritten'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
