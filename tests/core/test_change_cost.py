"""What a change capture reads: the manifests that the range wrote, and those that may hold what it changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

if TYPE_CHECKING:
    from airflow_provider_ips.core.history.files import FileFacts, ManifestFacts

CHANGES = CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow")


@dataclass(slots=True)
class Watched(InMemoryHistory):
    """Notes which manifests were opened."""

    opened: list[int | None] = field(default_factory=list)

    def reads_entries(self, manifest: ManifestFacts) -> tuple[FileFacts, ...]:
        """Note the snapshot that wrote it."""
        self.opened.append(manifest.added_snapshot_id)
        return self.entries[manifest.path]


def test_a_range_without_changes_opens_no_manifest() -> None:
    """It is the log of its appends, which manifest lists show."""
    history = Watched("db.t")
    start = history.append()
    history.append()
    history.compact()
    history.append()
    assert plan_capture(history, committed=start, settings=CHANGES).selections
    assert history.opened == []


def test_of_the_past_only_what_may_hold_changed_files_is_opened() -> None:
    """The manifests of a hundred appends stay closed, but for the one whose file was rewritten."""
    history = Watched("db.t")
    for _ in range(100):
        start = history.append()
    history.rewrite_rows()
    plan = plan_capture(history, committed=start, settings=CHANGES)
    assert [selection.manifest.added_snapshot_id for selection in plan.before] == [1]
    assert set(history.opened) == {1, history.head_id}


def test_a_delete_for_one_file_opens_what_is_not_newer_than_it() -> None:
    """A position delete names its data file, not the manifest: all that may list it by sequence number are opened."""
    history = Watched("db.t")
    history.append()
    start = history.append()
    history.append()
    history.delete_rows()
    plan = plan_capture(history, committed=start, settings=CHANGES)
    assert [selection.manifest.added_snapshot_id for selection in plan.before] == [1]
    assert set(history.opened) == {1, 2, 3, 4}
