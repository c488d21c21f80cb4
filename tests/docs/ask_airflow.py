"""What Airflow says about the documentation: DAG files, command lines, signatures. JSON in, a JSON file out.

Run in a process of its own, for Airflow reads its home when it is first imported.
"""

import argparse
import contextlib
import importlib
import inspect
import io
import json
import sys
from pathlib import Path
from typing import Any

from airflow.cli import cli_parser
from airflow.dag_processing.dagbag import DagBag

from airflow_provider_ips.get_provider_info import get_provider_info


def load_dags(folder: str) -> dict[str, Any]:
    """Load a folder as the DAG processor does."""
    bag = DagBag(dag_folder=folder, safe_mode=False, load_op_links=False, bundle_path=Path(folder), bundle_name="docs")
    return {
        "errors": {Path(path).name: error for path, error in bag.import_errors.items()},
        "dags": {
            dag_id: {"file": Path(dag.fileloc).name, "tasks": sorted(task.task_id for task in dag.tasks)}
            for dag_id, dag in bag.dags.items()
        },
    }


def check_command(words: list[str]) -> str:
    """What is wrong with a command line; nothing if Airflow accepts it."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            cli_parser.get_parser().parse_args(words)
        except SystemExit:
            return said.getvalue() or "it would print its help and stop"
    return ""


def subcommands() -> dict[str, dict[str, Any]]:
    """Every `airflow ips` command with its options and positionals, and their defaults."""
    group = _choices(cli_parser.get_parser()).get("ips")
    return {name: _arguments(parser) for name, parser in _choices(group).items()} if group else {}


def _choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    [sub] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return sub.choices


def _arguments(parser: argparse.ArgumentParser) -> dict[str, Any]:
    named = {(a.option_strings[-1] if a.option_strings else a.dest): a for a in parser._actions}
    return {name: repr(action.default) for name, action in named.items() if name not in {"--help", "--verbose"}}


def signature(path: str) -> dict[str, str | None]:
    """Parameters and the source text of their defaults; None means required."""
    module, _, name = path.rpartition(".")
    thing = getattr(importlib.import_module(module), name)
    target = thing.__init__ if inspect.isclass(thing) else thing
    return {
        p.name: None if p.default is p.empty else repr(p.default)
        for p in inspect.signature(target).parameters.values()
        if p.name != "self" and p.kind is not p.VAR_KEYWORD
    }


def answer(question: dict[str, Any]) -> dict[str, Any]:
    return {
        **load_dags(question["dags"]),
        "commands": [check_command(words) for words in question["commands"]],
        "subcommands": subcommands(),
        "signatures": {path: signature(path) for path in question["signatures"]},
        "options": get_provider_info()["config"]["ips"]["options"],
    }


if __name__ == "__main__":
    # Into a file: Airflow logs import errors to standard output.
    asked = json.load(sys.stdin)
    Path(asked["answer_to"]).write_text(json.dumps(answer(asked)))
