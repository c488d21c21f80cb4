"""Nessie's REST shows each table's current snapshot, without parent and log. Numbers and manifests must do."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import requests

from airflow_provider_ips.core.errors import GapError, UnsupportedTableError
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.iceberg import capture
from tests.kit.lakes import ordered, rows_of

if TYPE_CHECKING:
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.results.capture_record import SourceRecord
    from tests.kit.lakes import Lake, Row, Source

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.xdist_group("catalogs")]

MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
NOT_MERGING = {"commit.manifest-merge.enabled": "false"}


@pytest.fixture
def lake(all_lakes: dict[str, Lake]) -> Lake:
    """Nessie alone."""
    return all_lakes["nessie"]


class Consumer:
    """Captures run after run, each from where the last one ended."""

    def __init__(self, source: Source, **settings: Any) -> None:
        self.source = source
        self.settings = {"on_gap": "resync", **settings}
        self.position: Position | None = None
        self._runs = itertools.count()

    def run(self, **settings: Any) -> tuple[SourceRecord, list[Row]]:
        """One run: its record, and the rows that both engines read of its ICDC table."""
        into = f"run{next(self._runs)}"
        record = self.source.capture(into, since=self.position, **{**self.settings, **settings})
        self.position = record.to_inclusive
        return record, self.source.captured(into) if record.icdc_table else []


def test_nothing_but_the_head_is_shown(source: Source) -> None:
    """What the rest of this file rests on: should Nessie learn to show more, these tests test something else."""
    source.append(1)
    source.append(2)
    (only,) = source.table.metadata.snapshots
    assert (only.parent_snapshot_id, only.sequence_number) == (None, 2)


@pytest.mark.parametrize("properties", [NOT_MERGING, MERGING], ids=["plain", "merging"])
def test_run_after_run_captures_what_was_appended_once(lake: Lake, namespace: str, properties: dict[str, str]) -> None:
    """By both engines, one commit or several at a time, also one without rows, with manifests merged or not."""
    source = lake.source(namespace, **properties)
    consumer = Consumer(source)
    numbers = itertools.count(1)
    ledger = []
    for writers in ("append", "insert append", "nothing", "append nothing", "nothing append insert", "append append"):
        appended: list[Row] = []
        for writer in writers.split():
            if writer == "nothing":
                source.sql("INSERT INTO {table} SELECT * FROM {table} WHERE id < 0")
            else:
                appended += getattr(source, writer)(next(numbers), next(numbers))
        record, rows = consumer.run()
        assert rows == ordered(appended), writers
        assert record.captured.records == len(appended)
        ledger += appended
    assert ordered(ledger) == source.lake.read(source.name)


def test_after_compaction_rows_come_again_and_the_record_says_so(source: Source) -> None:
    """Old rows got new files. None is lost."""
    consumer = Consumer(source)
    source.append(1, 2)
    consumer.run()
    source.append(3)
    source.compact()
    source.append(4)
    record, rows = consumer.run()
    assert rows == ordered(rows_of(1, 2, 3, 4))
    assert "a superset" in record.warnings[-1]
    source.append(5)
    assert consumer.run()[1] == rows_of(5)


def test_compaction_right_behind_the_checkpoint_loses_nothing(source: Source) -> None:
    """Spark hands the number of the compacted rows on to the new files: it is not above the checkpoint's."""
    consumer = Consumer(source)
    source.append(1)
    source.append(2)
    consumer.run()
    source.compact()
    appended = source.append(3)
    _, rows = consumer.run()
    assert set(appended) <= set(rows) <= set(source.lake.read(source.name))


def test_rewritten_manifests_still_tell(source: Source) -> None:
    """The snapshot that added a file stays with its entry."""
    consumer = Consumer(source)
    source.append(1)
    source.insert(2)
    consumer.run()
    source.sql(f"CALL {{catalog}}.system.rewrite_manifests('{source.name}')")
    appended = ordered(source.append(3), source.insert(4))
    assert consumer.run()[1] == appended


def test_the_gap_names_its_choices_with_files_and_bytes(source: Source) -> None:
    """Without ``on_gap`` nothing is captured."""
    consumer = Consumer(source, on_gap="fail")
    source.append(1, 2, 3)
    consumer.run()
    source.append(4)
    with pytest.raises(GapError, match="is not in the lineage") as gap:
        consumer.run()
    remedy = gap.value.remedy
    snapshot = source.table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    size = snapshot.summary["total-files-size"]
    assert f"on_gap='full' captures the whole table (4 files, {size} bytes; no loss; a superset" in remedy
    assert "on_gap='resync' captures the live files newer than sequence number 1 (1 file, " in remedy
    assert consumer.run(on_gap="resync")[1] == rows_of(4)


class TestRollback:
    """A branch of Nessie set back to an earlier commit: the table's numbers start again from there."""

    @pytest.fixture
    def consumer(self, source: Source, nessie: str) -> Consumer:
        """It has seen the rows 1 to 3. Row 3 was removed since, and 4 to 6 were added with numbers from 3 on."""
        consumer = Consumer(source)
        source.append(1)
        source.append(2)
        kept = self.tip(nessie)
        source.append(3)
        consumer.run()
        api = nessie.removesuffix("/iceberg")
        back = {"type": "BRANCH", "name": "main", "hash": kept}
        answer = requests.put(f"{api}/api/v2/trees/main@{self.tip(nessie)}?type=BRANCH", json=back, timeout=30)
        answer.raise_for_status()
        assert source.lake.read(source.name) == rows_of(1, 2)
        for number in (4, 5, 6):
            source.append(number)
        return consumer

    @staticmethod
    def tip(nessie: str) -> str:
        """The newest commit of the whole catalog."""
        reference = requests.get(f"{nessie.removesuffix('/iceberg')}/api/v2/trees/main", timeout=30).json()
        return str(reference["reference"]["hash"])

    def test_resync_is_refused(self, consumer: Consumer) -> None:
        """Row 4 has the number of the lost row 3: by number it would never be captured."""
        with pytest.raises(GapError, match="not known to be its ancestor") as gap:
            consumer.run()
        assert "on_gap='full'" in gap.value.remedy

    def test_full_takes_what_is_there(self, consumer: Consumer) -> None:
        """And the consumer goes on from it."""
        record, rows = consumer.run(on_gap="full")
        assert (record.kind, rows) == (Kind.FULL, ordered(rows_of(1, 2, 4, 5, 6)))
        appended = consumer.source.append(7)
        assert consumer.run()[1] == appended


def test_a_table_made_again_under_its_name_is_another_table(source: Source) -> None:
    """Whatever its numbers."""
    consumer = Consumer(source)
    source.append(1)
    consumer.run()
    source.lake.catalog.drop_table(source.name)
    again = source.lake.source(source.name.partition(".")[0])
    again.append(1)
    again.append(2)
    with pytest.raises(GapError, match="another table"):
        consumer.run()
    assert consumer.run(on_gap="full")[1] == ordered(rows_of(1, 2))


def test_a_consumer_that_began_on_the_empty_table_takes_all_that_came(source: Source) -> None:
    """However many commits that took."""
    consumer = Consumer(source)
    assert consumer.run()[0].kind is Kind.EMPTY
    appended = ordered(source.append(1), source.insert(2), source.append(3))
    assert consumer.run()[1] == appended


class TestFirstRuns:
    """``initial``, where only the head can be found."""

    def test_latest_starts_from_now(self, source: Source) -> None:
        """What comes after it is captured."""
        source.append(1)
        consumer = Consumer(source, initial="latest")
        assert consumer.run()[0].kind is Kind.EMPTY
        assert consumer.run()[0].kind is Kind.EMPTY
        appended = source.append(2)
        assert consumer.run()[1] == appended

    def test_the_heads_id_or_a_time_behind_it_is_now(self, source: Source) -> None:
        """Both are in the history that is shown."""
        source.append(1)
        later = (datetime.now(tz=UTC) + timedelta(days=1)).isoformat()
        for initial in (str(source.head), later):
            assert Consumer(source, initial=initial).run()[0].to_inclusive.snapshot_id == source.head

    def test_anything_older_is_refused(self, source: Source) -> None:
        """It is not guessed."""
        source.append(1)
        first = source.head
        source.append(2)
        with pytest.raises(GapError, match="not in the lineage"):
            Consumer(source, initial=str(first)).run()
        with pytest.raises(GapError, match="before the retained history"):
            Consumer(source, initial="2020-01-01T00:00:00+00:00").run()

    def test_since_a_snapshot_that_is_not_shown(self, source: Source) -> None:
        """Its number is in the manifest that it wrote; one that wrote none cannot be placed."""
        source.append(1)
        first = source.head
        appended = source.append(2)
        with pytest.raises(GapError, match="on_gap='resync' captures"):
            source.capture(since=first)
        source.capture(since=first, on_gap="resync")
        assert source.captured() == appended
        with pytest.raises(GapError, match="4711 is not in the lineage"):
            source.capture(since=4711, on_gap="resync")


def test_changes_cannot_be_told_from_numbers(source: Source) -> None:
    """Which rows were removed is in the history alone, so all three operations need ``full``."""
    consumer = Consumer(source, data_operations=("append", "overwrite", "delete"), on_superset="allow")
    source.insert(1, 4)
    assert consumer.run()[1] == ordered(rows_of(1, 4))
    source.sql("DELETE FROM {table} WHERE id = 1")
    with pytest.raises(GapError, match="cannot be resynchronised") as gap:
        consumer.run()
    assert "on_gap='full'" in gap.value.remedy
    assert consumer.run(on_gap="full")[1] == rows_of(4)


@pytest.mark.parametrize("settings", [{"mode": "BRANCH"}, {"hold_source": True}], ids=["branch", "held"])
def test_no_branch_is_tried_here(source: Source, settings: dict[str, Any]) -> None:
    """Nessie keeps none of Iceberg's: that is found out before anything is written, with the way on."""
    source.append(1)
    at = source.table.metadata_location
    with pytest.raises(UnsupportedTableError, match="Nessie") as refused:
        capture(source.lake.catalog, source.name, **{"into": f"{source.name}_x", **settings})
    assert ("ICDC" if "mode" in settings else "leave out hold_source") in refused.value.remedy
    assert source.lake.catalog.load_table(source.name).metadata_location == at
    assert set(source.lake.catalog.load_table(source.name).refs()) == {"main"}
