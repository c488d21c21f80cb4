"""The package stays a house one can find one's way in: few modules a room, no cycles, nothing private lent out."""

import re

import pytest

from scripts.rooms import read_graph

MODULES_A_ROOM = 15
MODULES_A_THOUSAND_LINES = 8
MODULES_WITH_ONE_IMPORTER = 25

ONE_SENTENCE = re.compile(r"[A-Z`][^.]*(?:\.\w[^.]*)*\.")


@pytest.fixture(scope="module")
def graph():
    return read_graph()


def borrowed_private_modules(graph):
    """Imports of a module ``_x`` from another folder than its own."""
    return [
        (each.importer, each.imported)
        for each in graph.imports
        if graph.modules[each.imported].is_private and graph.room_of(each.importer) != graph.room_of(each.imported)
    ]


def crowded_rooms(graph):
    return {room: len(modules) for room, modules in graph.rooms.items() if len(modules) > MODULES_A_ROOM}


def modules_with_one_importer(graph):
    """Such a module might as well be a part of the other one."""
    return sorted(name for name, importers in graph.importers_of.items() if len(importers) == 1)


def modules_a_thousand_lines(graph):
    return len(graph.modules) / graph.lines * 1000


def test_no_room_is_crowded(graph):
    assert not crowded_rooms(graph)


def test_no_modules_import_each_other(graph):
    """Neither inside functions nor for type checkers only."""
    assert not graph.cycles()


def test_few_modules_serve_a_single_other_one(graph):
    lonely = modules_with_one_importer(graph)

    assert len(lonely) <= MODULES_WITH_ONE_IMPORTER, lonely


def test_modules_are_no_snippets(graph):
    assert modules_a_thousand_lines(graph) < MODULES_A_THOUSAND_LINES


def test_private_modules_are_imported_from_their_own_folder_only(graph):
    assert not borrowed_private_modules(graph)


def test_every_room_says_in_one_sentence_what_is_in_it(graph):
    """The page of the architecture quotes the first paragraph."""
    said = {name: " ".join(graph.modules[name].docstring.partition("\n\n")[0].split()) for name in graph.rooms}

    assert not {room: text for room, text in said.items() if not ONE_SENTENCE.fullmatch(text)}


@pytest.fixture
def planted(tmp_path):
    """Read a package of these files."""

    def plant(files):
        for name, text in {"__init__.py": "", **files}.items():
            path = tmp_path / "house" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return read_graph(tmp_path, "house")

    return plant


@pytest.mark.parametrize(
    "back",
    [
        "import house.one",
        "from house import one",
        "from house.one import something",
        "from . import one",
        "from .one import something",
        "def later():\n    from house import one",
        "class Later:\n    def at_all(self):\n        from house.one import something",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.one import Something",
        "try:\n    import house.one\nexcept ImportError:\n    pass",
    ],
)
def test_a_cycle_is_found_however_it_is_written(planted, back):
    graph = planted({"one.py": "from house import two", "two.py": "from house import three", "three.py": back})

    assert graph.cycles() == [["house.one", "house.three", "house.two"]]


def test_modules_that_are_imported_one_after_another_are_no_cycle(planted):
    graph = planted(
        {"one.py": "from house import two, three", "two.py": "from house import three", "three.py": "import json"}
    )

    assert graph.cycles() == []
    assert graph.importers_of["house.three"] == {"house.one", "house.two"}


def test_where_an_import_is_written_is_known(planted):
    text = "import house.two\ndef f():\n    import house.two\nif TYPE_CHECKING:\n    import house.two"
    graph = planted({"one.py": text, "two.py": ""})

    assert [(each.place, each.line) for each in graph.imports] == [("module", 1), ("function", 3), ("typing", 5)]


def test_a_private_module_lent_to_another_folder_is_found(planted):
    """Its own folder may use it, the folder's __init__ too."""
    graph = planted(
        {
            "kitchen/__init__.py": "from house.kitchen import _knife",
            "kitchen/stove.py": "from house.kitchen._knife import cut",
            "kitchen/_knife.py": "",
            "bath/__init__.py": "",
            "bath/tub.py": "from house.kitchen._knife import cut",
        }
    )

    assert borrowed_private_modules(graph) == [("house.bath.tub", "house.kitchen._knife")]
    assert {room: len(modules) for room, modules in graph.rooms.items()} == {
        "house": 0,
        "house.kitchen": 2,
        "house.bath": 1,
    }


def test_a_crowded_room_is_found(planted):
    graph = planted({f"hall/guest{number}.py": "" for number in range(MODULES_A_ROOM + 1)} | {"hall/__init__.py": ""})

    assert crowded_rooms(graph) == {"house.hall": MODULES_A_ROOM + 1}


def test_a_module_with_one_importer_is_found(planted):
    """Two imports by the same module are one importer."""
    graph = planted(
        {
            "one.py": "from house import shared, lonely",
            "two.py": "from house import shared\ndef f():\n    import house.shared",
            "shared.py": "",
            "lonely.py": "",
        }
    )

    assert modules_with_one_importer(graph) == ["house.lonely"]


def test_modules_a_thousand_lines_are_counted(planted):
    graph = planted({"long.py": "\n" * 496, "short.py": "\n" * 4})

    assert modules_a_thousand_lines(graph) == 6  # with the package's __init__


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("What `airflow ips` shows, with core.errors in it.", True),
        ("No full stop", False),
        ("Two sentences. One too many.", False),
        ("", False),
    ],
)
def test_a_sentence_is_recognised(text, is_one):
    assert bool(ONE_SENTENCE.fullmatch(text)) is is_one
