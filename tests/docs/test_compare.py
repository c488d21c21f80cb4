"""The comparison shown is the one that was measured, of the histories and contenders that there are."""

import json

import pytest

from benchmarks.compare.__main__ import PAGE, README, RESULTS
from benchmarks.compare.contenders import CONTENDERS
from benchmarks.compare.judge import Verdict
from benchmarks.compare.page import excerpt, whole_page, written_in
from benchmarks.compare.scenarios import SCENARIOS
from tests.docs.pages import table

RESULT = json.loads(RESULTS.read_text())


def test_this_package_is_never_silently_wrong():
    """Whatever stands in the other columns."""
    ours = [cell for cell in RESULT["cells"] if cell["contender"] in RESULT["ours"]]
    assert len(ours) == len(SCENARIOS) * len(RESULT["ours"]) > 0
    assert not [cell for cell in ours if cell["verdict"] == Verdict.SILENT]


@pytest.mark.parametrize(("page", "text"), [(PAGE, whole_page), (README, excerpt)])
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
