"""What the page of the stack says can be done."""

import re
import shlex

import pytest

from tests.docs.docker.stack import DOCKER, generated_env, services

PAGE = (DOCKER / "README.md").read_text()
SERVICES = services()
BLOCKS = re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [shlex.split(line) for block in BLOCKS for line in block.splitlines()]


def test_every_service_is_explained_and_no_other():
    assert set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)) == set(SERVICES)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_name_what_is_there(command):
    while command[2:3] == ["--file"]:
        assert (DOCKER / command[3]).exists()
        command = [*command[:2], *command[4:]]
    if command[:2] == ["docker", "compose"]:
        after = [word for word in command[3:] if not word.startswith("-")]
        named = {"exec": after[:1], "logs": after}.get(command[2], [])
        assert set(named) <= set(SERVICES)
        assert command[2] in {"down", "exec", "logs", "ps", "stop", "up"}
    elif command[0].startswith("./"):
        assert (DOCKER / command[0]).exists()
    else:
        assert command[0] in {"grep", "rm"}


@pytest.mark.parametrize("path", sorted(set(re.findall(r"/opt/ips/\S+", PAGE))))
def test_files_in_containers_are_mounted_there(path):
    assert "./spark:/opt/ips:ro" in SERVICES["airflow-worker"].raw["volumes"]
    assert (DOCKER / "spark" / path.removeprefix("/opt/ips/")).exists()


def test_variables_that_it_names_are_there(tmp_path):
    named = set(re.findall(r"\b(AIRFLOW_[A-Z0-9_]+|SPARK_[A-Z_]+|S3_[A-Z_]+)\b", PAGE))
    known = {variable for service in SERVICES.values() for variable in service.environment} | set(
        generated_env(tmp_path)
    )

    assert {name for name in named if not name.endswith("__")} <= known


def test_addresses_are_those_of_the_ports(tmp_path):
    ports = {name: value for name, value in generated_env(tmp_path).items() if name.endswith("_PORT")}

    beside = re.findall(r'"127\.0\.0\.1:(\d+):', (DOCKER / "compose.metrics.yaml").read_text())

    assert set(re.findall(r"http://localhost:(\d+)", PAGE)) == {*ports.values(), *beside}
