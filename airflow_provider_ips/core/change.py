"""Change capture: the net effect of a range, as rows that are new at its end and rows that they came from.

``source`` holds the files that appends and changes in the range added, as of its end. ``before`` holds the files from
before the range that its changes removed or reached with deletes, as of its start. Compaction in between changes no
row: what was added and then compacted stands for itself, as it was when the compaction took it in. That ends where a
later change touches what the compaction wrote: from there on its rows cannot be told apart, and all that is left of its
output comes in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.course import follow
from airflow_provider_ips.core.errors import GapError, RefusedOperationError, UnsupportedTableError
from airflow_provider_ips.core.lookup import Wanted, deletes_for, find, selections_of
from airflow_provider_ips.core.steps import read_step
from airflow_provider_ips.core.verdicts import own_manifests

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_provider_ips.core.course import Birth, Reached
    from airflow_provider_ips.core.files import Located
    from airflow_provider_ips.core.history import SnapshotFacts, TableHistory
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.selection import Selection
    from airflow_provider_ips.core.settings import CaptureSettings
    from airflow_provider_ips.core.steps import Step
    from airflow_provider_ips.core.verdicts import Judged

ROW_LINEAGE_VERSION: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """What the two tables of a change capture hold."""

    source: tuple[Selection, ...]
    before: tuple[Selection, ...]
    size_bytes: int
    before_bytes: int
    superset: bool
    predicate: str | None
    no_predicate: str


def has_changes(judged: Sequence[Judged]) -> bool:
    """Without any change, a range is the log of its appends, and no entry needs to be read."""
    return any(item.changes for item in judged)


def read_steps(history: TableHistory, judged: Sequence[Judged]) -> list[Step]:
    """Read what every snapshot of a range did; compactions are followed too."""
    steps: list[Step] = []
    for item in judged:
        snapshot = history.snapshot(item.verdict.snapshot_id)
        if snapshot is None:
            continue
        compacts = snapshot.operation == "replace"
        steps.append(read_step(history, snapshot, own_manifests(history, snapshot) if compacts else item.manifests))
    return steps


def plan_changes(
    history: TableHistory,
    *,
    after: Position,
    steps: Sequence[Step],
    to: SnapshotFacts,
    settings: CaptureSettings,
    supersedes: bool = False,
) -> ChangePlan:
    """Plan both tables. ``supersedes``: a run of the same start failed, and may have written what is gone by now."""
    return _Changes(history, after, steps, to, settings, supersedes=supersedes).plan()


class _Changes:
    def __init__(
        self,
        history: TableHistory,
        after: Position,
        steps: Sequence[Step],
        to: SnapshotFacts,
        settings: CaptureSettings,
        *,
        supersedes: bool,
    ) -> None:
        self._history = history
        self._after = after
        self._steps = steps
        self._to = to
        self._settings = settings
        self._supersedes = supersedes
        self._course = follow(steps)

    def plan(self) -> ChangePlan:
        before = self._before()
        live = self._live_at_end()
        standing = self._standing()
        superset = self._superset(live)
        predicate, no_predicate = self._predicate(superset, [*live, *standing, *before])
        deletes = self._deletes_at_end(live)
        applied = {delete.file.key for delete in deletes}
        earlier = [d for d in self._deletes_when_compacted() if d.file.key not in applied]
        source = [*live, *standing, *deletes, *earlier]
        origin = [*before, *self._written_by_failed_run(before)]
        return ChangePlan(
            source=selections_of(source),
            before=selections_of([*origin, *self._deletes_at_start(before)]),
            size_bytes=sum(located.file.size_bytes for located in (*live, *standing)),
            before_bytes=sum(located.file.size_bytes for located in origin),
            superset=superset,
            predicate=predicate,
            no_predicate=no_predicate,
        )

    @property
    def _is_complete(self) -> bool:
        return self._settings.on_superset == "complete"

    @cached_property
    def _touched(self) -> set[int]:
        return self._course.vessels(self._course.touched)

    @cached_property
    def _drawn(self) -> set[int]:
        """The vessels whose outputs come in, in place of what the range put into them."""
        course = self._course
        fed = course.vessels(b.taken_in for b in course.gone if b.taken_in is not None and not b.compacted)
        drawn = self._touched if self._is_complete else self._touched & fed
        recalled = (
            old.step
            for old in course.old_files.values()
            if old.compacted and self._recalled.covers(old.located.file, before=old.step)
        )
        return drawn | course.vessels(course.restored) | course.vessels(recalled)

    @cached_property
    def _opened(self) -> set[int]:
        """The vessels whose old inputs are where changed rows came from."""
        return self._touched | self._drawn

    @cached_property
    def _reached(self) -> list[Reached]:
        """The deletes that may apply to old files. One of these may have been removed and added again by its path."""
        born: dict[str, int] = {}
        for birth in self._course.births():
            path = birth.located.file.path
            born[path] = min(birth.step, born.get(path, birth.step))
        return [
            r for r in self._course.reached if r.reach.names is None or r.step < born.get(r.reach.names, r.step + 1)
        ]

    @cached_property
    def _recalled(self) -> Wanted:
        """Old files whose rows come in although nobody rewrote them: deleted ones came back, or all are asked for."""
        return Wanted(paths={}, reached=[r for r in self._reached if r.returns or self._is_complete])

    def _live_at_end(self) -> list[Located]:
        """What the range added and is still live, and what is left of the vessels that are drawn upon."""
        course = self._course
        born = {
            path: birth.located.file.sequence_number
            for path, birth in course.alive.items()
            if not birth.compacted or course.vessel(birth.step) in self._drawn
        }
        wanted = Wanted(paths=born, reached=self._recalled.reached)
        written = None if wanted.reached else {step.snapshot.snapshot_id for step in self._steps}
        found = [
            located
            for located in find(self._history, self._to, wanted, written_by=written)
            if located.file.path in born or located.file.path not in course.alive
        ]
        self._complain_if_missing(set(born) - {located.file.path for located in found}, self._to)
        return found

    def _standing(self) -> list[Located]:
        """What the range added and an untouched compaction took in stands for itself."""
        return [birth.located for birth in self._standing_births]

    @cached_property
    def _standing_births(self) -> list[Birth]:
        course = self._course
        return [
            birth
            for birth in course.gone
            if not birth.compacted and birth.taken_in is not None and course.vessel(birth.taken_in) not in self._drawn
        ]

    def _deletes_at_end(self, live: Sequence[Located]) -> list[Located]:
        return self._applied(deletes_for(self._history, self._to, live))

    def _deletes_when_compacted(self) -> list[Located]:
        """The deletes that a compaction applied, for the files that stand for themselves."""
        by_step: dict[int, list[Located]] = {}
        for birth in self._standing_births:
            if birth.hit and birth.taken_in is not None:
                by_step.setdefault(birth.taken_in, []).append(birth.located)
        found: list[Located] = []
        for step, files in by_step.items():
            parent_id = self._steps[step].snapshot.parent_id
            parent = None if parent_id is None else self._history.snapshot(parent_id)
            if parent is not None:
                found += deletes_for(self._history, parent, files)
        return self._applied(found)

    def _applied(self, deletes: list[Located]) -> list[Located]:
        """Refuse what the engine would ignore."""
        if self._settings.equality_deletes == "fail" and any(d.file.is_equality for d in deletes):
            raise RefusedOperationError(
                f"{self._history.name} has equality deletes that apply to what would be captured",
                consequence="An engine that cannot apply them would read deleted rows as live",
                remedy="set equality_deletes='carry' if the engine applies them (Spark does, PyIceberg does not), or "
                "compact the table first (CALL rewrite_data_files with delete-file-threshold 1)",
            )
        return deletes

    def _before(self) -> list[Located]:
        """Old files that changes removed, or reached with deletes, or that went into a vessel which was opened."""
        course = self._course
        paths = {
            path: old.located.file.sequence_number
            for path, old in course.old_files.items()
            if not old.compacted or course.vessel(old.step) in self._opened
        }
        wanted = Wanted(paths=paths, reached=self._reached)
        if wanted.is_empty:
            return []
        start = self._start()
        found = [
            located
            for located in (find(self._history, start, wanted) if start else ())
            if located.file.path in paths or wanted.covers(located.file, before=self._ended(located.file.path))
        ]
        self._complain_if_missing(set(paths) - {located.file.path for located in found}, start)
        return found

    def _ended(self, path: str) -> int | None:
        """The step that removed an old file: later deletes did not reach it any more."""
        old = self._course.old_files.get(path)
        return None if old is None else old.step

    def _start(self) -> SnapshotFacts | None:
        if self._after.snapshot_id is None:
            return None
        start = self._history.snapshot(self._after.snapshot_id)
        if start is None:
            raise GapError(
                f"{self._history.name} no longer has {self._after}, the checkpoint, and rows were changed or removed "
                "since",
                consequence="Which rows these were can no longer be read, so a target could not be corrected; nothing "
                "was captured",
                remedy="rebuild the target: `airflow ips reset`, then a run with initial='full'; and keep snapshots "
                "longer than the longest time between two runs (history.expire.max-snapshot-age-ms)",
            )
        return start

    def _deletes_at_start(self, before: Sequence[Located]) -> list[Located]:
        start = self._start() if before else None
        return [] if start is None else self._applied(deletes_for(self._history, start, before))

    def _written_by_failed_run(self, before: Sequence[Located]) -> Iterable[Located]:
        """Files that came and went since the start. The run that failed may have written their rows to its target."""
        if not self._supersedes:
            return
        course = self._course
        there = {located.file.key for located in before}
        for birth in course.births():
            gone = birth.changed or birth.hit
            gone = gone or (birth.taken_in is not None and course.vessel(birth.taken_in) in self._opened)
            if gone and birth.located.file.key not in there:
                there.add(birth.located.file.key)
                yield birth.located

    def _superset(self, live: Sequence[Located]) -> bool:
        alive = self._course.alive
        taken = [*(alive[x.file.path] for x in live if x.file.path in alive), *self._standing_births]
        mixed = next((birth for birth in taken if birth.mixed), None)
        superset = mixed is not None or any(x.file.path not in alive for x in live)
        if superset and self._settings.on_superset == "fail":
            which = "deleted rows came back" if mixed is None else str(self._steps[mixed.step].snapshot)
            raise RefusedOperationError(
                f"{self._history.name}: the capture would carry unchanged rows along, for {which} rewrote files that "
                "held both",
                consequence="A job that inserts what it is given would write them twice; nothing was captured",
                remedy="set on_superset='allow' if the job merges by key or filters by the captured keys, or have the "
                "table written merge-on-read (write.update.mode, write.merge.mode, write.delete.mode)",
            )
        return superset

    def _predicate(self, superset: bool, files: Sequence[Located]) -> tuple[str | None, str]:  # noqa: FBT001
        """What makes a superset row-exact. A row without lineage would drop out of it, so every file must have it."""
        if not superset:
            return None, "not needed: the capture is row-exact"
        if self._history.format_version < ROW_LINEAGE_VERSION:
            return None, f"format version {self._history.format_version} keeps no row lineage"
        without = sum(not located.file.has_row_id for located in files)
        if without:
            return None, f"{without} of the files involved are from before the upgrade to format version 3"
        return f"_last_updated_sequence_number > {self._after.sequence_number}", ""

    def _complain_if_missing(self, paths: set[str], snapshot: SnapshotFacts | None) -> None:
        if paths:
            raise UnsupportedTableError(
                f"{self._history.name}: {len(paths)} files that snapshots of the range name are not among the live "
                f"files of {snapshot or 'an empty table'}, for example {min(paths)}",
                consequence="The manifests contradict each other, so rows would be missing from the capture",
                remedy="process the table in full once, then set the checkpoint behind it by `airflow ips seed`",
            )
