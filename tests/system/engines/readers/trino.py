"""Trino, by its REST protocol; needs nothing but Python."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from typing import Any

from tests.system.engines.protocol import serve, sql, way

ADDRESS = os.environ["TRINO"]
_known: set[str] = set()


def run(statement: str) -> list[list[Any]]:
    """All rows of a statement."""
    headers = {"X-Trino-User": "tests", "X-Trino-Catalog": "lake"}
    page = _send(urllib.request.Request(f"{ADDRESS}/v1/statement", statement.encode(), headers))  # noqa: S310
    rows = list(page.get("data", []))
    while "nextUri" in page:
        page = _send(urllib.request.Request(page["nextUri"], headers=headers))  # noqa: S310
        rows += page.get("data", [])
    if "error" in page:
        raise RuntimeError(page["error"]["message"])
    return rows


def _send(request: urllib.request.Request) -> dict[str, Any]:
    with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
        page: dict[str, Any] = json.load(answer)
    return page


def answer(question: dict[str, Any]) -> list[list[Any]]:
    """Register the table where it is asked about first, then one statement."""
    table = question["table"]
    name = table["name"].replace(".", "__")
    if name not in _known:
        file = table["metadata"].rpartition("/")[2]
        run(f"CALL lake.system.register_table('tests', '{name}', '{table['location']}', '{file}')")
        _known.add(name)
    at = way(question, branch=" FOR VERSION AS OF '{}'", snapshot=" FOR VERSION AS OF {}")
    return run(sql(question, f"lake.tests.{name}{at}"))


def started() -> str:
    """The version, once it answers."""
    last: Exception | None = None
    for _ in range(120):
        try:
            version = run("SELECT node_version FROM system.runtime.nodes")[0][0]
            run("CREATE SCHEMA IF NOT EXISTS lake.tests")
            run("SELECT count(*) FROM system.metadata.catalogs CROSS JOIN UNNEST(sequence(1, 9))")
        except (OSError, RuntimeError, IndexError) as error:
            last = error
            time.sleep(1)
        else:
            return str(version)
    raise TimeoutError(f"Trino did not start within two minutes: {last}")


serve(started(), answer, ways=("branch", "snapshot"))
