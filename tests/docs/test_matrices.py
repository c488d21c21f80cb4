"""The pages of engines and catalogs show what was run, and what was not run is never shown as passed."""

import json

import pytest

from tests.system.catalogs import page as catalogs
from tests.system.engines import page as engines
from tests.system.engines import ways


@pytest.mark.parametrize(
    ("page", "render"),
    [(engines, engines.with_matrix), (catalogs, catalogs.with_table), (ways, ways.with_table)],
    ids=["engines", "catalogs", "ways"],
)
def test_a_page_shows_the_results_that_are_stored(page, render):
    """Whoever edits one of the two without the other is found out."""
    text = page.PAGE.read_text()
    assert render(text, json.loads(page.RESULTS.read_text())) == text


def question(side, what="count", expected=((2,),), ask="count"):
    return {"case": "deletes", "side": side, "what": what, "ask": ask, "expected": [list(row) for row in expected]}


@pytest.mark.parametrize(
    ("source", "captured", "verdict"),
    [
        ({"rows": [[2]]}, {"rows": [[2]]}, engines.RIGHT),
        ({"rows": [[3]]}, {"rows": [[3]]}, engines.SAME),
        ({"error": "cannot"}, {"error": "cannot"}, engines.SAME),
        ({"rows": [[2]]}, {"rows": [[3]]}, engines.WORSE),
        ({"rows": [[2]]}, {"error": "cannot"}, engines.WORSE),
    ],
)
def test_an_engine_is_judged_by_what_it_reads_of_the_source(source, captured, verdict):
    """Only what is wrong in the ICDC table alone is our fault."""
    cases, notes = engines.verdicts([question("source"), question("captured")], [source, captured])
    assert cases == {"deletes": verdict}
    assert bool(notes) == (verdict != engines.RIGHT)


def test_words_are_shown_only_for_what_was_read_by_them():
    """An engine that was not run has no row, and words that failed are not advice."""
    read = {"branch": engines.RIGHT, "snapshot": ways.NONE, "range": "rows: reads 9 rows of 3"}
    run = {"label": "Flink, Iceberg 1", "reader": "flink", "version": "2", "ways": read}
    shown = ways.table({"a": run, "b": {**run, "version": None}})
    assert shown.count("Flink 2 (Iceberg 1)") == 1
    words = ways.WORDS["flink"]
    assert f"| {words['branch']} | no | **no**, {words['range']}: rows: reads 9 rows of 3 |" in shown


def test_an_engine_that_was_not_run_has_a_reason_and_no_column():
    """A cell would look like a result."""
    run = {"label": "A", "version": "1", "reason": "", "cases": {"append": engines.RIGHT}, "notes": {}}
    shown = engines.matrix({"a": run, "b": {**run, "label": "B", "version": None, "reason": "no Java", "cases": {}}})
    assert "| captured table | A 1 |" in shown
    assert "**B**: not run: no Java" in shown


def test_a_chapter_that_was_not_run_has_a_reason():
    """And one that could not be tried."""
    shown = catalogs.table({"x": {"label": "X", "chapters": {"retry": "ok", "changes": "not run: no Go"}}})
    assert "| X | yes | not run (1) |" in shown
    assert "1. not run: no Go" in shown
