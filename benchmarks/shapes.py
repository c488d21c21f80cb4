"""What a generated table looks like: how many files in how many snapshots, and what engines did to its manifests."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterator

Layout = Literal["pure", "half-merged", "merged", "rewritten"]
LAYOUTS: Final[tuple[Layout, ...]] = get_args(Layout)

ENTRIES_PER_MANIFEST: Final = 10_000
"""Some 8 MB with 20 columns, which is where Iceberg's writers close a manifest and begin the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A run of files that one snapshot added, by their number in the table."""

    snapshot: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest by the files it lists. Those of the snapshot that wrote it are ADDED, all others EXISTING."""

    snapshot: int
    pieces: tuple[Piece, ...]

    @property
    def added(self) -> tuple[Piece, ...]:
        """What its own snapshot brought."""
        return tuple(p for p in self.pieces if p.snapshot == self.snapshot)

    @property
    def existing(self) -> tuple[Piece, ...]:
        """What a merge carried over."""
        return tuple(p for p in self.pieces if p.snapshot != self.snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A table: snapshots before the range, then the range that is captured. Snapshots count from 1.

    ``pure``: every snapshot wrote manifests of its own, as a fast append does. ``half-merged``: every other snapshot
    merged the manifests of the one before it into its own. ``merged``: every snapshot merged, so that each manifest of
    the range holds entries of two or three snapshots, and a reader meets two entries for each one that it wants.
    ``rewritten``: as pure, and then one more snapshot rewrote all manifests, so that the newest manifest list says
    nothing about who added what.
    """

    files: int
    snapshots: int
    layout: Layout = "pure"
    format_version: int = 2
    files_before: int = 0
    snapshots_before: int = 1

    @property
    def name(self) -> str:
        """For folders and tables of results."""
        before = f"-after-{self.files_before}-in-{self.snapshots_before}" if self.files_before else ""
        return f"v{self.format_version}-{self.layout}-{self.files}-in-{self.snapshots}{before}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @property
    def last_before(self) -> int:
        """The snapshot after which the range starts."""
        return self.snapshots_before

    @property
    def last(self) -> int:
        """The table's newest snapshot."""
        return self.last_append + (self.layout == "rewritten")

    @property
    def last_append(self) -> int:
        """The newest snapshot that added files."""
        return self.snapshots_before + self.snapshots

    @property
    def total_before(self) -> int:
        """How many files there were before the range; a merged range has as many as it needs to merge with."""
        merged_with = self._carried * math.ceil(self.snapshots / 2) if self.layout == "merged" else 0
        return max(self.files_before, merged_with, self.snapshots_before)

    @property
    def _carried(self) -> int:
        return max(1, self.files // self.snapshots // 2)

    def files_of(self, snapshot: int) -> Piece:
        """What a snapshot added."""
        if snapshot > self.last_append:
            end = self.total_before + self.files
            return Piece(snapshot=snapshot, start=end, stop=end)
        before = snapshot <= self.last_before
        position = snapshot - 1 if before else snapshot - 1 - self.snapshots_before
        total, parts = (self.total_before, self.snapshots_before) if before else (self.files, self.snapshots)
        offset = 0 if before else self.total_before
        start, stop = offset + position * total // parts, offset + (position + 1) * total // parts
        return Piece(snapshot=snapshot, start=start, stop=stop)

    def commits(self) -> Iterator[tuple[int, list[Manifest], list[Manifest]]]:
        """Each snapshot with the manifests that it wrote, and those that it replaced by merging."""
        mergeable: list[Manifest] = []
        everything: list[Manifest] = []
        for snapshot in range(1, self.last_append + 1):
            replaced = self._merges(snapshot, mergeable)
            pieces = tuple(p for m in replaced for p in m.pieces)
            written = list(_split(snapshot, (*pieces, self.files_of(snapshot))))
            if self.layout == "merged" and snapshot <= self.last_before:
                written = list(self._parts_to_merge_with(written))
                mergeable += written
            elif snapshot > self.last_before:
                mergeable = [m for m in mergeable if m not in replaced] if self.layout == "merged" else []
                mergeable = [*written, *mergeable]
            everything += written
            yield snapshot, written, replaced
        if self.layout == "rewritten":
            pieces = tuple(p for m in everything for p in m.pieces)
            yield self.last, list(_split(self.last, pieces)), everything

    def _merges(self, snapshot: int, mergeable: list[Manifest]) -> list[Manifest]:
        """The newest snapshot's manifests, where this one merges; else, in a merged range, one from before it."""
        if snapshot <= self.last_before or self.layout in ("pure", "rewritten"):
            return []
        is_second = (snapshot - self.last_before) % 2 == 0
        if is_second:
            return [m for m in mergeable if m.snapshot == snapshot - 1]
        return [m for m in mergeable if m.snapshot <= self.last_before][:1] if self.layout == "merged" else []

    def _parts_to_merge_with(self, written: list[Manifest]) -> Iterator[Manifest]:
        for manifest in written:
            for piece in manifest.pieces:
                for start in range(piece.start, piece.stop, self._carried):
                    stop = min(start + self._carried, piece.stop)
                    part = Piece(snapshot=piece.snapshot, start=start, stop=stop)
                    yield Manifest(snapshot=manifest.snapshot, pieces=(part,))


def _split(snapshot: int, pieces: tuple[Piece, ...]) -> Iterator[Manifest]:
    """Manifests of bounded size, each with its share of every piece."""
    total = sum(len(p) for p in pieces)
    chunks = max(1, math.ceil(total / ENTRIES_PER_MANIFEST))
    for chunk in range(chunks):
        shares = (_share(p, chunk, chunks) for p in pieces)
        yield Manifest(snapshot=snapshot, pieces=tuple(p for p in shares if len(p)))


def _share(piece: Piece, chunk: int, chunks: int) -> Piece:
    start = piece.start + chunk * len(piece) // chunks
    return Piece(snapshot=piece.snapshot, start=start, stop=piece.start + (chunk + 1) * len(piece) // chunks)
