"""What Airflow reads about the provider, read in the way that Airflow does."""

import configparser
import importlib
import json
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator
from airflow.triggers.base import BaseTrigger

from airflow_provider_ips.get_provider_info import get_provider_info

INFO = get_provider_info()
BASES = {"hooks": BaseHook, "operators": BaseOperator, "sensors": BaseSensorOperator, "triggers": BaseTrigger}


def test_valid_against_airflows_own_schema():
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())

    jsonschema.validate(INFO, schema)


def test_no_key_that_airflow_does_not_know():
    """The schema allows unknown keys, so a misspelt one would be silently without effect."""
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())

    assert set(INFO) <= set(schema["properties"])


def classes_defined_in(module, base):
    return [
        value
        for name, value in vars(importlib.import_module(module)).items()
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == module and name[0] != "_"
    ]


@pytest.mark.parametrize("kind", BASES)
def test_the_modules_named_are_those_that_define_one(kind):
    folder = Path(str(files("airflow_provider_ips").joinpath(kind)))
    there = [f"airflow_provider_ips.{kind}.{path.stem}" for path in folder.glob("[!_]*.py")]

    assert sorted(module for entry in INFO[kind] for module in entry["python-modules"]) == sorted(
        module for module in there if classes_defined_in(module, BASES[kind])
    )


def test_every_function_named_gives_commands():
    for path in INFO["cli"]:
        module, _, function = path.rpartition(".")
        commands = getattr(importlib.import_module(module), function)()

        assert [command.name for command in commands] == ["ips"]


def test_every_link_of_the_plugin_is_named(airflow_command):
    """Airflow lists what the provider info names; it shows what the plugin brings."""
    from airflow_provider_ips.links.captures import ALL

    assert INFO["extra-links"] == [f"{link.__module__}.{link.__name__}" for link in ALL]
    listed = json.loads(airflow_command("providers", "links", "--output", "json"))
    assert set(INFO["extra-links"]) <= {entry["extra_link_class_name"] for entry in listed}


def test_every_integration_used_is_declared():
    declared = {integration["integration-name"] for integration in INFO["integrations"]}
    used = {entry["integration-name"] for kind in BASES for entry in INFO[kind]}

    assert used == declared


def test_found_by_its_entry_point():
    (entry_point,) = (
        point
        for point in entry_points(group="apache_airflow_provider")
        if point.dist is not None and point.dist.name == INFO["package-name"]
    )

    assert entry_point.load()() == INFO


def test_reading_it_imports_nothing_else():
    """Every Airflow command calls it, so it must cost nothing."""
    script = """
import sys
before = set(sys.modules)
from airflow_provider_ips.get_provider_info import get_provider_info
get_provider_info()
print(*sorted(name for name in set(sys.modules) - before if name not in sys.stdlib_module_names and "." not in name))
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert result.stdout.split() == ["airflow_provider_ips"]


@pytest.fixture(scope="module")
def airflow_command(tmp_path_factory):
    home = tmp_path_factory.mktemp("airflow")

    def run(*arguments):
        result = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env={"AIRFLOW_HOME": str(home), "PATH": "/usr/bin:/bin", "COLUMNS": "300"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def test_listed_among_airflows_providers(airflow_command):
    providers = json.loads(airflow_command("providers", "list", "--output", "json"))

    assert [provider["version"] for provider in providers if provider["package_name"] == "airflow-provider-ips"] == [
        importlib.import_module("airflow_provider_ips").__version__
    ]


def test_config_options_are_read_with_their_defaults(airflow_command):
    """All at once: each command of Airflow takes seconds to start."""
    read = configparser.RawConfigParser()
    read.read_string(airflow_command("config", "list", "--section", "ips", "--show-values"))

    assert dict(read["ips"]) == {name: option["default"] for name, option in INFO["config"]["ips"]["options"].items()}
