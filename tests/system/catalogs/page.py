"""The table of the docs, written from the results of ``make test-catalogs``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).with_name("results.json")
PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "reference" / "catalogs.md"
BEGIN: Final = "<!-- written by make test-catalogs, from here -->\n"
END: Final = "<!-- to here, by make test-catalogs -->\n"


def table(results: dict[str, Any]) -> str:
    """A row for each kind, a column for each chapter, and the reasons below."""
    titles = list(next(iter(results.values()))["chapters"])
    reasons: list[str] = []
    lines = [f"| catalog and storage | {' | '.join(titles)} |", "|---|" + "---|" * len(titles)]
    for kind in results.values():
        cells = [_cell(kind["chapters"][title], reasons) for title in titles]
        lines.append(f"| {kind['label']} | {' | '.join(cells)} |")
    notes = [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    return "\n".join([*lines, "", *notes, *([""] if notes else [])])


def _cell(outcome: str, reasons: list[str]) -> str:
    if outcome == "ok":
        return "yes"
    if outcome not in reasons:
        reasons.append(outcome)
    return f"{outcome.partition(':')[0]} ({reasons.index(outcome) + 1})"


def with_table(page: str, results: dict[str, Any]) -> str:
    """The page with the table of these results."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table(results)}\n{END}{tail}"


def publish(results: dict[str, Any]) -> None:
    """Store results beside those of kinds that were not run this time, and write the page."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**stored, **results}, indent=1) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), json.loads(RESULTS.read_text())))
