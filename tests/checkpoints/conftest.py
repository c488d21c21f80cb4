"""The real Airflow of tests/airflow, and checkpoints to put into it."""

import uuid

import pytest

from airflow_provider_ips.core.administration import seed
from airflow_provider_ips.core.checkpoint import SourcePosition
from airflow_provider_ips.core.positions import Position
from tests.airflow.conftest import airflow_database, lake, run_dag

__all__ = ["airflow_database", "lake", "run_dag"]


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
    return SourcePosition(source=source, branch="main", position=position)
