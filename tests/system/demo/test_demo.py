"""`make demo`, small, and what people do after it: `make ui`, `make day` and `make shell`, on what it has left."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from scripts.demo_days import OFFLINE_VIEWS, Days
from scripts.demo_targets import INCREMENTAL, PLAIN, Recomputation, compare
from scripts.lake import Lake
from tests.kit.rest import Rest

SCRIPTS = Path(__file__).parents[3] / "scripts"
CONSUMER = f"{INCREMENTAL}.capture"
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


def run(name, folder, *arguments, timeout=120):
    """Run one of the commands to its end, as `make` does, from another folder."""
    return subprocess.run(
        [sys.executable, SCRIPTS / f"{name}.py", f"--folder={folder}", *arguments],
        cwd=folder.parent,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """One small demo, for all stories."""
    folder = tmp_path_factory.mktemp("here") / "demo"
    done = run("demo", folder, "--days=1", "--rows=400", timeout=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


@contextmanager
def ui(folder):
    """Start the UI over what the demo left; hand over the API, and what was printed."""
    process = subprocess.Popen(
        [sys.executable, SCRIPTS / "ui.py", f"--folder={folder}", "--port=0", "--for-seconds=1200"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        printed = ""
        while "Ctrl-C" not in printed:
            line = process.stdout.readline()
            assert line, printed
            printed += line
        ((address, user, password),) = re.findall(r"(http://127\.0\.0\.1:\d+)\s+login (\S+) / (\S+)", printed)
        rest = Rest(address)
        rest.log_in(user, password)
        yield rest, printed
    finally:
        process.terminate()
        process.communicate(timeout=90)


def test_the_demo_shows_both_and_what_only_the_lookback_loses(demo):
    """Plain lines, for this is no terminal; a table, a drawing, a picture, and the point of it."""
    folder, printed = demo
    assert "\r" not in printed
    assert re.search(r"\d:\d\d +\d/5  .* incremental +\d+ rows", printed)
    assert "The point of it" in printed
    assert f"it has 0 of the {OFFLINE_VIEWS}" in printed
    assert f"it has all {OFFLINE_VIEWS}" in printed
    assert "█" in printed
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in folder.parent.iterdir()) == ["demo"]


def test_days_runs_and_logs_of_the_demo_are_in_the_ui_and_go_on_there(demo):
    """A day arrives while the UI runs; a run processes it; the shell's commands see the same."""
    folder, _ = demo
    with ui(folder) as (rest, printed):
        for command in ("make day", "make shell", f"/dags/{INCREMENTAL}"):
            assert command in printed
        shown = [run_of_demo(rest, dag_id) for dag_id in (PLAIN, INCREMENTAL)]
        assert all(0 < seconds < 1200 for seconds in shown)
        paused = rest.ask("GET", "/dags", params={"paused": False})["dags"]
        assert {dag["dag_id"] for dag in paused} == {PLAIN, INCREMENTAL}

        day = run("day", folder)
        assert day.returncode == 0, day.stderr
        assert f"{OFFLINE_VIEWS} of " in day.stdout
        rest.finish(INCREMENTAL, rest.trigger(INCREMENTAL, "next"), seconds=600)
        record = rest.xcom(INCREMENTAL, "next", "capture", "capture")
        assert record["sources"][0]["records"] == 400 + 400 // 50 + OFFLINE_VIEWS

        shell = run("shell", folder, "-c", f"airflow ips show --consumer {CONSUMER} && airflow ips list", timeout=300)
        assert shell.returncode == 0, shell.stderr
        assert "db.playback" in shell.stdout
        now = datetime.now(UTC).isoformat()  # as the form fills in; without one, the plain DAG has no `ds`
        states = rest.finish(PLAIN, rest.trigger(PLAIN, "next", logical_date=now), seconds=600)
        assert states == {"daily": "success"}
    days = Days.read(folder)
    assert days is not None
    # Those of both days are lost, and only they.
    catalog = Lake.on_sqlite(folder / "lake").catalog()
    assert compare(catalog, days.day(0), Recomputation(catalog).rows()).lost == 2 * OFFLINE_VIEWS


def run_of_demo(rest, dag_id):
    """Look at the last run that the demo made: it has a log, and lasted as long as its tasks. Return its seconds."""
    last = rest.runs(dag_id)[-1]
    assert (last["state"], last["dag_run_id"][:6]) == ("success", "demo__")
    for task_id in rest.tasks(dag_id, last["dag_run_id"]):
        assert len(rest.log(dag_id, last["dag_run_id"], task_id, 1)) > 100, task_id
    tasks = sum(task["duration"] for task in rest.tasks(dag_id, last["dag_run_id"]).values())
    assert tasks <= last["duration"] < tasks + 60
    return last["duration"]


def test_a_shell_and_a_day_without_a_demo_say_what_to_do_first(tmp_path):
    for name in ("shell", "day"):
        refused = run(name, tmp_path / "nothing")
        assert refused.returncode == 1
        assert "run `make demo` or `make ui` first" in refused.stderr
    assert list(tmp_path.iterdir()) == []
