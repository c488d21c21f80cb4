"""A real Airflow in the process of the tests, and checkpoints to put into it."""

import uuid

import pytest

from airflow_provider_ips.core.checkpoint.entries import SourcePosition
from airflow_provider_ips.core.checkpoint.manual_changes import seed
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import Position
from tests.kit.airflow import airflow_database, events, job, lake, run_dag

__all__ = ["airflow_database", "events", "job", "lake", "run_dag"]


@pytest.fixture
def consumer():
    """A consumer that no other test has."""
    return f"daily_{uuid.uuid4().hex[:8]}.capture"


@pytest.fixture
def first(consumer):
    """Its first checkpoint: one source, whose name looks like a secret."""
    return seed(None, consumer=consumer, positions=(standing(10),), now_ms=1_700_000_000_000)


def standing(snapshot_id, source="db.access_token"):
    """One source at one snapshot."""
    position = Position(
        table_uuid="uuid-1", snapshot_id=snapshot_id, sequence_number=snapshot_id, committed_at_ms=1_700_000_000_000
    )
    return SourcePosition(source=Source(source), position=position)
