"""Write the table of versions into the README (``make compatibility``): what is supported, and what tests run with.

Ranges are those of ``pyproject.toml``. The versions that tests run with are in ``constraints.txt`` (all tests), in the
constraints of the floors, and in the list of jars.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from typing import TYPE_CHECKING, Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from scripts import floors
from scripts.spark_jars import JARS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGE: Final = floors.ROOT / "README.md"
BEGIN: Final = "<!-- written by make compatibility, from here -->"
END: Final = "<!-- to here, by make compatibility -->"

PACKAGES: Final = {
    "Apache Airflow": "apache-airflow",
    "Iceberg provider": "apache-airflow-providers-apache-iceberg",
    "Spark provider": "apache-airflow-providers-apache-spark",
    "PyIceberg": "pyiceberg",
}


def table() -> str:
    """The table as Markdown."""
    rows = [("", "supported", "tests run with"), ("---", "---", "---"), *_rows()]
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)


def _rows() -> Iterator[tuple[str, str, str]]:
    project = tomllib.loads((floors.ROOT / "pyproject.toml").read_text())["project"]
    required = {str(canonicalize_name(each.name)): each for each in map(Requirement, project["dependencies"])}
    newest = _pinned((floors.ROOT / "constraints.txt").read_text().splitlines())
    pinned = [*(floors.pins(airflow) for airflow in floors.floors()), newest]
    for shown, name in PACKAGES.items():
        # Constraints of Airflow do not pin Airflow itself.
        ours = floors.floors() if name == "apache-airflow" else ()
        versions = {*ours, *(pins[name] for pins in pinned if name in pins)}
        yield shown, _range(required[name]), ", ".join(sorted(versions, key=Version))
    yield "Python", _pythons(project), ", ".join((project["requires-python"].removeprefix(">="), floors.PYTHON))
    spark = next(each for each in map(Requirement, project["optional-dependencies"]["spark"]))
    yield "Spark", f"any that reads Iceberg; {_range(spark)} with the extra `[spark]`", newest["pyspark"]
    (runtime,) = [jar for jar in JARS if jar.artifact.startswith("iceberg-spark-runtime")]
    yield "Iceberg for Spark", f"any that Spark works with; `{runtime.artifact}` with the extra", runtime.version


def _range(requirement: Requirement) -> str:
    order = sorted(map(str, requirement.specifier), reverse=True)
    return ", ".join(f"`{part}`" for part in order)


def _pythons(project: dict[str, Any]) -> str:
    prefix = "Programming Language :: Python :: 3."
    minors = sorted(int(line.removeprefix(prefix)) for line in project["classifiers"] if line.startswith(prefix))
    return f"3.{minors[0]} to 3.{minors[-1]}"


def _pinned(lines: Iterable[str]) -> dict[str, str]:
    """Read pins. Of a package that is pinned for each Python, the last is for the newest one."""
    pins: dict[str, str] = {}
    for line in lines:
        if not line.startswith("#"):
            pin = Requirement(line)
            pins[canonicalize_name(pin.name)] = str(pin.specifier).removeprefix("==")
    return pins


def written(page: str) -> str:
    """The page, with the table of now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(written(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
