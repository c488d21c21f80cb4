"""Dependencies point inward only: what the linter rule forbids, and that the inner rings run without the outer ones."""

import shutil
import subprocess
import sys
import tomllib
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


def test_the_helper_for_spark_jobs_needs_nothing_that_a_cluster_lacks():
    result = import_ring_without("airflow_provider_ips.stamps", "airflow", "pyiceberg", "pyarrow", "pyspark")

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("module", ["airflow", "pyiceberg", "pyarrow"])
def test_the_block_holds(module):
    """Else the test above would pass whatever a ring imports."""
    result = import_ring_without(module, module)

    assert f"{module} is blocked" in result.stderr


@pytest.fixture
def linted_copy(tmp_path):
    """Copy the package, and hand out a function that plants modules in the copy and lints it."""
    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    def lint(planted=None):
        for path, line in (planted or {}).items():
            (tmp_path / PACKAGE.name / path).write_text(line + "\n")
        return subprocess.run(
            [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return lint


def test_the_linter_finds_every_import_allowed(linted_copy):
    result = linted_copy()

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("ring", "line"),
    [
        ("core", "import airflow.sdk"),
        ("core", "import pyiceberg.table"),
        ("core", "import pyarrow.compute"),
        ("core", "from airflow_provider_ips import iceberg"),
        ("core", "from airflow_provider_ips import operators"),
        ("iceberg", "from airflow.sdk import Variable"),
        ("iceberg", "from airflow_provider_ips import hooks"),
        ("iceberg", "from airflow_provider_ips.checkpoints import planted"),
    ],
)
def test_the_linter_catches_an_import_outward(linted_copy, ring, line):
    result = linted_copy({"checkpoints/planted.py": "", f"{ring}/planted.py": line})

    assert result.returncode == 1, result.stdout + result.stderr
    assert f"airflow_provider_ips.{ring}.planted -> " in result.stdout


def test_the_linter_catches_a_way_round(linted_copy):
    result = linted_copy({"core/planted.py": "import airflow_provider_ips.detour", "detour.py": "import airflow"})

    assert result.returncode == 1, result.stdout + result.stderr


@pytest.mark.parametrize(("ring", "inner"), [("core", {"core"}), ("iceberg", {"core", "iceberg"})])
def test_every_folder_outside_a_ring_is_forbidden_to_it(ring, inner):
    """A new folder of the Airflow layer must be added to the linter's rule."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (forbidden,) = (set(contract["forbidden_modules"]) for contract in contracts if contract["id"] == ring)
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}

    assert {f"airflow_provider_ips.{folder}" for folder in folders - inner} <= forbidden
