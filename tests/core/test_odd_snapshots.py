"""Snapshots that older writers leave behind, judged by what they did."""

from __future__ import annotations

from airflow_provider_ips.core.history.files import DATA, DELETES, ManifestFacts
from airflow_provider_ips.core.planning.verdicts import judge
from airflow_provider_ips.core.record import Decision
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory


def manifest(content: str, *, added: int = 0, deleted: int = 0) -> ManifestFacts:
    """A manifest of snapshot 2."""
    return ManifestFacts(
        path=f"memory://db.t/{content}.avro",
        length=100,
        content=content,
        spec_id=0,
        added_snapshot_id=2,
        sequence_number=2,
        min_sequence_number=2,
        added_files=added,
        existing_files=0,
        deleted_files=deleted,
        added_rows=added,
        existing_rows=0,
        deleted_rows=deleted,
    )


def verdict_on(operation: str, *manifests: ManifestFacts, on_other_operation: str) -> Decision:
    """The verdict on snapshot 2 with these manifests."""
    history = InMemoryHistory("db.t")
    history.append()
    history.append(operation=operation)
    history.manifests[2] = manifests
    second = history.snapshots[2]
    settings = CaptureSettings(on_other_operation=on_other_operation)
    return judge(history, second, history.snapshots[1], (), settings).verdict.decision


def test_the_log_of_appends_has_one_that_also_removes_delete_files() -> None:
    """An append may remove delete files that no longer apply to any file; to skip it would lose its rows."""
    tidying = (manifest(DATA, added=1), manifest(DELETES, deleted=1))
    assert verdict_on("append", *tidying, on_other_operation="skip") is Decision.CAPTURED


def test_without_skip_it_is_refused() -> None:
    """Nothing in a manifest list proves that the removed delete files applied to nothing."""
    tidying = (manifest(DATA, added=1), manifest(DELETES, deleted=1))
    assert verdict_on("append", *tidying, on_other_operation="fail") is Decision.REFUSED


def test_what_removes_rows_is_skipped_whatever_its_operation() -> None:
    """New delete files or removed data files make it a change."""
    for other in (manifest(DELETES, added=1), manifest(DATA, deleted=1)):
        changing = (manifest(DATA, added=1), other)
        assert verdict_on("append", *changing, on_other_operation="skip") is Decision.IGNORED
