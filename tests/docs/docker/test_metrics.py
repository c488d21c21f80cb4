"""`docker/compose.metrics.yaml`: where Airflow's metrics go, read as Compose would merge it with the stack."""

import json
import re

import pytest
import yaml
from airflow.configuration import conf

from tests.docs.docker.stack import DOCKER, services
from tests.docs.docker.test_compose import HEALTH_KEYS, KNOWN_KEYS

BESIDE = yaml.safe_load((DOCKER / "compose.metrics.yaml").read_text())
NEW = {name: raw for name, raw in BESIDE["services"].items() if name not in services()}
CHANGED = {name: raw for name, raw in BESIDE["services"].items() if name in services()}
PROMETHEUS = yaml.safe_load((DOCKER / "metrics" / "prometheus.yaml").read_text())

each_new = pytest.mark.parametrize("raw", NEW.values(), ids=NEW)


def test_three_services_are_added_and_all_parts_of_airflow_that_run_something_send_to_them():
    assert set(NEW) == {"statsd-exporter", "prometheus", "grafana"}
    assert set(CHANGED) == {f"airflow-{part}" for part in ("scheduler", "worker", "triggerer", "dag-processor")}


@pytest.mark.parametrize("raw", CHANGED.values(), ids=CHANGED)
def test_airflow_has_the_options_and_sends_where_the_exporter_listens(raw):
    settings = raw["environment"]

    for name in settings:
        section, option = name.removeprefix("AIRFLOW__").lower().split("__")
        assert conf.configuration_description[section]["options"][option], name
    assert settings["AIRFLOW__METRICS__STATSD_HOST"] in NEW
    assert settings["AIRFLOW__METRICS__STATSD_PREFIX"] == "airflow"  # the mapping expects it


@each_new
def test_a_service_is_pinned_says_whether_it_is_well_and_is_open_to_this_machine_alone(raw):
    assert set(raw) <= KNOWN_KEYS
    assert set(raw["healthcheck"]) == HEALTH_KEYS
    assert re.fullmatch(r"[a-z/-]+:v?\d+\.\d+\.\d+", raw["image"])
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in raw.get("ports", []))
    assert {terms["condition"] for terms in raw.get("depends_on", {}).values()} <= {"service_healthy"}
    assert set(raw.get("depends_on", {})) <= set(NEW)


@each_new
def test_what_is_mounted_exists_and_commands_name_it(raw):
    inside = {}
    for mount in raw["volumes"]:
        source, target, *mode = mount.split(":")
        if source.startswith("."):
            assert mode == ["ro"]
            assert (DOCKER / source).exists(), mount
            inside[target] = DOCKER / source
        else:
            assert source in BESIDE["volumes"]
    for argument in raw.get("command", []):
        path = argument.partition("=")[2]
        folder, _, file = path.rpartition("/")
        assert not file.endswith(".yaml") or (inside[folder] / file).exists(), argument


def test_prometheus_reads_the_exporter_and_the_alerts():
    (job,) = PROMETHEUS["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]

    assert target.partition(":")[0] in NEW
    assert f":{target.partition(':')[2]}/" in str(NEW["statsd-exporter"]["healthcheck"]["test"])
    assert all((DOCKER / "metrics" / name).exists() for name in PROMETHEUS["rule_files"])


def test_grafana_draws_the_dashboard_from_that_prometheus():
    folder = DOCKER / "metrics" / "grafana"
    (source,) = yaml.safe_load((folder / "datasource.yaml").read_text())["datasources"]
    (provider,) = yaml.safe_load((folder / "dashboards.yaml").read_text())["providers"]
    targets = [mount.split(":")[1] for mount in NEW["grafana"]["volumes"]]
    variables = json.loads((DOCKER / "metrics" / "dashboard.json").read_text())["templating"]["list"]

    assert source["url"] in {f"http://{name}:9090" for name in NEW}
    assert (source["isDefault"], source["type"]) == (True, "prometheus")
    assert f"{provider['options']['path']}/airflow-ips.json" in targets
    assert [each["query"] for each in variables if each["type"] == "datasource"] == ["prometheus"]
