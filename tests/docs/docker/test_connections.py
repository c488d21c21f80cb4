"""The connections of the stack, as Airflow's own hooks take them, and Spark's side of them."""

import json
import re
from urllib.parse import urlsplit

import pytest

from tests.docs.docker.stack import DOCKER, ask_airflow, generated_env, interpolated, services
from tests.kit.http import Handler, http_server

SERVICES = services()
AIRFLOW = [name for name in SERVICES if name.startswith("airflow-")]
CATALOG = "lake"
CATALOG_ADDRESS = "http://iceberg-rest:8181"


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    return generated_env(tmp_path_factory.mktemp("env"))


@pytest.fixture
def rest_catalog():
    """What an Iceberg client asks first, answered on loopback; `asked` is what came."""

    class Answer(Handler):
        asked: list[str]

        def handle_request(self):
            self.asked.append(self.path)
            status = 200 if urlsplit(self.path).path == "/v1/config" else 404
            self.answer(status, json.dumps({"defaults": {}, "overrides": {}}).encode())

    Answer.asked = []
    with http_server(Answer) as server:
        yield server


def connections(env):
    environment = SERVICES["airflow-worker"].environment
    return {k: interpolated(v, env) for k, v in environment.items() if k.startswith("AIRFLOW_CONN_")}


def spark_catalog():
    text = (DOCKER / "spark" / "spark-defaults.conf").read_text()
    return dict(re.findall(rf"^spark\.sql\.catalog\.{CATALOG}\.(\S+)\s+(\S+)$", text, re.MULTILINE))


def test_every_part_of_airflow_has_the_same_connections():
    of_parts = {
        name: {k: v for k, v in SERVICES[name].environment.items() if k.startswith("AIRFLOW")} for name in AIRFLOW
    }
    of_parts["airflow-init"].pop("AIRFLOW_ADMIN_PASSWORD")

    assert all(of_part == of_parts["airflow-worker"] for of_part in of_parts.values())


def test_the_iceberg_connection_opens_the_catalog_by_the_official_hook_and_by_ours(env, rest_catalog, tmp_path):
    here = f"http://127.0.0.1:{rest_catalog.server_address[1]}"
    environment = {name: text.replace(CATALOG_ADDRESS, here) for name, text in connections(env).items()}

    official, ours = ask_airflow("catalogs", environment, tmp_path)

    assert official == ours
    assert ours["name"] == CATALOG
    assert ours["type"] == "RestCatalog"
    assert ours["properties"] == {
        "type": "rest",
        "uri": here,
        "s3.endpoint": "http://storage:8333",
        "s3.region": "us-east-1",
        "s3.access-key-id": env["S3_ACCESS_KEY_ID"],
        "s3.secret-access-key": env["S3_SECRET_ACCESS_KEY"],
    }
    assert rest_catalog.RequestHandlerClass.asked == ["/v1/config"] * 2


def test_the_spark_connection_submits_to_the_master_with_the_driver_beside_airflow(env, tmp_path):
    command = ask_airflow("spark_submit", connections(env), tmp_path)

    assert command[:3] == ["spark-submit", "--master", "spark://spark-master:7077"]
    assert command[command.index("--deploy-mode") + 1] == "client"


def test_spark_calls_the_catalog_what_airflow_calls_the_connection():
    """One name for a table in a DAG, whoever reads it; the example DAGs say `lake` too."""
    defaults = (DOCKER / "spark" / "spark-defaults.conf").read_text()
    catalogs = re.findall(r"^spark\.sql\.catalog\.(\w+)\s", defaults, re.MULTILINE)

    assert catalogs == [CATALOG]
    assert f"AIRFLOW_CONN_{CATALOG.upper()}" in SERVICES["airflow-worker"].environment


def test_spark_and_airflow_reach_the_same_catalog_and_the_same_storage(env):
    lake = json.loads(connections(env)["AIRFLOW_CONN_LAKE"])
    catalog = SERVICES["iceberg-rest"].environment

    assert spark_catalog()["type"] == lake["extra"]["type"] == "rest"
    assert spark_catalog()["uri"] == lake["host"] == CATALOG_ADDRESS
    assert spark_catalog()["s3.endpoint"] == lake["extra"]["s3.endpoint"] == catalog["CATALOG_S3_ENDPOINT"]
    assert spark_catalog()["io-impl"] == catalog["CATALOG_IO__IMPL"]
    for service in ("airflow-worker", "spark-worker", "iceberg-rest", "storage-init"):
        assert SERVICES[service].environment["AWS_REGION"] == lake["extra"]["s3.region"]


def test_the_bucket_that_is_made_is_the_warehouse():
    (bucket,) = SERVICES["storage-init"].raw["command"]

    assert SERVICES["iceberg-rest"].environment["CATALOG_WAREHOUSE"] == f"s3://{bucket}/"


@pytest.mark.parametrize("service", SERVICES.values(), ids=lambda service: service.name)
def test_an_address_inside_the_stack_is_a_service_of_it(service):
    said = " ".join([*service.environment.values(), *service.raw.get("command", [])])
    if service.name == "spark-worker":
        said += (DOCKER / "spark" / "spark-defaults.conf").read_text()
    hosts = re.findall(r"(?:@|//)([a-z][a-z-]*):\d+", said)

    assert set(hosts) - {"localhost"} <= set(SERVICES)


def test_passwords_of_databases_are_those_that_were_set():
    postgres = SERVICES["postgres"].environment
    airflow = SERVICES["airflow-worker"].environment

    for name in ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__CELERY__RESULT_BACKEND"):
        assert airflow[name].endswith(f"://airflow:{postgres['AIRFLOW_DB_PASSWORD']}@postgres:5432/airflow")
    assert SERVICES["iceberg-rest"].environment["CATALOG_JDBC_PASSWORD"] == postgres["LAKE_DB_PASSWORD"]
    assert SERVICES["redis"].environment["REDISCLI_AUTH"] in airflow["AIRFLOW__CELERY__BROKER_URL"]
    assert SERVICES["redis"].environment["REDISCLI_AUTH"] in SERVICES["redis"].raw["command"]
