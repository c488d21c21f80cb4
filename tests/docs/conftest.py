import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import dropwhile, groupby
from pathlib import Path

import pytest

from tests.kit.pages import ROOT, all_blocks

HERE = Path(__file__).parent
SIGNATURES = (
    "airflow_provider_ips.IpCaptureOperator",
    "airflow_provider_ips.IpCommitOperator",
    "airflow_provider_ips.IpBackfillOperator",
    "airflow_provider_ips.IcebergAppendSensor",
    "airflow_provider_ips.SourceTable",
    "airflow_provider_ips.core.settings.CaptureSettings",
    "airflow_provider_ips.iceberg.capture",
    "airflow_provider_ips.iceberg_asset",
)


def clean_environment(folder: Path) -> dict[str, str]:
    """An Airflow and a lake that nobody has touched yet."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PYICEBERG", "PYTEST"))}
    return {
        **kept,
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PYTHONPATH": str(ROOT),
        "PYICEBERG_HOME": str(folder),
        "PYICEBERG_CATALOG__LAKE__TYPE": "sql",
        "PYICEBERG_CATALOG__LAKE__URI": f"sqlite:///{folder}/lake.db",
        "PYICEBERG_CATALOG__LAKE__WAREHOUSE": f"{folder}/warehouse",
    }


def command_lines(script: str) -> Iterator[list[str]]:
    """The simple commands of a script, without comments and leading assignments."""
    bare = re.sub(r"(^|\s)#\s.*$", "", script, flags=re.MULTILINE).replace("\\\n", " ")
    lexer = shlex.shlex(bare, posix=True, punctuation_chars=";&|\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    for ends, words in groupby(lexer, key=lambda word: set(word) <= set(";&|\n")):
        command = list(dropwhile(lambda word: re.match(r"\w+=", word), words))
        if command and not ends:
            yield command


def documented_commands() -> list[tuple[str, list[str]]]:
    """Every command line of every bash block, and where it stands."""
    return [(str(block), words) for block in all_blocks("bash", "sh") for words in command_lines(block.text)]


@pytest.fixture(scope="session")
def run_page(tmp_path_factory) -> Callable[[str], dict[int, str]]:
    """Run a page's Python blocks; what each printed, by its line."""

    def run(page: str) -> dict[int, str]:
        folder = tmp_path_factory.mktemp("page")
        done = subprocess.run(
            [sys.executable, str(HERE / "run_page.py"), page],
            cwd=folder,
            env=clean_environment(folder),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{page} does not run:\n{done.stderr}"
        return {int(line): said for line, said in json.loads(done.stdout).items()}

    return run


@pytest.fixture(scope="session")
def airflow_says(tmp_path_factory):
    """What Airflow makes of all DAG blocks and command lines, asked once."""
    folder = tmp_path_factory.mktemp("docs_airflow")
    dags = folder / "dags"
    dags.mkdir()
    for block in all_blocks("python"):
        if block.is_dag_file and block.directive is None:
            (dags / dag_file_name(block)).write_text(block.text)
    question = {
        "answer_to": str(folder / "answer.json"),
        "dags": str(dags),
        "commands": [words[1:] for _, words in documented_commands() if words[0] == "airflow"],
        "signatures": SIGNATURES,
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "ask_airflow.py")],
        input=json.dumps(question),
        cwd=folder,
        env=clean_environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "answer.json").read_text())


def dag_file_name(block) -> str:
    return f"{block.page.replace('/', '_').removesuffix('.md')}_{block.line}.py"
