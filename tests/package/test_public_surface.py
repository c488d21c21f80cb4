"""The names users import: all there, each from its home, and none by accident."""

import subprocess
import sys

import pytest

import airflow_provider_ips
from airflow_provider_ips import errors, iceberg, testing
from airflow_provider_ips.core import errors as home_of_errors
from airflow_provider_ips.errors import IpsError

EXPORTED = {
    "AtLeast": "airflow_provider_ips.core.watching.thresholds",
    "IcebergAppendSensor": "airflow_provider_ips.sensors.iceberg_append",
    "IcebergAppendTrigger": "airflow_provider_ips.triggers.iceberg_append",
    "IpBackfillOperator": "airflow_provider_ips.operators.backfill",
    "IpCaptureOperator": "airflow_provider_ips.operators.capture",
    "IpCommitOperator": "airflow_provider_ips.operators.commit",
    "IpsError": "airflow_provider_ips.core.errors",
    "SourceTable": "airflow_provider_ips.core.settings",
    "iceberg_asset": "airflow_provider_ips.assets.iceberg",
    "ips_params": "airflow_provider_ips.params",
    "ips_watch": "airflow_provider_ips.maintenance.watch",
}
OF_ICEBERG = {
    "capture": "airflow_provider_ips.iceberg.api",
    "captured_partitions": "airflow_provider_ips.iceberg.partitions.partition_sets",
    "drop_icdc": "airflow_provider_ips.iceberg.branches.branch",
    "estimate": "airflow_provider_ips.iceberg.estimation",
    "find_losses": "airflow_provider_ips.iceberg.icdc.lost_files",
}


def test_exported_members():
    assert set(airflow_provider_ips.__all__) == {*EXPORTED, "__version__"}
    assert list(airflow_provider_ips.__all__) == sorted(airflow_provider_ips.__all__)


@pytest.mark.parametrize(("name", "home"), EXPORTED.items())
def test_each_name_is_of_its_home(name, home):
    value = getattr(airflow_provider_ips, name)

    assert (value.__module__, value.__qualname__) == (home, name)


def test_names_are_listed_before_they_are_used():
    """Completion in an editor or a shell offers them."""
    assert set(airflow_provider_ips.__all__) <= set(dir(airflow_provider_ips))


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'airflow_provider_ips' has no attribute 'IpRollbackOperator'"):
        airflow_provider_ips.IpRollbackOperator  # noqa: B018  # the access is what is tested


def test_importing_the_module_imports_neither_airflow_nor_a_ring():
    """Airflow imports it for its provider info in every command, notebooks where there is no Airflow."""
    script = "import sys, airflow_provider_ips; print(*(name for name in sys.modules if 'airflow' in name))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert result.stdout.split() == ["airflow_provider_ips"]


def test_the_functions_without_airflow():
    assert list(iceberg.__all__) == sorted(OF_ICEBERG)
    assert set(OF_ICEBERG) <= set(dir(iceberg))


@pytest.mark.parametrize(("name", "home"), OF_ICEBERG.items())
def test_each_function_without_airflow_is_of_its_home(name, home):
    value = getattr(iceberg, name)

    assert (value.__module__, value.__qualname__) == (home, name)


def test_a_function_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'airflow_provider_ips\.iceberg' has no attribute 'rollback'"):
        iceberg.rollback  # noqa: B018  # the access is what is tested


def test_importing_the_functions_does_not_import_pyiceberg_yet():
    script = "import sys, airflow_provider_ips.iceberg; print('pyiceberg' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "False"


def test_errors_has_every_error_of_the_tree():
    """Each keeps its home: errors that were pickled under that path can still be read."""
    tree = {value for value in vars(home_of_errors).values() if isinstance(value, type) and issubclass(value, IpsError)}

    assert {getattr(errors, name) for name in errors.__all__} == tree
    assert {value.__module__ for value in tree} == {"airflow_provider_ips.core.errors"}


def test_testing_has_what_stands_in_for_a_catalog_and_a_store():
    assert testing.__all__ == ["InMemoryHistory", "InMemoryStore"]
    assert all(hasattr(testing, name) for name in testing.__all__)
