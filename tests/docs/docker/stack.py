"""`docker/compose.yaml` as data: read as Compose would read it, with no engine at hand."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
DOCKER = ROOT / "docker"
RUN_INIT_ENV = "run docker/init-env"

_DOLLAR = re.compile(r"\$\$|\$\{(?P<name>\w+):\?(?P<message>[^}]*)\}|(?P<other>\$.?)")


@dataclass(frozen=True, slots=True)
class Service:
    """One service, with what the file's anchors gave it."""

    name: str
    raw: Mapping[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        return dict(self.raw.get("environment", {}))

    @property
    def waits_for(self) -> dict[str, str]:
        """The condition under which each other service is ready for this one."""
        return {name: terms["condition"] for name, terms in self.raw.get("depends_on", {}).items()}

    @property
    def runs_once(self) -> bool:
        return bool(self.raw["restart"] == "no")

    @property
    def target(self) -> str | None:
        """The stage of the Dockerfile that its image is built from, by this service or by another one."""
        return next((raw["build"]["target"] for raw in _builders() if raw["image"] == self.raw["image"]), None)


def services() -> dict[str, Service]:
    return {name: Service(name, raw) for name, raw in _document()["services"].items()}


def _builders() -> list[Mapping[str, Any]]:
    return [raw for raw in _document()["services"].values() if "build" in raw]


def volumes() -> set[str]:
    return set(_document()["volumes"])


def _document() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return document


def texts(value: object) -> Iterator[str]:
    """Every text in a part of the file, keys aside."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from texts(part)
    elif isinstance(value, str):
        yield value


def variables(text: str) -> set[str]:
    """The variables that a text asks for."""
    return {found["name"] for found in _DOLLAR.finditer(text) if found["name"]}


def messages(text: str) -> set[str]:
    """What Compose says about each variable of a text when it is missing."""
    return {found["message"] for found in _DOLLAR.finditer(text) if found["name"]}


def interpolated(text: str, values: Mapping[str, str]) -> str:
    """Put values for variables, the way Compose does; any other use of a dollar is an error here as it is there."""

    def value(found: re.Match[str]) -> str:
        if found["other"]:
            raise ValueError(f"{found['other']!r} in {text!r} is no ${{NAME:?message}}")
        return values[found["name"]] if found["name"] else "$"

    return _DOLLAR.sub(value, text)


def generated_env(folder: Path) -> dict[str, str]:
    """Run init-env in a folder of its own; what it wrote."""
    script = folder / "init-env"
    if not script.exists():
        shutil.copy(DOCKER / "init-env", script)
    subprocess.run([str(script)], check=True, timeout=60, stdout=subprocess.DEVNULL)
    lines = (folder / ".env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def ask_airflow(question: str, environment: Mapping[str, str], home: Path) -> Any:
    """Put a question of `ask_airflow.py` to an Airflow with this environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "SPARK"))}
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.docker.ask_airflow", question],
        env={**inherited, **environment, "AIRFLOW_HOME": str(home)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
