"""What is in the wheel, and that it stands on its own."""

import json
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import airflow_provider_ips
from scripts import local_airflow
from scripts.spark_jars import JARS

ROOT = Path(__file__).resolve().parents[2]

# One process builds it for all of them.
pytestmark = pytest.mark.xdist_group("wheel")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Built by way of the source distribution, so that one that lacks a file is found out here."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def unpacked(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="session")
def metadata(unpacked):
    (text,) = unpacked.glob("*.dist-info/METADATA")
    return message_from_string(text.read_text())


def files_below(folder):
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_package_and_the_example_dags(unpacked):
    package = files_below(ROOT / "airflow_provider_ips")
    examples = {f"example_dags/{name}" for name in files_below(ROOT / "dags_examples")}

    assert any(name.endswith(".py") for name in examples)
    assert files_below(unpacked / "airflow_provider_ips") == package | examples


LOAD_EXAMPLES = """
import json
from airflow.utils.db import initdb
initdb()
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
manager = DagBundlesManager()
manager.sync_bundles_to_db()
bundle = manager.get_bundle("airflow-provider-ips-example-dags")
bundle.initialize()
bag = DagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
sync_bag_to_db(bag, bundle.name, None)
with create_session() as session:
    print(json.dumps([str(bundle.path), bag.import_errors, {d.dag_id: d.is_paused for d in session.query(DagModel)}]))
"""


def test_what_airflow_loads_by_default_has_no_power_until_somebody_unpauses_it(unpacked, tmp_path):
    """With `[core] load_examples`, and where new DAGs run at once. The maintenance DAG moves checkpoints."""
    (tmp_path / "dags").mkdir()
    result = subprocess.run(
        [sys.executable, "-P", "-c", LOAD_EXAMPLES],
        env={
            **local_airflow.environment(tmp_path, dags=tmp_path / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "True",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "PYTHONPATH": str(unpacked),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    folder, errors, is_paused = json.loads(result.stdout.splitlines()[-1])

    assert folder == str(unpacked / "airflow_provider_ips" / "example_dags")
    assert errors == {}
    assert set(is_paused) > {"ips_maintenance", "append_incremental"}
    with_power = [
        file.stem for file in Path(folder).glob("*.py") if "airflow_provider_ips.maintenance" in file.read_text()
    ]
    assert with_power == ["maintenance"]
    assert {dag_id for dag_id, paused in is_paused.items() if paused} == {"ips_maintenance", "ips_watch"}


def test_the_wheel_holds_nothing_else(unpacked):
    assert {path.name for path in unpacked.iterdir()} == {
        "airflow_provider_ips",
        f"airflow_provider_ips-{airflow_provider_ips.__version__}.dist-info",
    }


def test_the_wheel_is_typed_licensed_and_a_provider(unpacked, metadata):
    (dist_info,) = unpacked.glob("*.dist-info")

    assert (unpacked / "airflow_provider_ips" / "py.typed").exists()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert files_below(dist_info / "licenses") == {"LICENSE", "NOTICE"}
    assert "[apache_airflow_provider]" in (dist_info / "entry_points.txt").read_text()


def test_the_spark_extra_takes_the_two_halves_of_pyspark_from_the_releases_of_the_runtime(metadata):
    """Their files overlap: halves of two releases break each other. The runtime is built for one minor release."""
    required = [Requirement(line) for line in metadata.get_all("Requires-Dist")]
    ranges = {
        each.name: each.specifier for each in required if each.marker and each.marker.evaluate({"extra": "spark"})
    }
    (runtime,) = [jar for jar in JARS if jar.artifact.startswith("iceberg-spark-runtime")]
    minor = runtime.artifact.removeprefix("iceberg-spark-runtime-").partition("_")[0]
    following = ".".join([minor.split(".")[0], str(int(minor.split(".")[1]) + 1)])

    assert set(ranges) == {"pyspark", "pyspark-client"}
    assert set(ranges.values()) == {SpecifierSet(f">={minor},<{following}")}


PARSE_EXAMPLES = """
import sys

source_tree, site_packages = sys.argv[1:]
sys.path[:] = [site_packages, *(entry for entry in sys.path if entry not in ("", source_tree))]

from airflow.dag_processing.dagbag import DagBag
import airflow_provider_ips

assert airflow_provider_ips.__file__.startswith(site_packages), airflow_provider_ips.__file__
bag = DagBag(dag_folder=f"{site_packages}/airflow_provider_ips/example_dags")
assert not bag.import_errors, bag.import_errors
print(*sorted(bag.dags))
"""


def test_the_example_dags_parse_from_the_wheel(unpacked, tmp_path):
    """Installed, they lie in another folder than in the source tree and cannot import from that."""
    result = subprocess.run(
        [sys.executable, "-c", PARSE_EXAMPLES, str(ROOT), str(unpacked)],
        env={"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1].split()
