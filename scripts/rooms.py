"""The package as a graph, read from its files without importing them: its modules, its rooms, and who imports whom.

A room is a folder of the package; its modules are those directly in it. Imports count wherever they are written: at the
head of a module, inside a function, or for type checkers only. Standard library only.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "airflow_provider_ips"

Place = Literal["module", "function", "typing"]
"""Where an import is written: when the module is imported, when a function is called, or under ``TYPE_CHECKING``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One file. Its name is dotted and begins with the package; a folder's ``__init__`` bears the folder's name."""

    name: str
    path: Path
    lines: int
    docstring: str
    is_folder: bool

    @property
    def room(self) -> str:
        """The folder that the file lies in, as a dotted name; the package itself for modules at its root."""
        return self.name if self.is_folder else self.name.rpartition(".")[0]

    @property
    def is_private(self) -> bool:
        """Whether its own name begins with an underscore."""
        return self.name.rpartition(".")[2].startswith("_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One module's import of another one of the package."""

    importer: str
    imported: str
    place: Place
    line: int


@dataclass(frozen=True, repr=False)
class Graph:
    """All modules of a package by name, and the imports between them."""

    modules: Mapping[str, Module]
    imports: Collection[Import]

    @cached_property
    def rooms(self) -> dict[str, list[Module]]:
        """The modules of each room by its dotted name, without the ``__init__``; the package's root is one of them."""
        found: dict[str, list[Module]] = {name: [] for name, module in self.modules.items() if module.is_folder}
        for module in self.modules.values():
            if not module.is_folder:
                found[module.room].append(module)
        return found

    @cached_property
    def lines(self) -> int:
        """Of all modules together."""
        return sum(module.lines for module in self.modules.values())

    @cached_property
    def imported_by(self) -> dict[str, set[str]]:
        """What each module imports."""
        found: dict[str, set[str]] = {name: set() for name in self.modules}
        for each in self.imports:
            found[each.importer].add(each.imported)
        return found

    @cached_property
    def importers_of(self) -> dict[str, set[str]]:
        """Who imports each module."""
        found: dict[str, set[str]] = {name: set() for name in self.modules}
        for each in self.imports:
            found[each.imported].add(each.importer)
        return found

    def room_of(self, module: str) -> str:
        """The room of a module by its name."""
        return self.modules[module].room

    def imports_between_rooms(self) -> dict[tuple[str, str], list[Import]]:
        """The imports that leave a room, by the room they leave and the one they enter."""
        found: dict[tuple[str, str], list[Import]] = {}
        for each in self.imports:
            rooms = self.room_of(each.importer), self.room_of(each.imported)
            if rooms[0] != rooms[1]:
                found.setdefault(rooms, []).append(each)
        return found

    def cycles(self) -> list[list[str]]:
        """Groups of modules that import each other, directly or by way of others of the group."""
        return [sorted(group) for group in _strongly_connected(self.imported_by) if len(group) > 1]


def read_graph(root: Path = ROOT, package: str = PACKAGE) -> Graph:
    """Read the package that lies in the folder ``root``."""
    trees = {path: ast.parse(path.read_text(), filename=str(path)) for path in sorted((root / package).rglob("*.py"))}
    modules = {module.name: module for module in (_module(path, root, tree) for path, tree in trees.items())}
    names = {path: name for name, path in ((module.name, module.path) for module in modules.values())}
    imports = (each for path, tree in trees.items() for each in _imports(modules[names[path]], tree, modules))
    return Graph(modules=modules, imports=tuple(dict.fromkeys(imports)))


def _module(path: Path, root: Path, tree: ast.Module) -> Module:
    parts = path.relative_to(root).with_suffix("").parts
    is_folder = parts[-1] == "__init__"
    return Module(
        name=".".join(parts[:-1] if is_folder else parts),
        path=path,
        lines=len(path.read_text().splitlines()),
        docstring=ast.get_docstring(tree) or "",
        is_folder=is_folder,
    )


def _imports(module: Module, tree: ast.Module, modules: Collection[str]) -> Iterator[Import]:
    for node, place in _import_statements(tree.body, "module"):
        for name in _names(node, module):
            # What is imported from a module may be a module too, or something that it defines.
            imported = next((each for each in (name, name.rpartition(".")[0]) if each in modules), None)
            if imported is not None and imported != module.name:
                yield Import(importer=module.name, imported=imported, place=place, line=node.lineno)


def _import_statements(body: Collection[ast.AST], place: Place) -> Iterator[tuple[ast.Import | ast.ImportFrom, Place]]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, place
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _import_statements(list(ast.iter_child_nodes(node)), "function")
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _import_statements(node.body, "typing")
            yield from _import_statements(node.orelse, place)
        else:
            yield from _import_statements(list(ast.iter_child_nodes(node)), place)


def _is_type_checking(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in {getattr(test, "id", None), getattr(test, "attr", None)}


def _names(node: ast.Import | ast.ImportFrom, module: Module) -> Iterator[str]:
    """Every name a statement imports, in full: ``from a.b import c, d`` imports ``a.b.c`` and ``a.b.d``."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = [node.module] if node.module else []
    if node.level:
        folders = module.room.split(".")
        base = [*folders[: len(folders) - node.level + 1], *base]
    yield from (".".join([*base, alias.name]) for alias in node.names)


def _strongly_connected(edges: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Tarjan's algorithm."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for other in edges[name]:
            if other not in order:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], order[other])
        if lowest[name] == order[name]:
            start = stack.index(name)
            found.append(stack[start:])
            del stack[start:]

    for name in edges:
        if name not in order:
            visit(name)
    return found
