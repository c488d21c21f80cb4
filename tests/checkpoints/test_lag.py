"""`airflow ips lag`: what was seen, when that was, and an exit code that a monitor can trust."""

# ruff: noqa: AIR311 - the rows in the database are the subject

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest
from airflow.models import Variable

from airflow_provider_ips import sightings
from airflow_provider_ips.checkpoints.variable import ServerVariables
from airflow_provider_ips.core.sightings.consumer_sighting import SeenBy
from airflow_provider_ips.runs.environment import now_ms
from tests.checkpoints.test_cli import ips
from tests.kit.airflow import HOME
from tests.kit.pipelines import incremental
from tests.kit.tables import append, create

__all__ = ["ips"]
pytestmark = pytest.mark.usefixtures("airflow_database")


@pytest.fixture(autouse=True)
def _alone(airflow_database):
    """The command shows all consumers, and tests in other files leave theirs."""
    for key in ServerVariables().keys(prefix="ips_"):
        Variable.delete(key)


@pytest.fixture
def late(events, job, run_dag):
    """A consumer with a target of an hour, of which the table has gained rows since its run."""
    run_dag(incremental("late", "db.events", job, capture={"target_lag": timedelta(hours=1)}))
    append(events, [4, 5])
    return "late.capture"


def shift(consumer, **times):
    """Change when something was seen: no test waits for an hour."""
    variables = ServerVariables()
    sighting = sightings.read_consumer(variables, consumer)
    assert sighting is not None
    (source,) = sighting.sources
    sightings.write(variables, replace(sighting, sources=(replace(source, **times),)))


def lag_of(ips, *words, conn_id="lake"):
    said = ips("lag", "--conn-id", conn_id, *words)
    return said.failure, [{name: number(value) for name, value in row.items()} for row in said.rows]


def number(value):
    """Airflow writes all values of its rows as texts."""
    return int(value) if isinstance(value, str) and value.isdigit() else value


def test_what_a_run_saw_is_shown_without_a_catalog(ips, late):
    """And that it was a run which saw it: what came later is not known, and not needed for an hour."""
    code, (row,) = lag_of(ips, conn_id="no_such_connection")

    assert code == ""
    assert (row["consumer"], row["source"], row["state"]) == (late, "db.events", "kept")
    assert (row["lag_s"], row["commits"], row["target_lag_s"], row["seen_by"]) == (0, 0, 3600, "capture")


def test_looking_now_shows_what_came(ips, late):
    code, (row,) = lag_of(ips, "--look")

    assert (code, row["state"], row["seen_by"]) == ("", "kept", "command")
    assert (row["commits"], row["records"], row["files"]) == (1, 2, 1)
    assert row["lag_s"] < 600
    assert sightings.read_seen(ServerVariables(), late)[0].seen_by is SeenBy.COMMAND, "it is stored"


def test_a_breach_exits_with_1_whenever_it_was_seen(ips, late):
    """The oldest commit grows older without anybody looking."""
    lag_of(ips, "--look")
    seen = sightings.read_seen(ServerVariables(), late)[0].sources[0]
    three_hours = 3 * 3_600_000
    shift(
        late,
        seen_at_ms=now_ms() - three_hours,
        lag=replace(seen.lag, oldest_unprocessed_at_ms=now_ms() - three_hours),
    )

    code, (row,) = lag_of(ips)

    assert (code, row["state"]) == ("1", "breached")
    assert 3 * 3600 <= row["lag_s"] < 3 * 3600 + 60


def test_a_command_that_finds_a_breach_leaves_the_notice_to_the_dag(ips, late, events):
    """It shows it to one person; those who are to be notified are others."""
    variables = ServerVariables()
    (seen,) = sightings.read_seen(variables, late)
    sightings.write(variables, replace(seen, target_lag_s=1))
    while now_ms() - events.refresh().current_snapshot().timestamp_ms <= 1000:
        pass

    assert lag_of(ips, "--look")[0] == "1"
    breach = sightings.read_seen(variables, late)[0].breach
    assert breach is not None
    assert breach.notified_at_ms is None


def test_what_was_seen_too_long_ago_exits_with_2(ips, late):
    """Without lag then; but a commit of an hour ago would be too old by now."""
    shift(late, seen_at_ms=now_ms() - 3_600_001)

    assert lag_of(ips)[0] == "2"
    assert lag_of(ips)[1][0]["state"] == "unknown"


def test_a_checkpoint_that_expiry_may_strand_exits_with_1(ips, late):
    """An hour left, and the oldest commit has waited for ten minutes more."""
    lag_of(ips, "--look")
    seen = sightings.read_seen(ServerVariables(), late)[0].sources[0]
    oldest_ms = now_ms() - 50 * 60_000
    shift(
        late,
        lag=replace(seen.lag, oldest_unprocessed_at_ms=oldest_ms),
        runway_until_ms=now_ms() + 40 * 60_000,
    )

    assert lag_of(ips)[0] == "1"
    assert lag_of(ips)[1][0]["state"] == "stranded soon"


def test_a_gap_exits_with_1(ips, late, lake):
    """Another table has the name now."""
    lake.drop_table("db.events")
    append(create(lake, "db.events"), [1])

    code, (row,) = lag_of(ips, "--look")

    assert (code, row["state"], row["commits"]) == ("1", "gap", None)
    assert "another table now" in row["problem"]


def test_a_consumer_that_was_never_seen_exits_with_2(ips, late):
    """One that is named, and one that only has a checkpoint; it is named apart from the rows."""
    assert lag_of(ips, "--consumer", "lat.capture") == ("2", [])

    ServerVariables().set(sightings.read_seen(ServerVariables(), late)[0].key, "damaged", description="")
    said = ips("lag", "--conn-id", "lake")

    assert said.failure == "2"
    assert late in said.remarks


def test_the_process_exits_with_the_code(late):
    """What a monitor sees, which starts the command."""
    shift(late, seen_at_ms=now_ms() - 3_600_001)

    done = subprocess.run(
        [sys.executable, "-m", "airflow", "ips", "lag", "--output", "json"],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert str(HOME) in os.environ["AIRFLOW_HOME"]
    assert done.returncode == 2, done.stderr
    assert '"state": "unknown"' in done.stdout


def test_a_rewound_consumer_is_unknown_until_somebody_looks(ips, late):
    """What its commit had left is not true any more."""
    run_id = ips("history", "--conn-id", "lake", "--consumer", late).rows[0]["run"].partition("/")[2]
    assert ips("rewind", "--conn-id", "lake", "--consumer", late, "--run-id", run_id, "--yes").failure == ""

    code, (row,) = lag_of(ips)

    assert (code, row["state"], row["commits"], row["seen_by"]) == ("2", "unknown", None, "capture")
