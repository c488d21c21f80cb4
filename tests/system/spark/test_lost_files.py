"""Spark's maintenance on either side of a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.iceberg import find_losses
from tests.kit.local_tables import files_under
from tests.system.spark.stories import Story

if TYPE_CHECKING:
    from tests.kit.spark import LakeOfTwoEngines

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

REFUSED = (
    "drop table {icdc} purge",
    "call lake.system.expire_snapshots(table => '{bare}', older_than => timestamp'2030-01-01 00:00:00')",
    "call lake.system.remove_orphan_files(table => '{bare}', older_than => timestamp'2026-01-01 00:00:00')",
)
ALLOWED = (
    "insert into {icdc} values (99)",
    "call lake.system.rewrite_manifests(table => '{bare}')",
    "call lake.system.rewrite_data_files(table => '{bare}', options => map('rewrite-all', 'true'))",
    "delete from {icdc} where id = 2",
    "delete from {icdc}",
    "insert overwrite {icdc} values (98)",
    "drop table {icdc}",
)


@pytest.mark.parametrize("format_version", ["2", "3"])
def test_no_statement_on_an_icdc_table_reaches_a_file_of_its_source(
    lake: LakeOfTwoEngines, format_version: str
) -> None:
    """What would delete files is refused, and what is not refused writes beside them. Every file is listed."""
    story = Story(lake, "id int", format_version=format_version, write_delete_mode="merge-on-read")
    first = story.insert("(1)")
    story.run("insert into {t} select /*+ coalesce(1) */ id + 2 from range(3)")
    record = story.capture(first)
    names = {"icdc": f"lake.{record.icdc_table}", "bare": str(record.icdc_table)}
    location = lake.catalog.load_table(story.name).location()
    before = files_under(location)
    for statement in REFUSED:
        with pytest.raises(Exception, match="GC is disabled"):
            lake.spark.sql(statement.format(**names)).collect()
    assert lake.sql(f"select id from {names['icdc']}") == [(2,), (3,), (4,)]
    for statement in ALLOWED:
        lake.spark.sql(statement.format(**names)).collect()
        assert files_under(location) == before, statement
    assert lake.sql(f"select id from {story.table}") == [(1,), (2,), (3,), (4,)]


def test_the_sources_own_orphan_clean_up_spares_what_was_captured(lake: LakeOfTwoEngines) -> None:
    """The ICDC table's files are elsewhere, and the source's are its own."""
    story = Story(lake, "id int")
    story.insert("(1)")
    icdc = story.capture(None).icdc_table
    story.call("remove_orphan_files", "older_than => timestamp'2026-01-01 00:00:00'")
    assert lake.sql(f"select id from lake.{icdc}") == [(1,)]


def test_compaction_and_expiry_before_the_job_reads_are_named(lake: LakeOfTwoEngines) -> None:
    """The job fails on one file; ``find_losses`` names all that are missing, a new capture what can be done."""
    story = Story(lake, "id int")
    first = story.insert("(1)")
    second, third = story.insert("(2)"), story.insert("(3), (4)")
    icdc = str(story.capture(first).icdc_table)
    intact = find_losses(lake.catalog, icdc)
    assert intact is not None
    assert intact.is_intact
    story.call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    story.call("expire_snapshots", "older_than => timestamp'2030-01-01 00:00:00', retain_last => 1")
    with pytest.raises(Exception, match=r"(?i)FILE_NOT_EXIST|does not exist|FileNotFound"):
        lake.spark.sql(f"select id from lake.{icdc}").collect()
    losses = find_losses(lake.catalog, icdc)
    assert losses is not None
    assert {file.snapshot_id for file in losses.lost} == {second, third}
    assert sum(file.records for file in losses.lost) == 3
    assert str(losses).startswith(f"{losses.files} of the {losses.files} files of {icdc} no longer exist, with 3 rows")
    with pytest.raises(GapError):
        story.capture(first)
    assert story.captured(None) == [1, 2, 3, 4]
