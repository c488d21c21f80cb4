"""How an engine is questioned: a JSON file of questions in, a line of JSON for each answer out. Standard library only.

A question names a table by the location of its metadata, and by its name in a catalog on SQLite for engines that need
one. It has the columns, the condition and the aggregate as data, and as SQL for engines that speak it.

    {"table": {"name": "db.t", "metadata": "file:///lake/db/t/metadata/3.json", "location": "file:///lake/db/t"},
     "ask": "rows", "columns": ["id", "day"], "where": ["id", ">=", 4], "expected": [[4, "2026-10-02"]]}
"""

from __future__ import annotations

import json
import sys
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LINEAGE = ("_row_id", "_last_updated_sequence_number")
NO_WORDS = "no words for it"
"""What an engine says that cannot be asked for a branch, a snapshot or a range."""


def sql(question: dict[str, Any], table: str, *, quote: str = "") -> str:
    """The question as a statement over a table that the engine knows by this expression.

    :param quote: what names of columns are put into, for engines that reserve one of them
    """
    columns = [f"{quote}{column}{quote}" for column in question["columns"]]
    selected = {
        "rows": ", ".join(columns),
        "lineage": ", ".join((*columns, *LINEAGE)),
        "count": "count(*)",
        "bounds": ", ".join(f"min({column}) AS low{n}, max({column}) AS high{n}" for n, column in enumerate(columns)),
    }[question["ask"]]
    where = question["where"]
    condition = f" WHERE {quote}{where[0]}{quote} {where[1]} {literal(where)}" if where else ""
    return f"SELECT {selected} FROM {table}{condition}"


def literal(where: list[Any]) -> str:
    """The value of a condition in SQL."""
    value = where[2]
    return f"DATE '{value}'" if where[0] == "day" else str(value)


def way(question: dict[str, Any], **words: str) -> str:
    """How the engine writes a branch, a snapshot or a range, by format strings; nothing for a table as it is now.

    way({"way": {"range": [1, 5]}}, range="FROM {} TO {}")     FROM 1 TO 5
    """
    for kind, place in question.get("way", {}).items():
        return words[kind].format(*(place if isinstance(place, list) else [place]))
    return ""


def serve(version: str, answer: Callable[[dict[str, Any]], Iterable[Iterable[Any]]], ways: Iterable[str] = ()) -> None:
    """Answer every question of the file that the first argument names, from the number that the second one is.

    :param ways: what the engine has words for, of `branch`, `snapshot` and `range`
    """
    with open(sys.argv[1]) as file:  # noqa: PTH123 - readable by any Python
        questions = json.load(file)
    _say({"version": version})
    for number in range(int(sys.argv[2]), len(questions)):
        if set(questions[number].get("way", ())) - set(ways):
            _say({"number": number, "error": NO_WORDS})
            continue
        try:
            _say({"number": number, "rows": plain(answer(questions[number]))})
        except Exception as error:  # noqa: BLE001 - an engine's refusal is an answer, too
            said = [line.strip() for line in str(error).splitlines() if line.strip()]
            _say({"number": number, "error": f"{type(error).__name__}: {' '.join(said)[:300]}"})


def plain(rows: Iterable[Iterable[Any]]) -> list[list[Any]]:
    """Rows as JSON, in one order for all engines."""
    return sorted(([_plain(value) for value in row] for row in rows), key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
