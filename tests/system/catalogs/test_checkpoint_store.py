"""Checkpoints in catalogs of other kinds than SQLite's: what every store owes, and one winner among all writers."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.core.checkpoint.manual_changes import seed
from airflow_provider_ips.core.errors import CheckpointConflictError, StoreUnavailableError
from tests.checkpoints import test_conformance as owed
from tests.checkpoints.conftest import standing
from tests.kit.lakes import on_nessie, on_postgres, opened
from tests.kit.meddler import Meddler, When, meddler
from tests.kit.wire import cutter
from tests.kit.writers import written_at_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_ips.core.checkpoint.document import Checkpoint
    from tests.kit.servers import Storage

pytestmark = [pytest.mark.postgres, pytest.mark.xdist_group("catalogs")]

PASSWORD = "postgres-secret-4711"  # noqa: S105 - as in conftest
WRITERS, TIMES = 3, 5

test_an_unknown_consumer_has_no_checkpoint = owed.test_an_unknown_consumer_has_no_checkpoint
test_what_is_written_is_read_to_the_last_byte = owed.test_what_is_written_is_read_to_the_last_byte
test_revisions_follow_one_another = owed.test_revisions_follow_one_another
test_a_write_over_another_revision_is_refused = owed.test_a_write_over_another_revision_is_refused
test_consumers_are_listed_by_name = owed.test_consumers_are_listed_by_name
test_names_that_look_alike_are_two_consumers = owed.test_names_that_look_alike_are_two_consumers
test_a_damaged_document_is_kept_and_said_to_be_damaged = owed.test_a_damaged_document_is_kept_and_said_to_be_damaged
test_a_document_of_a_newer_schema_is_kept = owed.test_a_document_of_a_newer_schema_is_kept
test_a_large_document_is_kept_whole = owed.test_a_large_document_is_kept_whole


@pytest.fixture
def consumer() -> str:
    """A consumer that no other test has."""
    return f"daily_{uuid.uuid4().hex[:8]}.capture"


@pytest.fixture
def first(consumer: str) -> Checkpoint:
    """Its first checkpoint."""
    return seed(None, consumer=consumer, positions=(standing(10),), now_ms=1_700_000_000_000)


@pytest.fixture(params=["postgres", "nessie"])
def properties(request: pytest.FixtureRequest, storage: Storage) -> dict[str, str]:
    """What opens a catalog, in this process or in another."""
    address = request.getfixturevalue(request.param)
    return on_nessie(address, storage)[0] if request.param == "nessie" else on_postgres(address, PASSWORD, storage)[0]


class Logs(owed.Logs):
    """A store, and access to its table without it."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.catalog = opened("lake", properties)
        self.store = IcebergStore(self.catalog)


@pytest.fixture
def kept(properties: dict[str, str]) -> Logs:
    """As the tests of all stores need it."""
    return Logs(properties)


def following(checkpoint: Checkpoint, **changes: Any) -> Checkpoint:
    return replace(checkpoint, revision=checkpoint.revision + 1, **changes)


def test_no_write_of_several_processes_is_lost(properties: dict[str, str], first: Checkpoint, consumer: str) -> None:
    """As several Airflow deployments are: each write that reported success is in the document at the end."""
    store = IcebergStore(opened("lake", properties))
    store.write(first, expected_revision=None)
    written = written_at_once(properties, consumer, writers=WRITERS, times=TIMES)
    found = store.read(consumer)
    assert found is not None
    assert sorted(found.retained) == written
    assert found.revision == first.revision + WRITERS * TIMES


@pytest.fixture
def rest(nessie: str) -> Iterator[Meddler]:
    """Between the client and the catalog."""
    with meddler(nessie) as proxy:
        yield proxy


@pytest.fixture
def store(rest: Meddler, storage: Storage, first: Checkpoint) -> IcebergStore:
    """A store whose catalog is reached through the proxy, with a first document."""
    made = IcebergStore(opened("lake", on_nessie(rest.address, storage)[0]))
    made.write(first, expected_revision=None)
    return made


COMMIT = ("POST", r"/tables/[^/]+$")


class TestRestCommits:
    """A commit whose outcome is unknown is settled by looking; a stale one never lands on what came after."""

    @pytest.mark.parametrize("status", [None, 500, 502, 503, 504])
    def test_one_that_was_done_without_an_answer_is_a_write(
        self, rest: Meddler, store: IcebergStore, first: Checkpoint, status: int | None
    ) -> None:
        """Whatever came instead of the answer."""
        with rest.meddling(*COMMIT, When.BEFORE, status=status):
            store.write(following(first), expected_revision=first.revision)
        assert store.read(first.consumer) == following(first)

    @pytest.mark.parametrize("status", [None, 500, 503])
    def test_one_that_was_not_done_leaves_what_stood_there(
        self, rest: Meddler, store: IcebergStore, first: Checkpoint, status: int | None
    ) -> None:
        """And says that nothing is lost."""
        with rest.meddling(*COMMIT, When.NEVER, status=status), pytest.raises(StoreUnavailableError, match="written"):
            store.write(following(first), expected_revision=first.revision)
        assert store.read(first.consumer) == first
        store.write(following(first), expected_revision=first.revision)

    @pytest.mark.parametrize("status", [None, 504])
    def test_one_that_lands_after_its_writer_gave_up_is_found_by_the_retry(
        self, rest: Meddler, store: IcebergStore, first: Checkpoint, status: int | None
    ) -> None:
        """The task fails, and its next attempt reads what its first one has written."""
        with rest.meddling(*COMMIT, When.LATER, status=status), pytest.raises(StoreUnavailableError):
            store.write(following(first), expected_revision=first.revision)
        rest.release()
        assert store.read(first.consumer) == following(first)
        with pytest.raises(CheckpointConflictError, match="is at revision 2"):
            store.write(following(first), expected_revision=first.revision)

    def test_one_that_lands_after_somebody_else_has_written_is_refused_by_the_catalog(
        self, rest: Meddler, store: IcebergStore, first: Checkpoint
    ) -> None:
        """Compare-and-set: it names the head that it was made for."""
        theirs = following(first, retained=("icdc.theirs",))
        with rest.meddling(*COMMIT, When.LATER, status=504), pytest.raises(StoreUnavailableError):
            store.write(following(first), expected_revision=first.revision)
        store.write(theirs, expected_revision=first.revision)
        rest.release()
        assert store.read(first.consumer) == theirs


def test_a_commit_of_postgresql_whose_answer_was_lost_is_a_write(
    postgres: str, storage: Storage, first: Checkpoint
) -> None:
    """The connection breaks between the server's commit and its word."""
    host, _, database = postgres.partition("/")
    with cutter(host) as wire:
        store = IcebergStore(opened("lake", on_postgres(f"{wire.address}/{database}", PASSWORD, storage)[0]))
        store.write(first, expected_revision=None)
        with wire.cutting(after=b"UPDATE iceberg_tables", at=b"COMMIT"):
            store.write(following(first), expected_revision=first.revision)
        assert wire.cuts == 1
        assert store.read(first.consumer) == following(first)
