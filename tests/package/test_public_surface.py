"""The names users import: all there, each from its home, and none by accident."""

import subprocess
import sys

import pytest

import airflow_provider_ips

EXPORTED = {
    "IcebergAppendSensor": "airflow_provider_ips.sensors.iceberg_append",
    "IcebergAppendTrigger": "airflow_provider_ips.triggers.iceberg_append",
    "IpBackfillOperator": "airflow_provider_ips.operators.backfill",
    "IpCaptureOperator": "airflow_provider_ips.operators.capture",
    "IpCommitOperator": "airflow_provider_ips.operators.commit",
    "SourceTable": "airflow_provider_ips.core.settings",
    "iceberg_asset": "airflow_provider_ips.assets.iceberg",
    "ips_params": "airflow_provider_ips.params",
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
