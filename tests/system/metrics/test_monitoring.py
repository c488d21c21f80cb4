"""What a capture and a commit send arrives in a real Prometheus, by way of a real StatsD exporter, and alerts fire."""

import json
import re
import subprocess
from datetime import timedelta

import pytest

from airflow_provider_ips.metrics import METRICS as SENT
from airflow_provider_ips.metrics import Measurement, send
from tests.airflow.test_metrics import configured
from tests.kit.pipelines import Job, incremental
from tests.kit.tables import append, create
from tests.system.metrics.conftest import METRICS, until

__all__ = ["configured"]

OF_TABLE = ("daily.capture", "db.events")
OF_CONSUMER = ("daily.capture", None)


@pytest.mark.parametrize(
    "command",
    [("check", "rules", "alerts.yaml"), ("test", "rules", "alerts.test.yaml"), ("check", "config", "prometheus.yaml")],
)
def test_promtool_finds_nothing_wrong_and_each_alert_fires_when_it_should(prometheus, command):
    answer = subprocess.run(
        [prometheus.with_name("promtool"), *command], cwd=METRICS, capture_output=True, text=True, check=False
    )

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "SUCCESS" in answer.stdout


@pytest.fixture(params=["names", "tags"])
def sending(request, configured, monitoring):
    """Airflow's StatsD client without tags, and with those that the stack turns on."""
    configured(
        statsd_on=True,
        statsd_host="127.0.0.1",
        statsd_port=monitoring.statsd_port,
        statsd_prefix="airflow",
        statsd_influxdb_enabled=request.param == "tags",
    )
    return request.param


def test_a_run_is_seen_in_prometheus(sending, monitoring, lake, run_dag):
    job, table = Job(lake), create(lake, "db.events")
    append(table, [1, 2, 3])
    dag = incremental("daily", "db.events", job, capture={"target_lag": timedelta(days=1)})
    run_dag(dag)
    append(table, [4, 5])
    run_dag(dag)

    def shown(query):
        found = monitoring.wait_for(query)
        return {tuple(name and name.replace("__", ".") for name in key): value for key, value in found.items()}

    assert until(lambda: shown("airflow_ips_commits_total") == {OF_CONSUMER: 2}, "second commit")
    assert shown("sum by (consumer, table) (airflow_ips_capture_files_total)") == {OF_TABLE: 2}
    assert shown("sum by (consumer, table) (airflow_ips_capture_records_total)") == {OF_TABLE: 5}
    assert shown("airflow_ips_capture_duration_seconds_count") == {OF_CONSUMER: 2}
    assert shown("airflow_ips_lag_commits") == {OF_TABLE: 0}
    assert shown("airflow_ips_target_breached") == {OF_CONSUMER: 0}


def test_a_breach_raises_its_alert(sending, monitoring):
    """The alert waits for ten minutes before it fires: it is pending until then."""
    send([Measurement("ips.target.breached", 1, "late.capture")])

    def raised():
        rules = monitoring.ask("rules")["groups"][0]["rules"]
        assert [rule["lastError"] for rule in rules if "lastError" in rule] == []
        return [alert for rule in rules if rule["name"] == "IpsTargetBreached" for alert in rule["alerts"]]

    (alert,) = until(raised, "alert")
    assert alert["labels"]["consumer"].replace("__", ".") == "late.capture"
    assert "lags by more than its target_lag" in alert["annotations"]["summary"]


def test_every_query_of_the_dashboard_is_one_that_prometheus_takes(monitoring):
    """And every metric has a panel."""
    dashboard = json.loads((METRICS / "dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]

    for query in queries:
        filled = re.sub(r"\$__\w+", "5m", re.sub(r"\$\{?(consumer|table)(:\w+)?\}?", ".*", query))
        monitoring.ask("query", query=filled)
    assert len(queries) >= len(SENT) / 2
