"""The docstrings of the public names, for the page ``docs/reference/api.md``."""

from __future__ import annotations

import importlib
import re
from typing import Final

from scripts.docs_site.navigation import ROOT

MARK: Final = "<!-- make docs writes the docstrings here -->"
_ROW: Final = re.compile(r"^\| `(?P<module>airflow_provider_ips[\w.]*)` \| (?P<names>.+) \|$", re.MULTILINE)
_NAME: Final = re.compile(r"`([A-Za-z_]\w*)`")
_SHOWS_MEMBERS: Final = ("airflow_provider_ips.hooks", "airflow_provider_ips.testing")
"""An operator's methods are Airflow's, and an error's facts are in its message."""


def public_names() -> dict[str, tuple[str, ...]]:
    """Each module and what users import from it, as the page of public names says it; or all that it exports."""
    text = (ROOT / "docs" / "reference" / "public-names.md").read_text()
    found = {match["module"]: tuple(_NAME.findall(match["names"])) for match in _ROW.finditer(text)}
    named = {name for names in found.values() for name in names}
    return {module: names or tuple(_rest(module, named)) for module, names in found.items()}


def _rest(module: str, named: set[str]) -> list[str]:
    """All that a module exports, without what has its place elsewhere on the page."""
    return [name for name in importlib.import_module(module).__all__ if name not in named]


def reference() -> str:
    """What Sphinx turns into the page."""
    return "\n".join(_module(module, names) for module, names in public_names().items())


def _module(module: str, names: tuple[str, ...]) -> str:
    home = importlib.import_module(module)
    return "\n".join([f"## `{module}`\n", *(_entry(module, name, getattr(home, name)) for name in names)])


def _entry(module: str, name: str, value: object) -> str:
    directive = "autoclass" if isinstance(value, type) else "autofunction"
    members = ["   :members:"] if directive == "autoclass" and module.startswith(_SHOWS_MEMBERS) else []
    return "\n".join([f"### {name}\n", "```{eval-rst}", f".. {directive}:: {module}.{name}", *members, "```", ""])
