"""What the model is worth: with the repair of a defect taken out, it finds a history that breaks the law.

A row names the functions that carry a repair, and what they were like before. A defect that is not repaired yet has
none; its name in `KNOWN` is played then.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import pytest

from airflow_provider_ips.core.checkpoint.traces import remember_detached
from airflow_provider_ips.core.lineage.expired_history import holds_what_it_held, known_ancestors
from airflow_provider_ips.core.planning import live_files
from tests.model.catalog import model_catalog
from tests.model.generator import stories
from tests.model.known import KNOWN
from tests.model.law import LawBrokenError
from tests.model.story import failure_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_provider_ips.core.checkpoint.document import Checkpoint
    from airflow_provider_ips.core.checkpoint.entries import PendingCapture
    from airflow_provider_ips.core.history.selections import CapturePlan
    from airflow_provider_ips.core.history.snapshots import SnapshotFacts, TableHistory
    from airflow_provider_ips.core.planning.uncommitted import UncommittedCaptures
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.settings import CaptureSettings

SEED: Final = 16
AT_MOST: Final = 1_500
"""How many histories of its theme may pass before a defect is found."""

CORE: Final = "airflow_provider_ips.core"


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One defect, and how to put it back."""

    name: str
    theme: str
    planted: Mapping[str, Any] = field(default_factory=dict)
    """By name of the function that carries the repair, where it is looked up: what it was like before. Nothing while
    there is no repair: then the name is one of `KNOWN`."""


def _no_newer_manifest(history: TableHistory, position: Position, head: SnapshotFacts | None) -> bool:
    """A head that wrote no manifest was taken to have done nothing."""
    if head is None or position.evidence is None or position.table_uuid != history.table_uuid:
        return False
    listed = history.reads_manifests(head.snapshot_id)
    return bool(listed) and max(m.sequence_number for m in listed) <= position.sequence_number


def _is_ancestor(history: TableHistory, position: Position, ancestor_id: int) -> bool:
    """What was older by number and an ancestor of the checkpoint was taken to have been processed."""
    snapshot = None if position.snapshot_id is None else history.snapshot(position.snapshot_id)
    return snapshot is not None and ancestor_id in {s.snapshot_id for s in known_ancestors(history, snapshot)}


_plan_live_files = live_files.plan_live_files


def _nothing_to_refresh(*args: Any, **keywords: Any) -> CapturePlan:
    """A full capture of a table without rows was empty, so that its job was skipped."""
    return _plan_live_files(*args, **{**keywords, "even_if_empty": False})


_plan_full_capture = live_files.plan_full_capture


def _first_run_of_nothing(*args: Any, **keywords: Any) -> CapturePlan:
    """A first run of a log of appends was empty with the source, whatever an earlier attempt may have written."""
    even_if_empty = keywords.get("even_if_empty", True) and (args[2] is not None or args[3].captures_changes)
    return _plan_full_capture(*args, **{**keywords, "even_if_empty": even_if_empty})


def _next_commit_is_empty(
    history: TableHistory, committed: Position, settings: CaptureSettings, uncommitted: UncommittedCaptures
) -> bool:
    """A head with the next number and the same rows was taken for an empty commit."""
    head = history.head
    if head is None or not holds_what_it_held(history, committed, head):
        return False
    shows_the_net_effect = settings.captures_changes or settings.on_other_operation == "fail"
    is_next = 0 < committed.sequence_number == head.sequence_number - 1
    return is_next or (shows_the_net_effect and not uncommitted)


def _changes_only(*args: Any, **keywords: Any) -> Checkpoint | None:
    """Of a refresh beside the checkpoint only its changes were remembered, not that it may have emptied the target."""
    return remember_detached(*args, **{**keywords, "refreshes": False})


def _without_warning(*args: Any, **keywords: Any) -> CapturePlan:
    """Only the first attempt said that the target must be emptied."""
    return _plan_live_files(*args, **{**keywords, "warnings": ()})


def _replay_beside_pending(checkpoint: Checkpoint, replay: PendingCapture) -> Checkpoint:
    """A replay left the pending capture as it was, to be committed later."""
    return replace(checkpoint, revision=checkpoint.revision + 1, replaying=replay)


def _despite_restored_rows(
    history: TableHistory, after: Position, involved: object, files: object, *, is_superset: bool
) -> tuple[str | None, str]:
    """The predicate was given wherever there is row lineage."""
    has_lineage = is_superset and history.format_version > 2
    return (f"_last_updated_sequence_number > {after.sequence_number}", "") if has_lineage else (None, "no lineage")


DEFECTS: Final = (
    Defect(
        name="A1: a head without a trace has done nothing",
        theme="lost history",
        planted={f"{CORE}.planning.plan.holds_what_it_held": _no_newer_manifest},
    ),
    Defect(
        name="A2: ancestors of the checkpoint are processed",
        theme="moved heads",
        planted={f"{CORE}.lineage.resync._removed_nothing_since": _is_ancestor},
    ),
    Defect(
        name="A3: all rows of an empty table are nothing",
        theme="emptied tables",
        planted={f"{CORE}.planning.live_files.plan_live_files": _nothing_to_refresh},
    ),
    Defect(
        name="B4: a run has the tables of its first attempt",
        theme="corrected settings",
        planted={
            f"{CORE}.history.selections.CapturePlan.selection": "",
            "airflow_provider_ips.runs.capture_steps.rules_of": lambda *_, **__: "",
            "airflow_provider_ips.runs.pending.rules_of": lambda *_, **__: "",
            f"{CORE}.settings.CaptureSettings.selection_rules": "",
        },
    ),
    Defect(
        name="C7: a path is a file",
        theme="paths again",
        planted={f"{CORE}.history.files.FileFacts.key": property(lambda file: (file.path, file.offset, 0))},
    ),
    Defect(
        name="C8: rows that came back are as old as they look",
        theme="rows that come back",
        planted={f"{CORE}.changes.change_tables._predicate": _despite_restored_rows},
    ),
    Defect(
        name="a range covers a refresh of all rows that failed",
        theme="full refreshes",
        planted={"airflow_provider_ips.runs.pending.refuse_after_full_refresh": lambda *_: None},
    ),
    Defect(
        name="E15: a cleared run that died has done nothing",
        theme="failed runs",
        planted={"airflow_provider_ips.runs.pending.refuse_after_replay": lambda *_: None},
    ),
    Defect(
        name="a run is committed over whose rows a replay has written",
        theme="failed runs",
        planted={"airflow_provider_ips.runs.pending.begin_replay": _replay_beside_pending},
    ),
    Defect(
        name="a retry of all rows has no warning",
        theme="full refreshes",
        planted={f"{CORE}.planning.live_files.plan_live_files": _without_warning},
    ),
    Defect(
        name="path twice in format v1",
        theme="paths again",
        planted={f"{CORE}.planning.ranges.refuse_removed_twice": lambda *_: None},
    ),
    Defect(
        name="no append between",
        theme="a log of appends",
        planted={f"{CORE}.planning.plan._has_nothing_new": _next_commit_is_empty},
    ),
    Defect(
        name="first run again",
        theme="emptied tables",
        planted={f"{CORE}.planning.plan.plan_full_capture": _first_run_of_nothing},
    ),
    Defect(
        name="a refresh beside the checkpoint is forgotten",
        theme="full refreshes",
        planted={"airflow_provider_ips.runs.detached.remember_detached": lambda checkpoint, **_: checkpoint},
    ),
    Defect(
        name="a refresh of what a rollback brought back is older than the checkpoint",
        theme="full refreshes",
        planted={"airflow_provider_ips.runs.detached._has_moved_head": lambda *_: False},
    ),
    Defect(
        name="a refresh beside the checkpoint that failed has done nothing",
        theme="full refreshes",
        planted={"airflow_provider_ips.runs.detached.remember_detached": _changes_only},
    ),
    Defect(name="old numbers again", theme="corrected settings"),
)


@contextmanager
def _planted(defect: Defect) -> Iterator[None]:
    with ExitStack() as stack:
        for name, before in defect.planted.items():
            stack.enter_context(patch(name, before))
        yield


@pytest.mark.parametrize("defect", DEFECTS, ids=[defect.name for defect in DEFECTS])
def test_the_model_finds(defect: Defect) -> None:
    """A model that lets a defect pass is worth nothing."""
    avoiding = [name for name in KNOWN if name != defect.name]
    with model_catalog():
        with _planted(defect):
            drawn = stories(SEED, AT_MOST, defect.theme)
            found = next((story for story in drawn if failure_of(story, avoiding) is not None), None)
            assert found is not None, f"{AT_MOST} histories pass with {defect.name}"
            assert isinstance(failure_of(found, avoiding), LawBrokenError)
        if defect.planted:
            assert failure_of(found, avoiding) is None, "the law is broken without the defect, too"


def test_every_known_defect_is_listed() -> None:
    """What the model avoids is shown to be there: else it could stay in `KNOWN` after its repair."""
    assert set(KNOWN) == {defect.name for defect in DEFECTS if not defect.planted}
