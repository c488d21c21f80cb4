"""Whatever happened to a history: a range is exact, a resync loses no row, or the capture is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_ips.core.errors import GapError, RefusedOperationError
from airflow_provider_ips.core.history.files import Content, Status
from airflow_provider_ips.core.history.selections import Take
from airflow_provider_ips.core.history.snapshots import head_position, position_of
from airflow_provider_ips.core.planning.plan import plan_capture, plan_full, with_evidence
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_ips.core.history.files import FileFacts
    from airflow_provider_ips.core.history.selections import CapturePlan, Selection
    from airflow_provider_ips.core.positions import Position

LOG = CaptureSettings(on_other_operation="skip")
RESYNC = CaptureSettings(on_other_operation="skip", on_gap="resync")


@dataclass
class Ledger:
    """A history and, apart from it, which rows every file holds and what every snapshot appended."""

    history: InMemoryHistory
    rows: dict[str, frozenset[int]] = field(default_factory=dict)
    appended: dict[int, frozenset[int]] = field(default_factory=dict)
    next_row: int = 0

    def append(self, *, merge: bool = False) -> None:
        """Two rows in a new file."""
        file = self.history.data_file()
        self.rows[file.path] = frozenset((self.next_row, self.next_row + 1))
        self.next_row += 2
        at = self.history.commit("append", add=[file], merge=merge)
        self.appended[at.snapshot_id or 0] = self.rows[file.path]

    def compact(self, *, keeps_number: bool) -> None:
        """Rewrite all live files into one, with the sequence number of the newest of them or the commit's."""
        live = self.history.live_files
        if not live:
            return
        file = self.history.data_file()
        self.rows[file.path] = frozenset().union(*(self.rows[f.path] for f in live))
        if keeps_number:
            file = type(file)(
                **{name: getattr(file, name) for name in file.__slots__}
                | {"sequence_number": max(f.sequence_number for f in live)}
            )
        self.history.commit("replace", add=[file], remove=[f.path for f in live])

    def remove(self) -> None:
        """Remove the oldest file."""
        self.history.remove()

    def jump(self, which: int) -> None:
        """Set the head to some retained snapshot: a rollback, or another branch."""
        retained = sorted(self.history.snapshots)
        if retained:
            self.history.head_id = retained[which % len(retained)]

    def expire(self, which: int, *, cuts: bool) -> None:
        """Expire a snapshot other than the head; some engines clear the parent of its children, too."""
        others = sorted(set(self.history.snapshots) - {self.history.head_id})
        if not others:
            return
        gone = others[which % len(others)]
        self.history.expire(position_of(self.history, self.history.snapshots[gone]))
        for facts in list(self.history.snapshots.values()) if cuts else ():
            if facts.parent_id == gone:
                self.history.cut_parent(position_of(self.history, facts))

    def play(self, action: tuple[str, int]) -> None:
        """One action."""
        name, which = action
        if name in ("append", "merge"):
            self.append(merge=name == "merge")
        elif name == "compact":
            self.compact(keeps_number=bool(which % 2))
        elif name in ("expire", "cut"):
            self.expire(which, cuts=name == "cut")
        elif name == "jump":
            self.jump(which)
        elif name == "forget":
            self.history.forget_metadata()
        else:
            self.remove()

    def line(self, snapshot_id: int | None) -> Iterator[int]:
        """The true ancestors, whatever the metadata still says."""
        while snapshot_id is not None:
            yield snapshot_id
            snapshot_id = self.history.written[snapshot_id].parent_id

    def appended_in(self, line: Iterator[int]) -> frozenset[int]:
        """All rows that these snapshots appended."""
        return frozenset().union(*(self.appended.get(i, frozenset()) for i in line))

    @property
    def live(self) -> frozenset[int]:
        """The rows of the table."""
        return frozenset().union(*(self.rows[f.path] for f in self.history.live_files))

    def taken(self, plan: CapturePlan) -> list[int]:
        """The rows of a capture, as often as it has them."""
        files = [f for s in plan.selections for f in self._wanted(s)]
        return sorted(row for f in files for row in self.rows[f.path])

    def _wanted(self, selection: Selection) -> Iterator[FileFacts]:
        for file in self.history.reads_entries(selection.manifest):
            if file.content is not Content.DATA or not file.is_live:
                continue
            if selection.take is Take.WHOLE or (
                file.status is Status.ADDED
                if selection.take is Take.ADDED
                else file.sequence_number > (selection.newer_than or 0)
            ):
                yield file


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "merge", "compact", "remove", "jump", "expire", "cut", "forget"]),
        st.integers(min_value=0, max_value=20),
    ),
    max_size=14,
)


def played(before: list[tuple[str, int]], after: list[tuple[str, int]]) -> tuple[Ledger, Position, frozenset[int]]:
    """A history, a checkpoint somewhere in it, and the rows that its consumer has processed."""
    ledger = Ledger(InMemoryHistory("db.t"))
    for action in before:
        ledger.play(action)
    committed = head_position(ledger.history)
    processed = ledger.appended_in(ledger.line(committed.snapshot_id))
    for action in after:
        ledger.play(action)
    return ledger, committed, processed


@settings(max_examples=1500, deadline=None)
@given(ACTIONS, ACTIONS)
def test_a_range_is_exactly_what_was_appended_after_the_checkpoint(
    before: list[tuple[str, int]], after: list[tuple[str, int]]
) -> None:
    """Rollbacks, other branches, expiry, cleared parents, forgotten metadata: the log of appends, or an error."""
    ledger, committed, _ = played(before, after)
    try:
        plan = plan_capture(ledger.history, committed=committed, settings=LOG)
    except GapError:
        return
    line = list(ledger.line(ledger.history.head_id))
    since = line[: line.index(committed.snapshot_id)] if committed.snapshot_id in line else line
    assert committed.snapshot_id is None or committed.snapshot_id in line
    assert ledger.taken(plan) == sorted(ledger.appended_in(iter(since)))


@settings(max_examples=1500, deadline=None)
@given(ACTIONS, ACTIONS)
def test_a_resync_loses_no_row_or_is_refused(before: list[tuple[str, int]], after: list[tuple[str, int]]) -> None:
    """It has every live row that was never processed; and if it is called exact, no other."""
    ledger, committed, processed = played(before, after)
    try:
        plan = plan_capture(ledger.history, committed=committed, settings=RESYNC)
    except (GapError, RefusedOperationError):
        return
    if plan.kind is Kind.RANGE:
        return
    taken = ledger.taken(plan)
    assert ledger.live - processed <= set(taken)
    if any("exact: appends alone" in warning for warning in plan.warnings):
        assert set(taken) <= ledger.live
        assert not set(taken) & processed
        assert len(taken) == len(set(taken))


@settings(max_examples=500, deadline=None)
@given(ACTIONS, st.integers(min_value=0, max_value=40))
@example([*[("append", 0)] * 2, ("jump", 0), ("append", 0), ("jump", 1), ("append", 0), ("expire", 14)], 3)
def test_a_first_run_at_a_time_takes_all_that_came_later(actions: list[tuple[str, int]], second: int) -> None:
    """Never from a snapshot that the branch did not have then. If its head of that time is expired, more may come."""
    ledger, _, _ = played([], actions)
    initial = f"1970-01-01T00:00:{second:02}+00:00"
    try:
        wanted = CaptureSettings(on_other_operation="skip", initial=initial)
        plan = plan_capture(ledger.history, committed=None, settings=wanted)
    except GapError:
        return
    then = max((i for i in ledger.history.written if i <= second), default=None)
    shown = set(ledger.line(then))
    later = ledger.appended_in(i for i in ledger.line(ledger.history.head_id) if i not in shown)
    assert later <= set(ledger.taken(plan))
    if then is None or then in ledger.history.snapshots:
        assert sorted(later) == ledger.taken(plan)


def test_what_was_deleted_before_a_rollback_is_not_left_out_of_a_resync() -> None:
    """The consumer's first run was full, and so never saw the file that the delete had removed."""
    history = InMemoryHistory("db.t")
    base = history.append()
    history.commit("delete", remove=[history.live_files[0].path])
    committed = with_evidence(
        history, plan_full(history, committed=None, settings=CaptureSettings(on_gap="resync"))
    ).to_inclusive
    history.rollback(base)
    history.append()
    with pytest.raises(GapError, match="may never have been processed"):
        plan_capture(history, committed=committed, settings=CaptureSettings(on_gap="resync"))
