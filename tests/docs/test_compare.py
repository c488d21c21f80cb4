"""The comparison shown is the one that was measured, of the histories and contenders that there are."""

import json

import pytest

from benchmarks.compare.__main__ import PAGE, RESULTS, SUMMARY
from benchmarks.compare.contenders import CONTENDERS
from benchmarks.compare.judge import Verdict
from benchmarks.compare.page import excerpt, whole_page, written_in
from benchmarks.compare.scenarios import SCENARIOS
from tests.kit.pages import table

RESULT = json.loads(RESULTS.read_text())


def test_this_package_is_never_silently_wrong():
    """Whatever stands in the other columns."""
    ours = [cell for cell in RESULT["cells"] if cell["contender"] in RESULT["ours"]]
    assert len(ours) == len(SCENARIOS) * len(RESULT["ours"]) > 0
    assert not [cell for cell in ours if cell["verdict"] == Verdict.SILENT]


def test_whoever_is_asked_is_right_where_it_is_easy():
    """A contender that fails there was asked in the wrong way, and its other failures would say nothing."""
    easy = ("append", "late partition", "compaction")
    assert {cell["verdict"] for cell in RESULT["cells"] if cell["scenario"] in easy} == {Verdict.RIGHT}


def test_this_package_fails_only_where_it_must():
    """A refusal is better than a wrong answer, and still no answer."""
    failed = {title: {c["scenario"] for c in RESULT["cells"] if is_failure(c, title)} for title in RESULT["ours"]}
    change = failed.pop("change capture")
    assert failed.pop("change capture, complete") == change
    assert change == {*OUT_OF_HISTORY, "delete, equality deletes"}
    changes = {one.title for one in SCENARIOS if any(word in one.title for word in CHANGES)}
    assert failed["append capture"] == changes | set(OUT_OF_HISTORY)
    assert failed["range mode"] == failed["append capture"] | {"overwrite into a new partition"}
    assert failed["branch, appends"] == failed["append capture"] - {HELD}
    assert failed["branch, changes"] == (change - {HELD}) | set(VERSION_3)


HELD = "compaction and expiry before reading"
"""A branch holds its files."""

VERSION_3 = ("delete, deletion vectors (v3)", "delete before and after", "updates around a compaction (v3)")
"""The catalog of the comparison is not a REST catalog, and PyIceberg does not write this version's metadata."""


OUT_OF_HISTORY = (
    "rollback past the checkpoint",
    "table dropped and created again",
    "expired checkpoint",
    "compaction and expiry before capture",
    "compaction and expiry before reading",
)
CHANGES = ("update", "delete", "merge, ", "retention", "PyIceberg", "overwrite of")


def is_failure(cell, contender):
    return cell["contender"] == contender and cell["verdict"] == Verdict.LOUD


@pytest.mark.parametrize(("page", "text"), [(PAGE, whole_page), (SUMMARY, excerpt)])
def test_the_pages_show_what_was_measured(page, text):
    """Nobody has touched up the tables."""
    assert written_in(page) == text(RESULT).strip()


def test_the_measurement_is_of_what_the_command_would_run():
    """A history or a contender that came later is measured before the page may stay silent about it."""
    assert RESULT["scenarios"] == [{"title": one.title, "what": one.what} for one in SCENARIOS]
    assert RESULT["contenders"] == [entry.title for entry in CONTENDERS]
    assert RESULT["ours"] == [entry.title for entry in CONTENDERS if entry.is_ours]
    cells = [(cell["scenario"], cell["contender"]) for cell in RESULT["cells"]]
    assert cells == [(one.title, entry.title) for one in SCENARIOS for entry in CONTENDERS]


def test_the_page_explains_every_contender_and_every_verdict():
    """By the names that its table uses."""
    page = "docs/explanation/compare.md"
    assert [row[0] for row in table(page, "The contenders").rows] == RESULT["contenders"]
    assert [row[0] for row in table(page, "The question").rows] == list(Verdict)
