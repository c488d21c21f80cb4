"""Checkpoints in Iceberg logs: one of two writers wins, an unknown outcome is settled by looking, a log stays small."""

import multiprocessing
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from airflow_provider_ips.checkpoints import log_table
from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.core.errors import (
    CheckpointConflictError,
    DamagedCheckpointError,
    InputError,
    StoreUnavailableError,
)
from tests.kit.calls import JOURNAL, DiedError, End, open_journaled

RACES = 8


@pytest.fixture
def store(lake):
    return IcebergStore(lake)


@pytest.fixture
def journaled(tmp_path):
    """A store whose every call can be made to end badly."""
    JOURNAL.stop()
    yield IcebergStore(open_journaled(tmp_path))
    JOURNAL.stop()


def following(checkpoint, **changes):
    return replace(checkpoint, revision=checkpoint.revision + 1, **changes)


def log_of(store, consumer):
    return store.catalog.load_table(store.table_name(consumer))


def attempt(store, checkpoint, expected_revision):
    try:
        store.write(checkpoint, expected_revision=expected_revision)
    except CheckpointConflictError:
        return "conflict"
    return "written"


def race_in_a_process(properties, consumer, barrier, answers):
    """One of two processes that write over the same revision at the same moment, again and again."""
    store = IcebergStore(load_catalog("lake", **properties))
    for _ in range(RACES):
        stands = store.read(consumer)
        assert stands is not None
        barrier.wait(timeout=60)
        try:
            answers.put(attempt(store, following(stands), stands.revision))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must see it
            answers.put(repr(error))
        barrier.wait(timeout=60)


@pytest.mark.parametrize("first_write", [True, False], ids=["first", "later"])
def test_one_of_many_threads_wins(lake, first, consumer, first_write):
    """Same revision, same moment, even the same document: exactly one has written it."""
    properties = dict(lake.properties)
    store = IcebergStore(lake)
    if not first_write:
        store.write(first, expected_revision=None)
    document, expected = (first, None) if first_write else (following(first), first.revision)
    barrier = threading.Barrier(6)

    def write(_):
        mine = IcebergStore(load_catalog("lake", **properties))
        mine.read(consumer)
        barrier.wait(timeout=60)
        return attempt(mine, document, expected)

    with ThreadPoolExecutor(6) as pool:
        answers = sorted(pool.map(write, range(6)))
    assert answers == ["conflict"] * 5 + ["written"]
    assert store.read(consumer) == document
    assert len(log_table.entries(log_of(store, consumer))) == document.revision


def test_one_of_two_processes_wins(lake, first, consumer):
    """As two Airflow deployments are; each revision is written by one of them."""
    store = IcebergStore(lake)
    store.write(first, expected_revision=None)
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(2), context.Queue()
    racing = (dict(lake.properties), consumer, barrier, answers)
    writers = [context.Process(target=race_in_a_process, args=racing) for _ in range(2)]
    for writer in writers:
        writer.start()
    found = sorted(answers.get(timeout=120) for _ in range(2 * RACES))
    for writer in writers:
        writer.join(timeout=60)
    assert found == ["conflict"] * RACES + ["written"] * RACES
    assert len(log_table.entries(log_of(store, consumer))) == first.revision + RACES


def calls_of_a_write(journaled, document, expected):
    JOURNAL.start()
    journaled.write(document, expected_revision=expected)
    names = list(JOURNAL.names)
    JOURNAL.stop()
    return names


@pytest.mark.parametrize("end", End, ids=lambda end: end.value)
@pytest.mark.parametrize("first_write", [True, False], ids=["first", "later"])
def test_whatever_call_of_a_write_ends_badly_the_document_is_one_of_two(
    journaled, tmp_path, first, consumer, first_write, end
):
    """The one before or the one after, never another; a write that reports success has written; a retry gets there."""
    rehearsal = replace(first, consumer="rehearsal")
    names = calls_of_a_write(journaled, rehearsal, None)
    if not first_write:
        names = calls_of_a_write(journaled, following(rehearsal), 1)
    assert "catalog.commit_table" in names
    for at in range(len(names)):
        mine = replace(first, consumer=f"{consumer}.{at}")
        if not first_write:
            journaled.write(mine, expected_revision=None)
        before, after = (None, mine) if first_write else (mine, following(mine))
        expected = None if before is None else before.revision
        JOURNAL.start(at, end)
        reported = False
        try:
            journaled.write(after, expected_revision=expected)
            reported = True
        except (DiedError, StoreUnavailableError, CheckpointConflictError):
            pass
        JOURNAL.stop()
        found = journaled.read(mine.consumer)
        assert found in (before, after), names[at]
        assert found == after or not reported, names[at]
        if found == before:
            journaled.write(after, expected_revision=expected)
        assert journaled.read(mine.consumer) == after


def test_a_commit_whose_answer_is_lost_is_found(journaled, first, consumer):
    """Even where somebody has written over it since."""
    journaled.write(first, expected_revision=None)
    names = calls_of_a_write(journaled, following(first), 1)
    stands = following(first)
    JOURNAL.start(names.index("catalog.commit_table"), End.UNANSWERED)
    journaled.write(following(stands), expected_revision=2)
    JOURNAL.stop()
    assert journaled.read(consumer) == following(stands)


@pytest.mark.parametrize("end", [End.FAILS, End.UNANSWERED], ids=lambda end: end.value)
@pytest.mark.parametrize("exists", [True, False], ids=["existing", "absent"])
def test_an_outage_is_no_first_run(journaled, first, consumer, exists, end):
    """Whichever call it hits."""
    if exists:
        journaled.write(first, expected_revision=None)
    JOURNAL.start()
    journaled.read(consumer)
    calls = len(JOURNAL.names)
    for at in range(calls):
        JOURNAL.start(at, end)
        with pytest.raises(StoreUnavailableError, match="could not be"):
            journaled.read(consumer)
        JOURNAL.stop()


class EverythingIsMissing:
    """What an address that leads nowhere answers: 404, to every question but the list."""

    name = "lake"

    def __init__(self, lake, says):
        self.lake, self.says = lake, says

    def load_table(self, identifier):
        raise self.says("404")

    def __getattr__(self, name):
        return getattr(self.lake, name)


@pytest.mark.parametrize("says", [NoSuchTableError, NoSuchNamespaceError])
def test_not_found_is_no_proof_of_absence(store, lake, first, consumer, says):
    """The list has the last word."""
    store.write(first, expected_revision=None)
    nowhere: Any = EverythingIsMissing(lake, says)
    with pytest.raises(StoreUnavailableError, match="could not be read"):
        IcebergStore(nowhere).read(consumer)
    assert IcebergStore(nowhere).read("never.seen") is None


def test_a_crash_before_the_first_document_leaves_no_checkpoint(store, consumer, first):
    """The table is there, and nothing has been committed to it."""
    store._create(consumer)
    assert store.read(consumer) is None
    store.write(first, expected_revision=None)
    assert store.read(consumer) == first


@pytest.mark.parametrize("namespace", ["ops", "ops.checkpoints.deep"])
def test_logs_live_in_their_namespace(lake, first, consumer, namespace):
    """Made when missing, at any depth, and never mixed with another."""
    store = IcebergStore(lake, namespace)
    store.write(first, expected_revision=None)
    assert store.read(consumer) == first
    assert store.consumers() == [consumer]
    assert IcebergStore(lake).read(consumer) is None


def test_a_namespace_that_some_catalogs_misread_is_refused(lake):
    """With what would be right."""
    for namespace in ("", "a..b", "a b", "größe"):
        with pytest.raises(InputError, match="checkpoint_namespace"):
            IcebergStore(lake, namespace)


def test_a_log_stays_small_and_keeps_the_current_document(store, first, consumer, monkeypatch):
    """By count and by bytes; of the files in its folder too."""
    monkeypatch.setattr(log_table, "KEEP_SNAPSHOTS", 12)
    store.write(first, expected_revision=None)
    stands = first
    for _ in range(30):
        store.write(stands := following(stands), expected_revision=stands.revision - 1)
    table = log_of(store, consumer)
    assert [entry.revision for entry in log_table.entries(table)] == list(range(20, 32))
    files = [p.name for p in Path(table.metadata.location.removeprefix("file://")).rglob("*") if p.is_file()]
    assert len(files) <= 12
    large = following(stands, retained=("x" * log_table.KEEP_BYTES,))
    store.write(large, expected_revision=stands.revision)
    assert [entry.revision for entry in log_table.entries(log_of(store, consumer))] == [31, 32]
    assert store.read(consumer) == large


def test_every_change_is_on_record(store, first, consumer):
    """Each document as it was."""
    store.write(first, expected_revision=None)
    store.write(following(first, retained=("icdc.a",)), expected_revision=1)
    assert [entry.text for entry in log_table.entries(log_of(store, consumer))] == [
        first.to_text(),
        following(first, retained=("icdc.a",)).to_text(),
    ]


def test_a_log_is_a_table_without_rows(store, first, consumer):
    """What else lists the catalog's tables can read it."""
    store.write(first, expected_revision=None)
    store.write(following(first), expected_revision=1)
    assert len(log_of(store, consumer).scan().to_arrow()) == 0


def test_rows_appended_by_somebody_hide_no_checkpoint(store, first, consumer):
    """The head is not ours: said with the snapshot, and the way back leads to the document."""
    store.write(first, expected_revision=None)
    table = log_of(store, consumer)
    ours = table.current_snapshot().snapshot_id
    import pyarrow as pa

    table.append(pa.table({"note": ["hello"]}))
    with pytest.raises(DamagedCheckpointError, match="which another program wrote") as caught:
        store.read(consumer)
    assert "set_current_snapshot" in caught.value.remedy
    with pytest.raises(DamagedCheckpointError):
        store.write(following(first), expected_revision=1)
    table.refresh().manage_snapshots().rollback_to_snapshot(ours).commit()
    assert store.read(consumer) == first


def test_a_rolled_back_log_is_not_believed(store, first, consumer):
    """Nothing moves a checkpoint backwards unless it says `rewind`."""
    store.write(first, expected_revision=None)
    start = log_of(store, consumer).current_snapshot().snapshot_id
    store.write(following(first), expected_revision=1)
    log_of(store, consumer).manage_snapshots().rollback_to_snapshot(start).commit()
    with pytest.raises(DamagedCheckpointError, match="rolled back from revision 2"):
        store.read(consumer)


def test_a_table_of_the_same_name_is_left_alone(store, lake, first, consumer):
    """It is not a log, and may belong to anybody."""
    lake.create_namespace("ips_checkpoints")
    table = lake.create_table(store.table_name(consumer), schema=log_table._SCHEMA)
    for verb in (lambda: store.read(consumer), lambda: store.write(first, expected_revision=None)):
        with pytest.raises(DamagedCheckpointError, match="not its log"):
            verb()
    assert table.refresh().current_snapshot() is None


def test_a_log_made_anew_under_a_writer_refuses_it(store, lake, first, consumer):
    """Dropped and made again since the writer looked: another table, though the revision is the same."""
    store.write(first, expected_revision=None)
    stale = log_of(store, consumer)
    lake.drop_table(store.table_name(consumer))
    shutil.rmtree(stale.metadata.location.removeprefix("file://"))
    store.write(replace(first, retained=("icdc.other",)), expected_revision=None)

    class Stale:
        loads: ClassVar = [stale]

        def __getattr__(self, name):
            return getattr(lake, name)

        def load_table(self, identifier):
            return self.loads.pop() if self.loads else lake.load_table(identifier)

    late: Any = Stale()
    with pytest.raises(CheckpointConflictError):
        IcebergStore(late).write(following(first), expected_revision=1)
    assert store.read(consumer).retained == ("icdc.other",)


def test_tables_of_users_in_the_namespace_are_not_consumers(store, lake, first, consumer):
    """Only logs are listed."""
    store.write(first, expected_revision=None)
    lake.create_table("ips_checkpoints.mine", schema=log_table._SCHEMA)
    assert store.consumers() == [consumer]
