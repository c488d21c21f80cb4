"""The lake of the sampled histories, on the Spark driver that other tests of the worker may have started already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.system.histories.lake import open_lake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.system.histories.lake import Lake


@pytest.fixture(scope="session")
def histories_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Mark users with ``xdist_group("spark")``, so that one worker starts one driver."""
    lake = open_lake(tmp_path_factory.mktemp("histories"))
    yield lake
    lake.spark.stop()
