"""What every store owes its users. Each test runs over each store."""

from dataclasses import replace

import pytest

from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.checkpoints.variable import ServerVariables, VariableStore
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import CommittedCapture, PendingCapture, SourceRange
from airflow_provider_ips.core.checkpoint.store import InMemoryStore
from airflow_provider_ips.core.errors import CheckpointConflictError, CheckpointError, DamagedCheckpointError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import RunIdentity
from airflow_provider_ips.core.record import Kind
from tests.checkpoints.conftest import standing


class Memory:
    """The store that ends with the process."""

    def __init__(self, request):
        self.store = InMemoryStore()

    def put(self, consumer, text):
        self.store.documents[consumer] = text

    def stored(self, consumer):
        return self.store.documents[consumer]


class Variables:
    """The default."""

    def __init__(self, request):
        request.getfixturevalue("airflow_database")
        self.store = VariableStore(access=ServerVariables())

    def put(self, consumer, text):
        from airflow_provider_ips.core.identifiers import variable_key

        self.store.access.set(variable_key(consumer), text, description="")

    def stored(self, consumer):
        from airflow_provider_ips.core.identifiers import variable_key

        return self.store.access.get(variable_key(consumer))


class Logs:
    """Iceberg."""

    def __init__(self, request):
        self.catalog = request.getfixturevalue("lake")
        self.store = IcebergStore(self.catalog)

    def put(self, consumer, text):
        from airflow_provider_ips.checkpoints.log_table import append_entry, head_entry

        table = self.store._load(consumer) or self.store._create(consumer)
        head = head_entry(table)
        append_entry(table, text, (head.revision if head and head.revision else 0) + 1, write_id="by hand")

    def stored(self, consumer):
        from airflow_provider_ips.checkpoints.log_table import head_entry

        head = head_entry(self.catalog.load_table(self.store.table_name(consumer)))
        return head and head.text


@pytest.fixture(params=[Memory, Variables, Logs], ids=["memory", "variable", "iceberg"])
def kept(request):
    """A store, and direct access to what it has stored."""
    return request.param(request)


def following(checkpoint, **changes):
    return replace(checkpoint, revision=checkpoint.revision + 1, **changes)


def full(first):
    """A document with something in every field."""
    run = RunIdentity(dag_id="daily", run_id="r", map_index=3, run_after="2026-11-01T00:00:00+00:00")
    taken = SourceRange(
        source=Source("db.größen", "audit"),
        kind=Kind.RANGE,
        from_exclusive=None,
        to_inclusive=standing(20).position,
        icdc_table="icdc.t",
    )
    pending = PendingCapture(capture_id="p", run=run, started_at_ms=1, ranges=(taken,), supersedes=("o",))
    done = CommittedCapture(capture_id="c", run=run, committed_at_ms=2, ranges=(taken,), released=("icdc.r",))
    return replace(first, pending=pending, history=(done,), retained=("icdc.o",), extra={"later": {"a": [1, None]}})


def test_an_unknown_consumer_has_no_checkpoint(kept, consumer):
    """Before and after another one has."""
    assert kept.store.read(consumer) is None
    kept.store.write(Checkpoint(consumer="another", revision=1), expected_revision=None)
    assert kept.store.read(consumer) is None


def test_what_is_written_is_read_to_the_last_byte(kept, first, consumer):
    """All fields, names that are not ASCII, fields of a later release."""
    kept.store.write(full(first), expected_revision=None)
    assert kept.store.read(consumer) == full(first)
    assert kept.stored(consumer) == full(first).to_text()


def test_revisions_follow_one_another(kept, first, consumer):
    """Each over the one before."""
    kept.store.write(first, expected_revision=None)
    for _ in range(5):
        before = kept.store.read(consumer)
        kept.store.write(following(before), expected_revision=before.revision)
    assert kept.store.read(consumer).revision == first.revision + 5


@pytest.mark.parametrize(("stands", "expected"), [(False, 1), (True, None), (True, 7)], ids=str)
def test_a_write_over_another_revision_is_refused(kept, first, consumer, stands, expected):
    """Somebody wrote, or removed, since this writer read; and what stood there stands."""
    if stands:
        kept.store.write(first, expected_revision=None)
    with pytest.raises(CheckpointConflictError, match="is at") as caught:
        kept.store.write(following(first), expected_revision=expected)
    assert caught.value.remedy
    assert kept.store.read(consumer) == (first if stands else None)


def test_consumers_are_listed_by_name(kept, first, consumer):
    """Sorted, each once."""
    for name in (consumer, f"{consumer}.b", f"{consumer}.a"):
        kept.store.write(replace(first, consumer=name), expected_revision=None)
        kept.store.write(replace(first, consumer=name, revision=2), expected_revision=1)
    mine = [name for name in kept.store.consumers() if name.startswith(consumer)]
    assert mine == [consumer, f"{consumer}.a", f"{consumer}.b"]


def test_names_that_look_alike_are_two_consumers(kept, first, consumer):
    """Their readable parts are the same, their checkpoints are not."""
    twin = consumer.replace(".", "_")
    kept.store.write(first, expected_revision=None)
    assert kept.store.read(twin) is None


DAMAGE = {
    "truncated": lambda text: text[:-40],
    "masked": lambda text: text.replace("db.access_token", "***"),
    "retyped": lambda text: text.replace('"revision": 1', '"revision": "1"'),
    "emptied": lambda _: "{}",
    "moved by hand": lambda text: text.replace('"snapshot_id": "10"', '"snapshot_id": "11"'),
    "unsealed": lambda text: text.replace('"seal"', '"sealed"'),
    "another's": lambda text: text.replace('"consumer": "', '"consumer": "x'),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_document_is_kept_and_said_to_be_damaged(kept, first, consumer, damage):
    """Neither taken for a first run nor written over: what is left may be all there is to repair it with."""
    kept.put(consumer, text := damage(first.to_text()))
    with pytest.raises(DamagedCheckpointError) as caught:
        kept.store.read(consumer)
    assert "airflow ips seed" in caught.value.remedy
    for expected in (None, 1):
        with pytest.raises(DamagedCheckpointError):
            kept.store.write(following(first), expected_revision=expected)
    assert kept.stored(consumer) == text


def test_a_document_of_a_newer_schema_is_kept(kept, first, consumer):
    """The release that wrote it can read it."""
    kept.put(consumer, text := first.to_text().replace('"schema_version": 1', '"schema_version": 2'))
    for attempt in (
        lambda: kept.store.read(consumer),
        lambda: kept.store.write(following(first), expected_revision=1),
    ):
        with pytest.raises(CheckpointError, match="schema version 2") as caught:
            attempt()
        assert "install that release" in caught.value.remedy
    assert kept.stored(consumer) == text


def test_a_large_document_is_kept_whole(kept, first, consumer):
    """Far more than a consumer of ten tables with a long history writes."""
    large = replace(first, retained=tuple(f"icdc.table_{n:090d}" for n in range(10_000)))
    assert len(large.to_text()) > 1_000_000
    kept.store.write(large, expected_revision=None)
    assert kept.store.read(consumer) == large
    kept.store.write(following(large), expected_revision=large.revision)
    assert kept.store.read(consumer).revision == 2
