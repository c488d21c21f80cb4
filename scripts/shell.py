"""A shell in which `airflow` is that of `make demo` and `make ui`, whether or not one of them runs."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from scripts.components import Deployment
from scripts.demo_days import FOLDER, Days
from scripts.demo_targets import INCREMENTAL
from scripts.lake import Lake
from scripts.spark_jars import JarsUnavailableError

WELCOME = f"""\
`airflow` is the demo's here. For example:
  airflow ips list
  airflow ips show --consumer {INCREMENTAL}.capture
  airflow dags test {INCREMENTAL} --conf '{{"ips_dry_run": true}}'     (also while the DAG is paused)
`exit` leaves it."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the state is")
    parser.add_argument("-c", "--command", help="run this instead of a shell for a person")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    if Days.read(folder) is None:
        print("shell: there is no Airflow yet to be used; run `make demo` or `make ui` first", file=sys.stderr)
        return 1
    try:
        lake = Lake.on_sqlite(folder / "lake").environment(brief_jobs=False)
    except JarsUnavailableError as error:
        print(f"shell: {error}", file=sys.stderr)
        return 1
    deployment = Deployment.of(folder, lake, port=Deployment.written_port(folder))
    command = ["bash", "-c", arguments.command] if arguments.command else _for_a_person(deployment)
    return subprocess.run(command, env=dict(deployment.environment), check=False).returncode


def _for_a_person(deployment: Deployment) -> list[str]:
    """What a person has set up in theirs, and then ours: theirs may put another Airflow first on the PATH."""
    path = deployment.folder / "shellrc"
    path.write_text(
        "[ -f ~/.bashrc ] && . ~/.bashrc\n"
        f"export PATH={shlex.quote(deployment.environment['PATH'])}\n"
        "PS1='(demo) \\w \\$ '\n"
    )
    print(WELCOME, flush=True)
    return ["bash", "--rcfile", str(path), "-i"]


if __name__ == "__main__":
    sys.exit(main())
