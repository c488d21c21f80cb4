"""What was measured, when and where, as a document that the documentation's figures come from."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Self

from benchmarks.measurements import Case

PUBLISHED: Final = Path(__file__).resolve().parent / "results.json"


@dataclass(slots=True, kw_only=True)
class Results:
    """Cases by name; one that is measured again replaces what was there."""

    cases: dict[str, Case] = field(default_factory=dict)
    histories: dict[str, Case] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a file, or nothing yet."""
        if not path.exists():
            return cls()
        document = json.loads(path.read_text())
        found = {kind: [Case.parse(case) for case in document[kind]] for kind in ("cases", "histories")}
        return cls(**{kind: {case.name: case for case in cases} for kind, cases in found.items()})

    def write(self, path: Path) -> None:
        """As JSON that a person can compare with the one before."""
        document = {
            "cases": [asdict(case) for case in self.cases.values()],
            "histories": [asdict(case) for case in self.histories.values()],
        }
        path.write_text(json.dumps(document, indent=2) + "\n")


def circumstances() -> dict[str, Any]:
    """When and where, and how busy the machine was with other things."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "java": _java(),
        "pyiceberg": version("pyiceberg"),
    }


def _cpu() -> str:
    facts = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.+)$", facts.read_text(), re.MULTILINE) if facts.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def _java() -> str | None:
    try:
        output = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    except FileNotFoundError:
        return None
    found = re.search(r'version "([^"]+)"', output)
    return found[1] if found else None
