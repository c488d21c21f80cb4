"""The architecture page shows the rooms and imports of the code, with the sentence that each room says of itself."""

from scripts.room_map import PAGE, drawing, levels, rooms_and_imports, written
from scripts.rooms import ROOT, read_graph

GRAPH = read_graph()
FOLDERS = sorted(module.path for module in GRAPH.modules.values() if module.is_folder)


def test_the_map_of_the_page_is_the_one_of_the_code():
    """Run ``make map`` after a room, its sentence or its imports have changed."""
    page = PAGE.read_text()

    assert page == written(page, drawing(GRAPH)), "out of date: run make map"


def test_a_room_is_drawn_above_those_that_it_imports():
    rows = levels({"ui": {"runs", "core"}, "runs": {"core"}, "core": set(), "assets": {"core"}})

    assert rows == [["ui"], ["assets", "runs"], ["core"]]


def test_every_folder_is_on_the_page():
    """What hands out names only is no room of its own."""
    drawn = rooms_and_imports(GRAPH)
    folders = {path.parent.relative_to(ROOT / "airflow_provider_ips").as_posix() for path in FOLDERS} - {"."}

    assert {folder.replace("/", ".") for folder in folders} <= set(drawn)
