"""A real StatsD exporter and a real Prometheus, set up by the files in docker/metrics."""

import json
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from subprocess import STDOUT, Popen
from urllib.parse import urlencode

import pytest
import yaml

from scripts.loopback import HOST, free_port
from tests.kit.airflow import airflow_database, lake, run_dag
from tests.kit.packages import program_of_debian, program_of_go
from tests.kit.pages import ROOT

__all__ = ["airflow_database", "lake", "run_dag"]

METRICS = ROOT / "docker" / "metrics"
SECONDS = 60


@pytest.fixture(scope="session")
def exporter():
    """Prometheus' StatsD exporter, of the version that `docker` has."""
    services = yaml.safe_load((METRICS.parent / "compose.metrics.yaml").read_text())["services"]
    version = services["statsd-exporter"]["image"].rpartition(":")[2]
    return program_of_go("github.com/prometheus/statsd_exporter", version)


@pytest.fixture(scope="session")
def prometheus():
    """Debian's Prometheus, and promtool beside it."""
    return program_of_debian("prometheus", "usr/bin/prometheus")


@dataclass(frozen=True)
class Monitoring:
    """Where StatsD is sent to, and what Prometheus has of it."""

    statsd_port: int
    url: str

    def ask(self, path, **parameters):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urlencode(parameters)}", timeout=10) as answer:  # noqa: S310 - ours
            return json.load(answer)["data"]

    def values(self, query):
        """What a query gives now, by the labels that are ours."""
        return {
            (each["metric"].get("consumer"), each["metric"].get("table")): float(each["value"][1])
            for each in self.ask("query", query=query)["result"]
        }

    def wait_for(self, query):
        """The same, once there is something."""
        return until(lambda: self.values(query), query)


def until(answer, what):
    """Ask until there is an answer."""
    limit = time.monotonic() + SECONDS
    while time.monotonic() < limit:
        try:
            if found := answer():
                return found
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"no {what} within {SECONDS} s")


@contextmanager
def running(*command, log):
    with log.open("wb") as output, Popen([str(part) for part in command], stdout=output, stderr=STDOUT) as process:
        try:
            yield
        finally:
            process.terminate()


@pytest.fixture
def monitoring(tmp_path, exporter, prometheus):
    """Both programs on this machine, with the files of the stack; only addresses and intervals are others."""
    statsd, web, port = free_port(), free_port(), free_port()
    settings = yaml.safe_load((METRICS / "prometheus.yaml").read_text())
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    settings["rule_files"] = [str(METRICS / name) for name in settings["rule_files"]]
    settings["scrape_configs"][0]["static_configs"] = [{"targets": [f"{HOST}:{web}"]}]
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(settings))
    with (
        running(
            exporter,
            f"--statsd.mapping-config={METRICS / 'statsd_exporter.yaml'}",
            f"--statsd.listen-udp={HOST}:{statsd}",
            "--statsd.listen-tcp=",
            f"--web.listen-address={HOST}:{web}",
            log=tmp_path / "exporter.log",
        ),
        running(
            prometheus,
            f"--config.file={tmp_path / 'prometheus.yaml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address={HOST}:{port}",
            log=tmp_path / "prometheus.log",
        ),
    ):
        found = Monitoring(statsd_port=statsd, url=f"http://{HOST}:{port}")
        until(lambda: found.values("up == 1"), "exporter that Prometheus reads")
        yield found
