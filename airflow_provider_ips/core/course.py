"""What became of every file that a range touched.

A file is *old* if it was live at the range's start, and is *born* when a snapshot of the range adds it. Compaction
moves rows to other files without changing them, and which row went where is not told. A compaction is therefore one
vessel: what goes in anywhere may come out anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_provider_ips.core.files import Located, Reach
    from airflow_provider_ips.core.steps import Step


@dataclass(slots=True, kw_only=True)
class Birth:
    """A data file that the range added."""

    located: Located
    step: int
    compacted: bool
    """A compaction wrote it."""

    mixed: bool
    """It may hold rows that were there, unchanged, before the range."""

    hit: bool = False
    """A later delete file reached it."""

    changed: bool = False
    """A change removed it again."""

    taken_in: int | None = None
    """The compaction that took it in, as a step."""


@dataclass(slots=True, kw_only=True)
class OldFile:
    """A file from before the range that one of its snapshots removed."""

    located: Located
    step: int
    compacted: bool


@dataclass(slots=True, kw_only=True)
class Reached:
    """A delete, or the return of deleted rows, and the step that it belongs to."""

    reach: Reach
    step: int
    returns: bool


@dataclass(slots=True)
class Course:
    """The range's files, followed from step to step."""

    alive: dict[str, Birth] = field(default_factory=dict)
    gone: list[Birth] = field(default_factory=list)
    old_files: dict[str, OldFile] = field(default_factory=dict)
    reached: list[Reached] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)
    """Compactions whose outputs a later snapshot changed."""

    restored: set[int] = field(default_factory=set)
    """Compactions in whose outputs deleted rows came back."""

    _vessel: dict[int, int] = field(default_factory=dict)

    def vessel(self, step: int) -> int:
        """Name the vessel of a compaction: compactions that hand files to one another are one."""
        while (parent := self._vessel.setdefault(step, step)) != step:
            self._vessel[step] = self._vessel[parent]
            step = parent
        return step

    def vessels(self, steps: Iterable[int]) -> set[int]:
        """Name the vessels of some compactions."""
        return {self.vessel(step) for step in steps}

    def births(self) -> Iterable[Birth]:
        """Every file the range added, whatever became of it."""
        yield from self.alive.values()
        yield from self.gone

    def follow(self, index: int, step: Step) -> None:
        """Let one snapshot happen."""
        mixed = self._remove(index, step)
        for located in step.added:
            self.alive[located.file.path] = Birth(located=located, step=index, compacted=step.replaces, mixed=mixed)
        for reach in step.deletes():
            self._reach(index, reach, returns=False)
        for reach in step.returns():
            self._reach(index, reach, returns=True)

    def _remove(self, index: int, step: Step) -> bool:
        """Take away what the snapshot removed; tell whether its additions may carry rows from before the range."""
        mixed = False
        for located in step.removed:
            birth = self.alive.pop(located.file.path, None)
            if birth is None:
                self.old_files[located.file.path] = OldFile(located=located, step=index, compacted=step.replaces)
                mixed = True
                continue
            mixed = mixed or birth.mixed
            self.gone.append(birth)
            if step.replaces:
                self._take_in(index, birth)
            else:
                birth.changed = True
                self._touch(birth)
        return mixed

    def _take_in(self, index: int, birth: Birth) -> None:
        birth.taken_in = index
        if birth.compacted:
            self._vessel[self.vessel(birth.step)] = self.vessel(index)

    def _touch(self, birth: Birth) -> None:
        if birth.compacted:
            self.touched.add(birth.step)

    def _reach(self, index: int, reach: Reach, *, returns: bool) -> None:
        self.reached.append(Reached(reach=reach, step=index, returns=returns))
        for birth in self._under(reach):
            birth.hit = True
            self._touch(birth)
            if returns and birth.compacted:
                self.restored.add(birth.step)

    def _under(self, reach: Reach) -> Iterable[Birth]:
        if reach.names is not None:
            named = self.alive.get(reach.names)
            return () if named is None or not reach.covers(named.located.file) else (named,)
        return [birth for birth in self.alive.values() if reach.covers(birth.located.file)]


def follow(steps: Sequence[Step]) -> Course:
    """Follow every file through the range."""
    course = Course()
    for index, step in enumerate(steps):
        course.follow(index, step)
    return course
