"""Continuous integration installs packages of the machine in a step that can be left out, and says which."""

import re
import shutil
import signal
import subprocess
import time
from itertools import takewhile
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("bash", "cat", "dirname", "mktemp", "rm", "sed", "sleep")
NOTES = 'echo "$0 $*" >>"$CALLED"; exit 0'


@pytest.fixture
def machine(tmp_path):
    """Run a copy of the scripts where only these programs are, and the ones whose calls are noted."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in TOOLS:
        (programs / tool).symlink_to(shutil.which(tool))
    called = tmp_path / "called"

    def run(script, *arguments, having=(), make="", until=None):
        """Run it; a program ``make`` does this, and a signal is sent as soon as this target is called."""
        called.write_text("")
        for name in ("apt-get", "sudo", *having, *(["make"] if make else [])):
            does = make if name == "make" else ""
            (programs / name).write_text(f"#!{shutil.which('bash')}\n{does}\n{NOTES}\n")
            (programs / name).chmod(0o755)
        process = subprocess.Popen(
            [tmp_path / ".ci" / script, *arguments],
            env={"PATH": str(programs), "CALLED": str(called)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started = []
        if until:
            while until not in called.read_text():
                time.sleep(0.01)
            started = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
        assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in started)
        return done, [line.removeprefix(f"{programs}/") for line in called.read_text().splitlines()]

    return run


def test_a_list_of_what_is_missing_installs_nothing(machine):
    listed, called = machine("install", "--list")

    assert listed.returncode == 0, listed.stderr
    assert {"python3", "python3-venv", "openjdk-17-jdk-headless", "chromium", "make"} <= set(listed.stdout.split())
    assert called == []


def test_what_is_installed_is_said_before(machine):
    wanted = machine("install", "--list")[0].stdout.split()
    installed, called = machine("install")

    assert installed.returncode == 0, installed.stderr
    assert re.fullmatch(rf"installing by (sudo )?apt-get: {' '.join(wanted)}\n", installed.stdout)
    assert called[-1].endswith(f"install -qq --no-install-recommends {' '.join(wanted)}")


def test_without_the_step_nothing_is_installed_and_what_is_missing_is_said_at_once(machine):
    stopped, called = machine("run", "--no-install", having=["make"])

    assert stopped.returncode == 1
    assert ".ci/run: missing: python3 python3-venv openjdk-17-jdk-headless" in stopped.stderr
    assert called == []


def test_what_answers_early_installs_nothing(machine):
    answered, called = machine("run", "--fast", having=["make"])

    assert answered.returncode == 0, answered.stderr
    assert called == ["make env", "make jars", "make quick"]


def test_everything_calls_targets_that_there_are(machine):
    """What answers early comes first."""
    everything, called = machine("run", having=["make"])
    calls = [call.split()[1:] for call in called if call.startswith("make ")]
    targets = [word for call in calls for word in takewhile(lambda word: "=" not in word, call)]
    there_are = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)

    assert everything.returncode == 0, everything.stderr
    assert targets[:3] == ["env", "jars", "quick"]
    assert {"test-components", "test-browser"} < set(targets) <= set(there_are)


def test_tests_come_last(machine):
    """Their summary closes the output."""
    everything, called = machine("run", make='echo "make $1 ran"')

    assert called[-1].startswith("make test ")
    assert re.search(r"== tests \(\d+ s\)\nmake test ran\n\Z", everything.stdout)


def test_a_step_that_fails_beside_others_fails_the_run_and_shows_its_output(machine):
    failed, called = machine("run", make='[[ $1 != soak ]] || { echo "a row is lost" >&2; exit 3; }')

    assert failed.returncode == 3
    assert failed.stdout.endswith("a row is lost\n")
    assert "make test DONE=core package" not in called


def test_a_step_that_fails_ends_what_runs_beside_it(machine):
    failed, called = machine("run", make="case $1 in soak) sleep 60 ;; floors) exit 4 ;; esac")

    assert failed.returncode == 4
    assert called[-1] == "make test-topology"


def test_no_process_outlives_a_run_that_is_stopped(machine):
    sleeps = 'case $1 in soak | floors) echo "$1 sleeps" >>"$CALLED"; sleep 60 ;; esac'
    stopped, called = machine("run", make=sleeps, until="floors sleeps")

    assert stopped.returncode == 143
    assert {"soak sleeps", "floors sleeps"} <= set(called)
    assert not any(call.startswith("make test ") for call in called)
