"""Every metric of this package, described once, and sent by Airflow's own client: StatsD, Datadog or OpenTelemetry.

A backend that has tags gets `ips.lag.seconds` with the tags `consumer` and `table`. Plain StatsD has none, so there a
name ends with them, as names of Airflow do: `ips.lag.seconds.<consumer>.<table>`, with `__` for each dot in them.

Metrics never stop a task: whatever goes wrong with them is logged. What is unknown is not sent, and never as zero.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.identifiers import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

log = logging.getLogger(__name__)

LONGEST_PART: Final = 80
"""Characters of a consumer or table in the name of a metric, of which StatsD takes 250."""


class Kind(StrEnum):
    """What a backend does with the values of a metric: adds them up, shows the last one, or makes a distribution."""

    COUNTER = "counter"
    GAUGE = "gauge"
    TIMER = "timer"


METRICS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys((f"ips.capture.{what}" for what in ("files", "records", "bytes", "bytes_avoided")), Kind.COUNTER),
    "ips.capture.duration": Kind.TIMER,
    **dict.fromkeys(
        (f"ips.commit.{outcome}" for outcome in ("advanced", "replayed", "superseded", "refused")), Kind.COUNTER
    ),
    **dict.fromkeys((f"ips.lag.{what}" for what in ("seconds", "commits", "records", "bytes")), Kind.GAUGE),
    "ips.pending.age": Kind.GAUGE,
    "ips.runway.seconds": Kind.GAUGE,
    "ips.target.breached": Kind.GAUGE,
    "ips.gc.tables": Kind.COUNTER,
    "ips.gc.files": Kind.COUNTER,
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """A value of one metric: a number of files, rows, bytes or seconds, milliseconds for a timer. None is unknown."""

    name: str
    value: float | None
    consumer: str | None = None
    table: str | None = None
    tags: Mapping[str, str] | None = None
    """Tags that a name does not need to tell metrics of different consumers and tables apart."""

    @property
    def parts(self) -> dict[str, str]:
        """Whose metric it is."""
        named = {"consumer": self.consumer, "table": self.table}
        return {tag: _legal(value) for tag, value in named.items() if value is not None}


def send(measurements: Iterable[Measurement]) -> None:
    """Send what is known. Never raises: the values may be made from a table's history while they are sent."""
    try:
        if (has_tags := _has_tags()) is None:
            return
        for measurement in measurements:
            if measurement.value is not None:
                _send(measurement, measurement.value, has_tags=has_tags)
    except Exception as error:
        log.warning("Metrics were not sent: %s", type(error).__name__)
        log.debug("Metrics were not sent", exc_info=True)


def _send(measurement: Measurement, value: float, *, has_tags: bool) -> None:
    # The same functions on Airflow 3.2 and 3.3, under the path that both have for packages beside Airflow.
    from airflow.sdk.observability.stats import Stats

    name, given = measurement.name, dict[str, Any]()
    if has_tags:
        given = {"tags": {**measurement.parts, **(measurement.tags or {})}}
    else:
        name = ".".join((name, *map(_part, measurement.parts.values())))
    match METRICS[measurement.name]:
        case Kind.COUNTER:
            Stats.incr(name, int(value), **given)
        case Kind.GAUGE:
            Stats.gauge(name, value, **given)
        case Kind.TIMER:
            Stats.timing(name, timedelta(milliseconds=value), **given)


def _has_tags() -> bool | None:
    """Whether the backend that Airflow chooses has tags; None without a backend."""
    from airflow.sdk.configuration import conf

    def is_on(option: str) -> bool:
        return bool(conf.getboolean("metrics", option, fallback=False))

    if is_on("statsd_datadog_enabled"):
        return is_on("statsd_datadog_metrics_tags")
    if is_on("statsd_on"):
        return is_on("statsd_influxdb_enabled")
    return True if is_on("otel_on") else None


_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_.-]")


def _legal(text: str) -> str:
    """Replace what the name of a metric may not have by an underscore, as Airflow does for names of its own."""
    return _ILLEGAL.sub("_", text)


def _part(text: str) -> str:
    """Make a part of a name: a dot in it would look like the beginning of the next part."""
    part = text.replace(".", "__")
    return part if len(part) <= LONGEST_PART else f"{part[: LONGEST_PART - 9]}_{digest(text, length=8)}"
