"""Metrics, through Airflow's own clients: what is sent, under which names, and that it stops no task."""

import re
import socket
from datetime import timedelta
from typing import Any, cast

import pytest
import yaml

from airflow_provider_ips import metrics
from airflow_provider_ips.core.errors import EvidenceError
from airflow_provider_ips.metrics import METRICS, Kind, Measurement, send
from airflow_provider_ips.runs.environment import now_ms
from tests.kit.pages import ROOT
from tests.kit.pipelines import Job, incremental
from tests.kit.tables import append, create

EXPIRY = {"history.expire.max-snapshot-age-ms": str(int(timedelta(days=5).total_seconds() * 1000))}


@pytest.fixture
def events(lake):
    table = create(lake, "db.events", properties=EXPIRY)
    append(table, [1, 2, 3])
    return table


@pytest.fixture
def job(lake):
    return Job(lake)


@pytest.fixture
def configured(monkeypatch):
    """Set options of the section [metrics], and have Airflow choose its client by them, as it does in a task."""
    from airflow.sdk.observability.stats import Stats

    from airflow_provider_ips import compat

    def configure(**options):
        for name, value in options.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__{name.upper()}", str(value))
        compat.start_stats()

    yield configure
    from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger

    initialize = Stats.initialize
    initialize(factory=NoStatsLogger, **({"export_legacy_names": False} if compat.HAS_3_3 else {}))


class Receiver:
    """A StatsD server that notes what it receives."""

    def __init__(self):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.2)
        self.port = self._socket.getsockname()[1]

    def lines(self):
        """Everything received since the last call, of this package."""
        found = []
        while True:
            try:
                found += self._socket.recv(65536).decode().splitlines()
            except TimeoutError:
                return [line for line in found if line.startswith("airflow.ips.")]

    def values(self):
        """The last ones by name."""
        return {name: values[-1] for name, values in self.values_in_order().items()}

    def values_in_order(self):
        """All by name."""
        found: dict[str, list[tuple[float, str]]] = {}
        for parsed in (re.fullmatch(r"airflow\.(.+?):(.+)\|(\w+)", line) for line in self.lines()):
            if parsed:
                found.setdefault(parsed[1], []).append((float(parsed[2]), parsed[3]))
        return found

    def close(self):
        self._socket.close()


@pytest.fixture
def statsd(configured):
    """Plain StatsD, as Airflow's documentation sets it up."""
    receiver = Receiver()
    configured(statsd_on=True, statsd_host="127.0.0.1", statsd_port=receiver.port, statsd_prefix="airflow")
    yield receiver
    receiver.close()


def test_a_run_sends_what_it_captured_and_committed(statsd, events, job, run_dag):
    """The second run: how much had come, what was taken of it and saved, and that it was committed."""
    dag = incremental("measured", "db.events", job)
    run_dag(dag)
    append(events, [4, 5])
    statsd.lines()

    run_dag(dag)

    sent = statsd.values_in_order()
    found = {name: values[0] for name, values in sent.items()}
    of_table = "measured__capture.db__events"
    size = found[f"ips.capture.bytes.{of_table}"][0]
    assert {name: value for name, value in found.items() if "seconds" not in name and "duration" not in name} == {
        f"ips.capture.files.{of_table}": (1, "c"),
        f"ips.capture.records.{of_table}": (2, "c"),
        f"ips.capture.bytes.{of_table}": (size, "c"),
        f"ips.capture.bytes_avoided.{of_table}": (found[f"ips.capture.bytes_avoided.{of_table}"][0], "c"),
        f"ips.lag.commits.{of_table}": (1, "g"),
        f"ips.lag.records.{of_table}": (2, "g"),
        f"ips.lag.bytes.{of_table}": (size, "g"),
        "ips.pending.age.measured__capture": (0, "g"),
        "ips.commit.advanced.measured__capture": (1, "c"),
    }
    assert found["ips.capture.duration.measured__capture"][1] == "ms"
    assert 0 < found[f"ips.lag.seconds.{of_table}"][0] < 600
    assert {values[1] for name, values in sent.items() if "ips.lag" in name} == {(0, "g")}, "nothing is left to process"
    assert timedelta(days=4) < timedelta(seconds=found[f"ips.runway.seconds.{of_table}"][0]) < timedelta(days=5)


def test_a_first_run_has_no_lag(statsd, events, job, run_dag):
    """Nothing was processed yet, so nothing says since when rows wait: that is unknown, and not zero."""
    job.fails = True
    run_dag(incremental("measured_first", "db.events", job))
    assert not [line for line in statsd.lines() if "ips.lag" in line or "ips.runway" in line]


def test_a_breach_of_the_target_is_sent_until_it_is_over(statsd, events, job, run_dag):
    """By the capture that finds old rows, and as kept by its commit; nothing is sent of a consumer without a target."""
    dag = incremental("measured_target", "db.events", job, capture={"target_lag": timedelta(seconds=1)})
    run_dag(dag)
    append(events, [4])
    written_ms = events.refresh().current_snapshot().timestamp_ms
    while now_ms() - written_ms <= 1000:
        pass
    statsd.lines()
    run_dag(dag)
    sent = {name: values for name, values in statsd.values_in_order().items() if ".target." in name}
    assert sent == {"ips.target.breached.measured_target__capture": [(1, "g"), (0, "g")]}


def test_a_first_commit_leaves_no_lag(statsd, events, job, run_dag):
    """All that its capture saw is processed."""
    run_dag(incremental("measured_commit", "db.events", job))
    assert statsd.values()["ips.lag.seconds.measured_commit__capture.db__events"] == (0, "g")


def test_the_lag_goes_on_beyond_the_end_of_a_limited_range(statsd, events, job, run_dag):
    """What the limit leaves is lag, and still is after the commit."""
    dag = incremental("measured_part", "db.events", job, capture={"max_snapshots": 1})
    run_dag(dag)
    for number in (4, 5):
        append(events, [number])
    statsd.lines()
    run_dag(dag)
    sent = statsd.values_in_order()
    assert sent["ips.lag.commits.measured_part__capture.db__events"] == [(2, "g"), (1, "g")]
    assert sent["ips.lag.records.measured_part__capture.db__events"] == [(2, "g"), (1, "g")]


def test_a_capture_says_for_how_long_the_one_before_it_is_pending(statsd, events, job, run_dag):
    """The job of that one failed, so nothing was committed."""
    job.fails = True
    dag = incremental("measured_failure", "db.events", job)
    for _ in range(2):
        statsd.lines()
        run_dag(dag)
    found = statsd.values()
    assert found["ips.pending.age.measured_failure__capture"][0] > 0
    assert not [name for name in found if name.startswith("ips.commit.")]


def test_a_commit_without_evidence_is_counted_as_refused(statsd, events, job, run_dag):
    """Whatever the error of this package is."""
    dag = incremental("measured_refusal", "db.events", job, commit={"verify_target": "db.events"})
    ran = run_dag(dag)
    assert isinstance(ran.errors["commit"], EvidenceError)
    assert statsd.values()["ips.commit.refused.measured_refusal__capture"] == (1, "c")


def test_tags_are_sent_where_the_backend_has_them(configured):
    """InfluxDB's form of StatsD: one name for all consumers; characters that it reads as syntax are replaced."""
    receiver = Receiver()
    configured(statsd_on=True, statsd_host="127.0.0.1", statsd_port=receiver.port, statsd_influxdb_enabled=True)
    send([Measurement("ips.lag.commits", 7, "daily, ä=b.capture", "db.t@x", {"kind": "range"})])
    (line,) = receiver.lines()
    receiver.close()
    assert line == "airflow.ips.lag.commits,consumer=daily____b.capture,table=db.t_x,kind=range:7|g"


def test_open_telemetry_gets_tags(configured, monkeypatch):
    """Airflow's client of it, with a reader in memory in place of the exporter."""
    from airflow.sdk._shared.observability.metrics.otel_logger import SafeOtelLogger
    from airflow.sdk.observability.stats import Stats
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from airflow_provider_ips import compat

    reader = InMemoryMetricReader()
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
    initialize = Stats.initialize
    initialize(
        factory=lambda: cast("Any", SafeOtelLogger(MeterProvider([reader]))),
        **({"export_legacy_names": True} if compat.HAS_3_3 else {}),
    )
    send(Measurement(name, 3, "daily.capture", "db.t") for name in METRICS)
    collected: Any = reader.get_metrics_data()
    (scope,) = collected.resource_metrics[0].scope_metrics
    assert {metric.name for metric in scope.metrics} == {f"airflow.{name}" for name in METRICS}
    tags = [dict(point.attributes) for metric in scope.metrics for point in metric.data.data_points if point.attributes]
    assert tags == [{"consumer": "daily.capture", "table": "db.t"}] * len(METRICS)


def test_nothing_is_made_without_a_backend():
    """What a metric needs is not even computed."""

    send(Measurement(name, pytest.fail("the values are not needed")) for name in METRICS)


def test_what_is_unknown_is_not_sent(statsd):
    send([Measurement("ips.capture.records", None, "a.b", "db.t"), Measurement("ips.capture.files", 0, "a.b", "db.t")])
    assert statsd.lines() == ["airflow.ips.capture.files.a__b.db__t:0|c"]


def test_names_of_any_length_are_legal(statsd):
    """StatsD's client drops longer names than 250 characters; two long consumers keep names of their own."""
    consumers = [f"{'x' * 240}.{end}" for end in "ab"]
    send(Measurement("ips.capture.bytes_avoided", 1, consumer, "n" * 200) for consumer in consumers)
    names = {line.partition(":")[0] for line in statsd.lines()}
    assert len(names) == 2
    assert max(map(len, names)) <= 250


def test_a_backend_that_fails_stops_no_task(configured, events, job, run_dag, monkeypatch, caplog):
    """A host that does not exist, and a client that raises: the run succeeds, and the log says what is missing."""
    configured(statsd_on=True, statsd_host="nowhere.invalid")
    assert set(run_dag(incremental("measured_nowhere", "db.events", job)).states.values()) == {"success"}

    def fail(name):
        raise OSError("no route to host")

    monkeypatch.setattr(metrics, "_part", fail)
    configured(statsd_host="127.0.0.1")
    append(events, [4])
    assert set(run_dag(incremental("measured_nowhere", "db.events", job)).states.values()) == {"success"}
    assert "Metrics were not sent: OSError" in caplog.text


def test_every_metric_has_its_kind():
    assert set(METRICS.values()) == set(Kind)
    assert all(re.fullmatch(r"ips\.[a-z]+\.[a-z_]+", name) for name in METRICS)


def test_every_metric_is_on_its_page_with_its_kind_and_tags():
    """In the order in which they are sent."""
    rows = re.findall(r"^\| `(ips\.[a-z_.]+)` \| (\w+) \|", (ROOT / "docs/how-to/metrics.md").read_text(), re.MULTILINE)
    assert rows == [(name, kind.value) for name, kind in METRICS.items()]


def test_the_exporter_maps_every_metric_to_one_that_dashboard_and_alerts_read():
    """With tags and without; a metric that no panel shows, or a panel without a metric, would stay empty unnoticed."""
    folder = ROOT / "docker/metrics"
    rules = yaml.safe_load((folder / "statsd_exporter.yaml").read_text())["mappings"]

    def mapped(name):
        globs = {rule["match"]: re.escape(rule["match"]).replace(r"\*", "([^.]+)") for rule in rules}
        patterns = ((rule, rule["match"] if "match_type" in rule else globs[rule["match"]]) for rule in rules)
        rule, found = next((rule, f) for rule, pattern in patterns if (f := re.fullmatch(pattern, name)))
        return re.sub(r"\$\{?(\d)\}?", lambda group: found[int(group[1])], rule["name"])

    without_tags = {mapped(f"airflow.{name}{'' if '.gc.' in name else dims(name)}") for name in METRICS}
    with_tags = {mapped(f"airflow.{name}") for name in METRICS}
    shown = (folder / "dashboard.json").read_text() + (folder / "alerts.yaml").read_text()
    read = {re.sub(r"_(bucket|count)$", "", name) for name in re.findall(r"airflow_ips_\w+", shown)}
    assert with_tags == without_tags == read


def dims(name):
    has_table = name.startswith(("ips.capture", "ips.lag", "ips.runway")) and not name.endswith("duration")
    return ".daily__capture.db__t" if has_table else ".daily__capture"
