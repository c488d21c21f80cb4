"""The statements by which a job follows changes, as the page shows them: they find rows whose key is NULL, too."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "capture.md"
NAMES = {"<source>.before": "captured_before", "<source>": "captured", "<=>": "IS NOT DISTINCT FROM"}


def statements(verb: str) -> list[str]:
    """The page's statements that begin with a verb, in the words of SQLite."""
    section = PAGE.read_text().partition("### A job that follows changes")[2].partition("\n## ")[0]
    found = [" ".join(code.split()) for code in re.findall(r"`(" + verb + r"[^`]*)`", section)]
    for name, known in NAMES.items():
        found = [statement.replace(name, known) for statement in found]
    return found


@pytest.fixture
def tables() -> sqlite3.Connection:
    """A target of three rows. One with a key and the one without were removed from the source, one was changed."""
    connection = sqlite3.connect(":memory:")
    rows: dict[str, list[tuple[int | None, str]]] = {
        "target": [(1, "old"), (2, "old"), (None, "old")],
        "captured_before": [(1, "old"), (2, "old"), (None, "old")],
        "captured": [(2, "new")],
        "the_source": [(2, "new")],
    }
    for name, content in rows.items():
        connection.execute(f"CREATE TABLE {name} (key INTEGER, note TEXT)")
        connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", content)
    return connection


def test_what_was_removed_is_deleted_after_a_merge(tables: sqlite3.Connection) -> None:
    """Also while the source has a row without a key: then NOT IN would delete nothing."""
    tables.execute("INSERT INTO the_source VALUES (NULL, 'another')")
    (delete, _) = statements("DELETE")
    tables.execute(delete)
    assert tables.execute("SELECT key FROM target ORDER BY key").fetchall() == [(None,), (2,)]
    tables.execute("DELETE FROM the_source WHERE key IS NULL")
    tables.execute(delete)
    assert tables.execute("SELECT key FROM target").fetchall() == [(2,)]


def test_all_captured_keys_are_deleted_before_an_insert(tables: sqlite3.Connection) -> None:
    """The union of both tables, the row without a key among them."""
    (_, delete) = statements("DELETE")
    tables.execute(delete)
    tables.execute("INSERT INTO target SELECT * FROM captured")
    assert tables.execute("SELECT * FROM target").fetchall() == [(2, "new")]


def test_no_statement_of_the_docs_is_blind_to_keys_that_are_null() -> None:
    """NOT IN is true for no row once one selected key is NULL."""
    assert "NOT IN (SELECT" not in "".join(statements("DELETE"))
    jobs = (PAGE.parents[2] / "dags_examples" / "jobs").glob("*.py")
    assert [job.name for job in jobs if re.search(r"NOT\s+IN\s*\(\s*SELECT", job.read_text(), re.IGNORECASE)] == []
