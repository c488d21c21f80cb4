"""The settings of the catalog page are those that PyIceberg reads, and both sides name one catalog."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.conftest import command_lines
from tests.kit.pages import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "catalog-connections.md"
OUR_OWN = {"catalog_name"}
OF_EVERY_CATALOG = {"type", "uri", "warehouse"}
SPARK_TYPES = {"sql": "jdbc", "rest": "rest", "glue": "glue", "hive": "hive"}
READERS = ("catalog", "catalog.rest", "catalog.sql", "catalog.glue", "catalog.hive", "io", "io.pyarrow")


def connections():
    """The words of each `airflow connections add`, and the settings of Spark that follow it."""
    found = blocks(PAGE)
    for place, block in enumerate(found):
        for words in command_lines(block.text) if block.language == "bash" else ():
            if words[:3] == ["airflow", "connections", "add"]:
                yield pytest.param(words, found[place + 1].text, id=str(block))


def extra(words):
    return json.loads(words[words.index("--conn-extra") + 1])


def known():
    """Every property that a module of PyIceberg names, as a constant or in its code."""
    names = set(OUR_OWN | OF_EVERY_CATALOG)
    for reader in READERS:
        # Not imported: the clients of Glue and Hive are extras of PyIceberg.
        spec = find_spec(f"pyiceberg.{reader}")
        assert spec is not None
        assert spec.origin is not None
        names |= set(re.findall(r'"([a-z0-9_.-]+)"', Path(spec.origin).read_text()))
    return names


CONNECTIONS = list(connections())


@pytest.mark.parametrize(("words", "spark"), CONNECTIONS)
def test_every_setting_is_one_that_pyiceberg_reads(words, spark):
    """One that is misspelt would be ignored."""
    assert set(extra(words)) <= known()


@pytest.mark.parametrize(("words", "spark"), CONNECTIONS)
def test_both_sides_are_of_one_kind_and_lead_to_one_place(words, spark):
    """Spark's settings follow each connection, and have its type, its warehouse and its host."""
    settings = dict(line.split(maxsplit=1) for line in spark.splitlines())
    prefix = f"spark.sql.catalog.{words[3]}."
    assert all(key.startswith(prefix) for key in settings)
    given = extra(words)
    assert settings[f"{prefix}type"] == SPARK_TYPES[given["type"]]
    if "warehouse" in given:
        assert settings[f"{prefix}warehouse"] == given["warehouse"]
    if "--conn-host" in words:
        assert settings[f"{prefix}uri"] == words[words.index("--conn-host") + 1]
    if "oauth2-server-uri" in given:
        assert settings[f"{prefix}oauth2-server-uri"] == given["oauth2-server-uri"]
