"""A job that reads a fixed name: the view that its task makes first, as docs/how-to/cookbook.md has it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

from airflow_provider_ips.iceberg import drop_icdc
from tests.system.spark.stories import Story

if TYPE_CHECKING:
    from tests.kit.spark import LakeOfTwoEngines

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

RECIPE = Path(__file__).parents[3] / "dags_examples" / "cookbook" / "fixed_name.py"
VIEW = "lake.db.playback_new"
GONE = (AnalysisException, Py4JJavaError)
[STATEMENT] = re.findall(r'spark-sql -e "(.+?)"', RECIPE.read_text())


@pytest.mark.parametrize("mode", ["ICDC", "BRANCH"])
def test_a_task_that_makes_the_view_and_reads_it_gets_the_rows_of_its_own_run(
    lake: LakeOfTwoEngines, mode: str
) -> None:
    """Also when it is cleared after a later run; and once its capture was removed, it fails, and so does the view."""
    story = Story(lake, "id int")
    since = story.run("insert into {t} values (1)")
    until = story.run("insert into {t} values (2), (3)")
    first = story.capture(since, **({"mode": mode, "into": None} if mode == "BRANCH" else {}))
    story.run("insert into {t} values (4)")
    second = story.capture(until, **({"mode": mode, "into": None} if mode == "BRANCH" else {}))

    def job(captured: str | None) -> list[tuple[object, ...]]:
        lake.spark.sql(STATEMENT.replace("$SOURCE", f"lake.{captured}"))
        return lake.sql(f"SELECT id FROM {VIEW}")

    assert job(first.icdc_table) == [(2,), (3,)]
    assert job(second.icdc_table) == [(4,)]
    assert job(first.icdc_table) == [(2,), (3,)]

    assert first.icdc_table is not None
    drop_icdc(lake.catalog, first.icdc_table)
    with pytest.raises(GONE, match=r"cannot be found|does not exist"):
        lake.sql(f"SELECT id FROM {VIEW}")
    with pytest.raises(GONE, match=r"cannot be found|does not exist"):
        job(first.icdc_table)
