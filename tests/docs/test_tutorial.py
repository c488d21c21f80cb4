"""The tutorial works: in an empty folder, step by step, with a real Airflow and a real catalog."""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.conftest import clean_environment
from tests.docs.test_blocks import assert_output
from tests.kit.pages import ROOT, blocks

pytestmark = pytest.mark.xdist_group("tutorial")

TUTORIAL = ROOT / "docs/tutorial.md"
MARK = "=== block at line "


def test_the_tutorial_runs_from_an_empty_folder(tmp_path):
    """Files are saved and commands run in the order of the page, and print what it says."""
    steps = [step for step in blocks(TUTORIAL) if step.directive != "install"]
    script = "\n".join(["set -eu", *(as_bash(step) for step in steps)])
    environment = {
        k: v for k, v in clean_environment(tmp_path).items() if not k.startswith(("AIRFLOW", "PYICEBERG", "PYTHONPATH"))
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash"],
        input=script,
        cwd=tmp_path,
        env={**environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    printed = outputs(done.stdout)
    for before, after in pairwise(steps):
        if after.language == "text":
            assert_output(str(after), printed[before.line], after.text)


def as_bash(step):
    if step.directive == "save":
        return f"cat > {step.value} <<'END OF FILE'\n{step.text}END OF FILE"
    if step.language == "bash":
        return f"echo '{MARK}{step.line}'\n{step.text}"
    return ""


def outputs(said):
    parts = re.split(rf"^{MARK}(\d+)\n", said, flags=re.MULTILINE)
    return {int(line): text for line, text in zip(parts[1::2], parts[2::2], strict=True)}
