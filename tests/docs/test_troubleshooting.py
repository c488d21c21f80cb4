"""The troubleshooting page knows every error, and quotes what errors really say."""

import ast
import inspect
import re
from functools import cache

import pytest

from airflow_provider_ips.core import errors
from tests.kit.pages import ROOT, anchors, tables

PAGE = ROOT / "docs/how-to/troubleshooting.md"
ERRORS = dict(inspect.getmembers(errors, inspect.isclass))
RAISED = [name for name, error in ERRORS.items() if issubclass(error, errors.IpsError) and not error.__subclasses__()]
QUOTES = [
    row[0] for table in tables(PAGE) if table.heading in ERRORS and table.header[0] == "it says" for row in table.rows
]


@pytest.mark.parametrize("name", [*RAISED, "CatalogError"])
def test_every_error_has_its_section(name):
    """Whoever searches for the error's name finds what to do."""
    assert name.lower() in anchors(PAGE)


@pytest.mark.parametrize("quote", QUOTES)
def test_what_an_error_is_said_to_say_it_says(quote):
    """`…` stands for a value. A reworded error would not be found on the page."""
    wanted = re.compile(".*".join(re.escape(part.strip()) for part in quote.split("…")), re.DOTALL)
    assert any(wanted.search(text) for text in texts()), f"no error says {quote!r}"


@cache
def texts():
    return list(literals())


def literals():
    for path in sorted((ROOT / "airflow_provider_ips").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
