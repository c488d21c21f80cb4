"""How answers are judged, and the matrix of the docs."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

RESULTS: Final = Path(__file__).with_name("results.json")
PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "reference" / "engines.md"
BEGIN: Final = "<!-- written by make test-engines, from here -->\n"
END: Final = "<!-- to here, by make test-engines -->\n"

RIGHT, SAME, WORSE = "right", "source too", "worse"
"""All is read right; the same is wrong or refused in the source; something is wrong in the ICDC table alone."""

PLACE: Final = re.compile(r"(?:file:)?/\S+")
"""Where the tables of one run were."""

SHOWN: Final = {RIGHT: "yes", SAME: "as the source", WORSE: "**no**"}


def verdicts(asked: list[dict[str, Any]], answers: list[dict[str, Any]]) -> tuple[dict[str, str], dict[str, str]]:
    """By case: the verdict, and what is not right."""
    found_by: dict[str, dict[str, dict[str, str]]] = {}
    for question, answer in zip(asked, answers, strict=True):
        side = found_by.setdefault(question["case"], {}).setdefault(question["what"], {})
        side[question["side"]] = judged(question, answer)
    cases: dict[str, str] = {}
    notes: dict[str, str] = {}
    for case, by_question in found_by.items():
        wrong = {what: found for what, found in by_question.items() if set(found.values()) != {""}}
        worse = [what for what, found in wrong.items() if found["captured"] and not found["source"]]
        cases[case] = WORSE if worse else SAME if wrong else RIGHT
        if wrong:
            notes[case] = _note(wrong)
    return cases, notes


def _note(wrong: dict[str, dict[str, str]]) -> str:
    """Questions that go wrong in the same way are named together."""
    by_fault: dict[str, list[str]] = {}
    for what, found in wrong.items():
        where = "" if found["source"] and found["captured"] else "source: " if found["source"] else "ICDC table: "
        by_fault.setdefault(where + (found["captured"] or found["source"]), []).append(what)
    return "; ".join(f"{', '.join(whats)}: {fault}" for fault, whats in by_fault.items())


def judged(question: dict[str, Any], answer: dict[str, Any]) -> str:
    """Nothing where the answer is right."""
    if "error" in answer:
        return f"refused ({textwrap.shorten(PLACE.sub('…', answer['error']), 110, placeholder=' …')})"
    if answer["rows"] == question["expected"]:
        return ""
    if question["ask"] == "count":
        return f"counts {answer['rows'][0][0]} for {question['expected'][0][0]}"
    found, wanted = answer["rows"], question["expected"]
    if len(found) == len(wanted):
        return f"reads other values, such as {_first_other(found, wanted)}"
    return f"reads {len(found)} rows of {len(wanted)}"


def _first_other(found: list[list[Any]], wanted: list[list[Any]]) -> str:
    other, right = next((a, b) for a, b in zip(found, wanted, strict=True) if a != b)
    return f"{other} for {right}"


def matrix(results: dict[str, Any]) -> str:
    """A row for each kind of table, a column for each engine, and what goes wrong below."""
    run = [each for each in results.values() if each["version"]]
    cases = list(run[0]["cases"])
    lines = [
        "| captured table | " + " | ".join(_heading(each) for each in run) + " |",
        "|---|" + "---|" * len(run),
        *(f"| {case} | " + " | ".join(SHOWN[each["cases"][case]] for each in run) + " |" for case in cases),
        "",
    ]
    for each in results.values():
        if not each["version"]:
            lines += [f"**{each['label']}**: not run: {each['reason']}", ""]
        elif each["notes"]:
            limit = each["reason"]
            whose = f"because {limit}" if limit else "of the source as of the ICDC table"
            lines += [f"**{_heading(each)}** does not read right, {whose}:", ""]
            lines += [f"- {case}: {_plain(note)}" for case, note in each["notes"].items()]
            lines += [""]
    return "\n".join(lines)


def _heading(each: dict[str, Any]) -> str:
    name, _, more = each["label"].partition(",")
    return f"{name.split()[0]} {each['version']}{f' ({more.strip()})' if more else ''}"


def _plain(note: str) -> str:
    """Without what Markdown would take for its own."""
    return note.replace("|", "/").replace("<", "(").replace(">", ")")


def with_matrix(page: str, results: dict[str, Any]) -> str:
    """The page with the matrix of these results."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{matrix(results)}\n{END}{tail}"


def publish(results: dict[str, Any], order: Iterable[str]) -> None:
    """Store results beside those of engines that were not run this time, and write the page."""
    known = {**(json.loads(RESULTS.read_text()) if RESULTS.exists() else {}), **results}
    ordered = {name: known[name] for name in order if name in known}
    RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(with_matrix(PAGE.read_text(), json.loads(RESULTS.read_text())))
