"""The store in memory behaves as a store that outlasts the process."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.store import CheckpointStore, InMemoryStore
from airflow_provider_ips.core.errors import CheckpointConflictError, DamagedCheckpointError

FIRST = Checkpoint(consumer="daily.capture", revision=1)


def test_what_is_written_is_read():
    """By consumer; another consumer has none."""
    store: CheckpointStore = InMemoryStore()
    store.write(FIRST, expected_revision=None)
    assert store.read("daily.capture") == FIRST
    assert store.read("weekly.capture") is None
    assert store.consumers() == ["daily.capture"]


@pytest.mark.parametrize(("stored", "expected"), [(None, 1), (FIRST, None), (FIRST, 2)])
def test_a_write_over_another_revision_is_refused(stored, expected):
    """Another process wrote or deleted the document since this writer read it."""
    store = InMemoryStore()
    if stored is not None:
        store.write(stored, expected_revision=None)
    with pytest.raises(CheckpointConflictError):
        store.write(replace(FIRST, revision=3), expected_revision=expected)
    assert store.read("daily.capture") == stored


def test_a_damaged_document_is_kept():
    """It can neither be read nor written over."""
    store = InMemoryStore(documents={"daily.capture": "{"})
    with pytest.raises(DamagedCheckpointError):
        store.write(FIRST, expected_revision=None)
    assert store.documents == {"daily.capture": "{"}
