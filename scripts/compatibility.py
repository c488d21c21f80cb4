"""Write tables of versions (``make compatibility``): what is supported into the README, what is tested beside it.

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

README: Final = floors.ROOT / "README.md"
SUPPORT: Final = floors.ROOT / "docs" / "reference" / "versions.md"
BEGIN: Final = "<!-- written by make compatibility, from here -->"
END: Final = "<!-- to here, by make compatibility -->"

PACKAGES: Final = {
    "Apache Airflow": "apache-airflow",
    "Iceberg provider": "apache-airflow-providers-apache-iceberg",
    "Spark provider": "apache-airflow-providers-apache-spark",
    "PyIceberg": "pyiceberg",
}
TESTED_TOGETHER: Final = {
    "Iceberg provider": "apache-airflow-providers-apache-iceberg",
    "Spark provider": "apache-airflow-providers-apache-spark",
    "PyIceberg": "pyiceberg",
    "pyarrow": "pyarrow",
    "SQLAlchemy": "sqlalchemy",
    "PySpark": "pyspark",
}


def table() -> str:
    """What is supported, as Markdown."""
    return _markdown([("", "supported", "tests run with"), *_rows()])


def matrix() -> str:
    """What is tested together: a column for each set of versions."""
    sets = [
        (f"Airflow {airflow}", floors.PYTHON, floors.pins(airflow)) for airflow in sorted(floors.floors(), key=Version)
    ]
    newest = _pinned((floors.ROOT / "constraints.txt").read_text().splitlines())
    oldest_python = _project()["requires-python"].removeprefix(">=")
    sets.append((f"Airflow {newest['apache-airflow']}", oldest_python, newest))
    rows = [("", *(title for title, _, _ in sets)), ("Python", *(python for _, python, _ in sets))]
    for shown, name in TESTED_TOGETHER.items():
        rows.append((shown, *(pins.get(name, "none") for _, _, pins in sets)))
    return _markdown(rows)


def _markdown(rows: list[tuple[str, ...]]) -> str:
    head, *body = rows
    lines = [head, tuple("---" for _ in head), *body]
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in lines)


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((floors.ROOT / "pyproject.toml").read_text())["project"]
    return project


def _rows() -> Iterator[tuple[str, str, str]]:
    project = _project()
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


def written(page: str, table: str) -> str:
    """The page, with the table of now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    for page, current in ((README, table()), (SUPPORT, matrix())):
        page.write_text(written(page.read_text(), current))
    return 0


if __name__ == "__main__":
    sys.exit(main())
