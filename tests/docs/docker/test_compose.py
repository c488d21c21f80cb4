"""How the services of the stack hang together."""

import itertools
import re
import subprocess

import pytest

from tests.docs.docker.stack import (
    DOCKER,
    RUN_INIT_ENV,
    generated_env,
    interpolated,
    messages,
    services,
    texts,
    variables,
    volumes,
)

SERVICES = services()
LONG_RUNNING = [service for service in SERVICES.values() if not service.runs_once]
ALL_TEXTS = [(service.name, text) for service in SERVICES.values() for text in texts(service.raw)]

# Compose tells a misspelt key only when it starts; whoever uses a new one adds it here.
KNOWN_KEYS = {
    *("build", "command", "depends_on", "entrypoint", "environment", "healthcheck", "image", "ports", "restart"),
    "volumes",
}
HEALTH_KEYS = {"test", "interval", "timeout", "retries", "start_period"}
SECRET_NAME = re.compile(r"PASS|SECRET|TOKEN|KEY|AUTH$", re.IGNORECASE)


def each(found):
    return pytest.mark.parametrize("service", found, ids=lambda service: service.name)


def test_all_parts_of_the_stack_are_there():
    assert set(SERVICES) == {
        "airflow-api-server",
        "airflow-dag-processor",
        "airflow-init",
        "airflow-scheduler",
        "airflow-triggerer",
        "airflow-worker",
        "iceberg-rest",
        "postgres",
        "redis",
        "spark-master",
        "spark-worker",
        "storage",
        "storage-init",
    }


@each(SERVICES.values())
def test_a_service_says_nothing_that_compose_would_not_understand(service):
    assert set(service.raw) <= KNOWN_KEYS
    assert set(service.raw.get("healthcheck", {})) <= HEALTH_KEYS
    assert all(isinstance(value, str) for value in service.environment.values()), "YAML made something else of it"


@each(LONG_RUNNING)
def test_what_keeps_running_says_whether_it_is_well(service):
    check = service.raw["healthcheck"]

    assert set(check) == HEALTH_KEYS
    assert check["test"][0] in {"CMD", "CMD-SHELL"}


@each(SERVICES.values())
def test_a_service_waits_for_services_that_are_there_until_they_are_ready(service):
    for name, condition in service.waits_for.items():
        expected = "service_completed_successfully" if SERVICES[name].runs_once else "service_healthy"
        assert condition == expected, f"{service.name} waits for {name}"


def test_no_service_waits_for_itself():
    def waits_for(name, seen=()):
        assert name not in seen, f"{' -> '.join([*seen, name])}"
        for other in SERVICES[name].waits_for:
            waits_for(other, (*seen, name))

    for name in SERVICES:
        waits_for(name)


def test_airflow_starts_on_a_migrated_database_and_jobs_run_when_lake_and_spark_are_there():
    airflow = [name for name in SERVICES if name.startswith("airflow-") and name != "airflow-init"]

    assert all("airflow-init" in SERVICES[name].waits_for for name in airflow)
    assert SERVICES["airflow-init"].waits_for == {"postgres": "service_healthy"}
    assert {"iceberg-rest", "spark-worker"} <= set(SERVICES["airflow-worker"].waits_for)


@each(SERVICES.values())
def test_ports_are_open_to_this_machine_alone(service):
    assert all(re.fullmatch(r"127\.0\.0\.1:[^:]+(:\?[^}]*\})?:\d+", port) for port in service.raw.get("ports", []))


def test_two_pages_are_meant_to_be_looked_at():
    assert {name for name, service in SERVICES.items() if "ports" in service.raw} == {
        "airflow-api-server",
        "spark-master",
    }


@each(SERVICES.values())
def test_what_is_mounted_exists(service):
    for mount in service.raw.get("volumes", []):
        source = mount.split(":")[0]
        if source.startswith("."):
            assert (DOCKER / source).exists(), mount
            assert mount.endswith(":ro"), "a container has no business in the checkout"
        else:
            assert source in volumes(), mount


def test_every_volume_is_mounted():
    mounts = [mount.split(":")[0] for service in SERVICES.values() for mount in service.raw.get("volumes", [])]

    assert volumes() <= set(mounts)


def test_the_example_dags_are_the_dags():
    airflow = [service for name, service in SERVICES.items() if name.startswith("airflow-")]

    assert all("../dags_examples:/opt/airflow/dags:ro" in service.raw["volumes"] for service in airflow)


def test_a_missing_variable_is_an_error_that_says_what_to_do():
    for service, text in ALL_TEXTS:
        assert messages(text) <= {RUN_INIT_ENV}, service
        interpolated(text, dict.fromkeys(variables(text), ""))


def test_init_env_makes_every_variable_and_none_beside(tmp_path):
    asked_for = {name for _, text in ALL_TEXTS for name in variables(text)}

    assert asked_for == set(generated_env(tmp_path))


@each(SERVICES.values())
def test_no_secret_is_written_down(service):
    """With nothing in the variables, nothing is left of any secret."""

    def blank(text):
        return interpolated(text, dict.fromkeys(variables(text), ""))

    command = service.raw.get("command", [])
    named = [
        *service.environment.items(),
        *itertools.pairwise(command),
        *(pair for text in texts(service.raw) for pair in re.findall(r'"([^"]+)": "([^"]*)"', text)),
    ]
    for name, value in named:
        assert not SECRET_NAME.search(blank(name)) or not blank(value), name
    for text in texts(service.raw):
        assert not re.search(r"://[^/@\s]*:[^/@\s]+@", blank(text)), "a password in an address"


@pytest.mark.parametrize("script", ["init-env", "postgres/databases.sh"])
def test_shell_scripts_can_be_run_and_parse(script):
    path = DOCKER / script

    assert path.stat().st_mode & 0o111
    subprocess.run(["sh", "-n", str(path)], check=True, timeout=30)
