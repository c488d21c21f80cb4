"""The short run of `make test-branches`: one release of Iceberg, the one that is deployed with this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kit.local_tables import new_catalog
from tests.system.branches.history import play
from tests.system.branches.maintenance import OWN, releases

if TYPE_CHECKING:
    from pathlib import Path


def test_captures_in_branches_cost_no_file(tmp_path: Path) -> None:
    """Main keeps its files and rows, and captures theirs, through maintenance, crashes and races in any order."""
    new_catalog(tmp_path)
    with releases(tmp_path, [OWN]) as engines:
        for seed in range(3):
            play(tmp_path, seed, engines, steps=25)
