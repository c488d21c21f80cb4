"""The versions that are supported: said in one place, refused outside, and installable as Airflow's constraints say."""

import ast
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from airflow_provider_ips.core.errors import UnsupportedVersionError
from airflow_provider_ips.versions import compare
from scripts import compatibility, floors
from tests.package.test_versions import PROJECT

REQUIRED = [Requirement(line) for line in PROJECT["dependencies"]]
IMPORTS = "import airflow_provider_ips, airflow_provider_ips.get_provider_info as info; info.get_provider_info()\n"


@pytest.mark.parametrize(
    ("page", "table"), [(compatibility.README, compatibility.table), (compatibility.SUPPORT, compatibility.matrix)]
)
def test_a_page_has_the_table_of_now(page, table):
    """`make compatibility` writes it."""
    text = page.read_text()
    assert compatibility.written(text, table()) == text


@pytest.mark.parametrize("airflow", sorted(floors.floors()))
def test_the_constraints_of_a_floor_fit_what_we_require(airflow):
    pins = {"apache-airflow": airflow, **floors.pins(airflow)}
    assert not [
        f"{required}: {pins[canonicalize_name(required.name)]}"
        for required in REQUIRED
        if not required.specifier.contains(pins[canonicalize_name(required.name)])
    ]


def test_the_lowest_version_that_is_supported_is_one_that_is_tested():
    lowest = {each.name: spec.version for each in REQUIRED for spec in each.specifier if spec.operator == ">="}
    pins = floors.pins(min(floors.floors()))
    assert lowest["apache-airflow"] == min(floors.floors())
    assert lowest["pyiceberg"] == pins["pyiceberg"]


def installed(versions):
    def find(name):
        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    return find


def test_a_version_within_the_ranges_is_accepted_also_a_preview_of_the_next():
    compare(REQUIRED, ["pyiceberg", "apache-airflow"], installed({"pyiceberg": "0.11.1", "apache-airflow": "3.4.0rc1"}))


def test_a_package_that_is_missing_is_refused():
    with pytest.raises(UnsupportedVersionError, match=r"needs pyiceberg <0\.13,>=0\.11\.1, and none is installed"):
        compare(REQUIRED, ["pyiceberg"], installed({}))


@pytest.mark.parametrize(
    ("package", "version", "imported"),
    [
        ("apache-airflow", "3.1.8", "airflow_provider_ips.operators.capture"),
        ("apache-airflow", "4.0.0", "airflow_provider_ips.sensors.iceberg_append"),
        ("apache-airflow-providers-apache-iceberg", "1.4.1", "airflow_provider_ips.triggers.iceberg_append"),
        ("pyiceberg", "0.10.0", "airflow_provider_ips.hooks.ips"),
        ("pyiceberg", "0.13.0", "airflow_provider_ips.operators.commit"),
        ("pyiceberg", "0.13.0", "airflow_provider_ips.iceberg.capture"),
    ],
)
def test_the_first_import_refuses_another_version_and_names_both(package, version, imported, tmp_path):
    """An installer was told to ignore what we require. Other commands of Airflow still work."""
    found = tmp_path / f"{package.replace('-', '_')}-{version}.dist-info"
    found.mkdir()
    (found / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    module, _, name = imported.rpartition(".")
    script = f"{IMPORTS}print('so far')\nfrom {module} import {name}\n"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment
    )

    assert result.stdout == "so far\n", result.stderr
    assert result.returncode == 1
    said = result.stderr
    assert f"UnsupportedVersionError: airflow-provider-ips needs {package} " in said
    assert f"and {version} is installed" in said


def imported_names():
    """What any module imports, wherever the import is written; but for the two that are for use in Spark jobs."""
    package = floors.ROOT / "airflow_provider_ips"
    for path in set(package.rglob("*.py")) - {package / "stamps.py", package / "apply.py"}:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                yield node.module or ""
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)


def test_nothing_of_ours_imports_spark_or_its_provider():
    """People who do not use them pay for their place on the disk, and for nothing else."""
    found = set(imported_names())
    assert any(name.startswith("airflow.providers.apache.iceberg") for name in found)
    assert not {name for name in found if name.startswith(("pyspark", "airflow.providers.apache.spark"))}


def test_without_a_python_of_the_constraints_nothing_is_called_passed(tmp_path):
    nowhere = {"PATH": str(tmp_path), "HOME": str(tmp_path), "UV_PYTHON_INSTALL_DIR": str(tmp_path)}
    script = str(floors.ROOT / "scripts" / "floors.py")
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, env=nowhere)

    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("floors: NOT RUN: there is no Python 3.12")
    assert "passed" not in result.stdout + result.stderr
