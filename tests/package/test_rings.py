"""Imports point inward only: the inner rings run without the outer ones, and the contracts find what is planted."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "airflow_provider_ips"

IMPORT_RING_WITHOUT = """
import importlib, importlib.abc, pkgutil, sys

ring, *blocked = sys.argv[1:]

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Blocker())

def import_all(name):
    module = importlib.import_module(name)
    print(name)
    for inner in pkgutil.iter_modules(getattr(module, "__path__", []), name + "."):
        import_all(inner.name)

import_all(ring)
"""


def import_ring_without(ring, *blocked):
    return subprocess.run(
        [sys.executable, "-c", IMPORT_RING_WITHOUT, ring, *blocked], capture_output=True, text=True, check=False
    )


def modules_of(folder):
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in folder.rglob("*.py"))
    return {name.removesuffix(".__init__") for name in names}


@pytest.mark.parametrize(
    ("ring", "blocked"),
    [("core", ["airflow", "pyiceberg", "pyarrow", "pyspark"]), ("iceberg", ["airflow", "pyspark"])],
)
def test_ring_imports_without_what_lies_outside(ring, blocked):
    result = import_ring_without(f"airflow_provider_ips.{ring}", *blocked)

    assert result.returncode == 0, result.stderr
    assert set(result.stdout.split()) == modules_of(PACKAGE / ring)


def test_apply_imports_pyspark_and_nothing_of_the_package(tmp_path):
    """A job brings the one file along: copied to another place it is whole."""
    copy = tmp_path / "apply.py"
    copy.write_text((PACKAGE / "apply.py").read_text())
    code = [sys.executable, "-c", IMPORT_RING_WITHOUT, "apply", "airflow", "airflow_provider_ips", "pyiceberg"]
    result = subprocess.run(code, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["apply"]


def test_the_helper_for_spark_jobs_needs_nothing_that_a_cluster_lacks():
    result = import_ring_without("airflow_provider_ips.stamps", "airflow", "pyiceberg", "pyarrow", "pyspark")

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("module", ["airflow", "pyiceberg", "pyarrow"])
def test_the_block_holds(module):
    """Else the test above would pass whatever a ring imports."""
    result = import_ring_without(module, module)

    assert f"{module} is blocked" in result.stderr


@pytest.fixture
def broken_contracts(tmp_path):
    """Plant modules in a copy of the package, and name the contracts that do not hold there, with the whole report."""
    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    def lint(planted=None):
        for path, text in (planted or {}).items():
            (tmp_path / PACKAGE.name / path).write_text(text + "\n")
        result = subprocess.run(
            [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        broken = re.findall(r"^(.+) BROKEN$", result.stdout, flags=re.MULTILINE)
        assert result.returncode == (1 if broken else 0), result.stdout + result.stderr
        return broken, " ".join(result.stdout.split())

    return lint


CORE = "core knows facts and verdicts, not where they come from or go to"
ICEBERG = "iceberg works without Airflow"
ROOMS = "the rooms of the Airflow layer, above the two rings"
ROOMS_OF_CORE = "the rooms of core"
ROOMS_OF_ICEBERG = "the rooms of iceberg"


def test_every_contract_holds(broken_contracts):
    broken, report = broken_contracts()

    assert broken == []
    assert "Contracts: 5 kept, 0 broken." in report


@pytest.mark.parametrize(
    ("room", "line", "contract"),
    [
        ("core/history", "import airflow.sdk", CORE),
        ("core/history", "import pyiceberg.table", CORE),
        ("core/history", "import pyarrow.compute", CORE),
        ("core/history", "import pyspark", CORE),
        ("iceberg/avro", "from airflow.sdk import Variable", ICEBERG),
        ("core/history", "from airflow_provider_ips import iceberg", ROOMS),
        ("core/history", "from airflow_provider_ips import operators", ROOMS),
        ("iceberg/avro", "from airflow_provider_ips import checkpoints", ROOMS),
        ("runs", "from airflow_provider_ips import operators", ROOMS),
        ("core/history", "from airflow_provider_ips.core import planning", ROOMS_OF_CORE),
        ("iceberg/avro", "from airflow_provider_ips.iceberg import icdc", ROOMS_OF_ICEBERG),
    ],
)
def test_an_import_outward_or_of_a_later_room_is_found(broken_contracts, room, line, contract):
    """A ring that it may not know breaks more than one contract: its modules import much in their turn."""
    broken, report = broken_contracts({f"{room}/planted.py": line})

    assert contract in broken
    assert f"airflow_provider_ips.{room.replace('/', '.')}.planted -> " in report


@pytest.mark.parametrize("place", ["def later():", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:"])
def test_an_import_counts_wherever_it_is_written(broken_contracts, place):
    line = "from airflow_provider_ips.core import planning"
    broken, _ = broken_contracts({"core/history/planted.py": f"{place}\n    {line}"})

    assert broken == [ROOMS_OF_CORE]


def test_a_way_round_is_found(broken_contracts):
    """The core reaches Airflow through a module that may import it."""
    broken, _ = broken_contracts(
        {"core/history/planted.py": "import airflow_provider_ips.config", "config.py": "import airflow"}
    )

    assert CORE in broken


@pytest.mark.parametrize(
    ("folder", "contract"), [("", ROOMS), ("core/", ROOMS_OF_CORE), ("iceberg/", ROOMS_OF_ICEBERG)]
)
def test_a_new_room_must_be_given_its_place(broken_contracts, folder, contract):
    """Every contract is exhaustive: a module or folder that it does not list is in none of its layers."""
    broken, report = broken_contracts({f"{folder}planted.py": ""})

    assert broken == [contract]
    assert f"not listed as layers: - airflow_provider_ips.{folder.replace('/', '.')}planted " in report
