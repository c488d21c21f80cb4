"""ClickHouse, within this process (chdb)."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import urlparse

import chdb

from tests.system.engines.protocol import serve, sql, way


def answer(question: dict[str, Any]) -> Any:
    """One statement."""
    table = question["table"]
    location, metadata = (urlparse(table[key]).path for key in ("location", "metadata"))
    # Below the table's own folder, as the setting wants it.
    setting = metadata.removeprefix(location).lstrip("/")
    function = f"icebergLocal('{location}', SETTINGS iceberg_metadata_file_path = '{setting}')"
    at = way(question, snapshot=" SETTINGS iceberg_snapshot_id = {}")
    found = chdb.query(sql(question, function) + at, "JSONCompactStrings").bytes().decode()
    answer = json.loads(found)
    types = [column["type"] for column in answer["meta"]]
    return [[_value(kind, text) for kind, text in zip(types, row, strict=True)] for row in answer["data"]]


def _value(kind: str, text: Any) -> Any:
    if text in (None, "ᴺᵁᴸᴸ"):
        return None
    return int(text) if "Int" in kind else text


os.chdir("/")  # it opens files below its folder only
serve(f"{chdb.engine_version} (chdb {chdb.__version__})", answer, ways=("snapshot",))
