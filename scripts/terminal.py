"""What a command says while it works: one line that changes on a terminal, plain lines anywhere else."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS_BETWEEN_LINES: Final = 20.0
"""How often a step that lasts says so where no line can be overwritten."""


@dataclass(slots=True, kw_only=True)
class Progress:
    """Numbered steps, each with what is going on in it."""

    steps: int
    stream: TextIO = field(default_factory=lambda: sys.stdout)
    clock: Callable[[], float] = time.monotonic
    _step: int = 0
    _begun: float = 0.0
    _step_begun: float = 0.0
    _said: float = 0.0

    def __post_init__(self) -> None:
        """Start the clock."""
        self._begun = self.clock()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return self.clock() - self._begun

    def begin(self, what: str) -> None:
        """Begin the next step."""
        self._step += 1
        self._step_begun = self._said = self.clock()
        self._show(what, always=True)

    def update(self, what: str) -> None:
        """Say what is going on in this step."""
        lasted = self.clock() - self._step_begun
        self._show(f"{what}, {lasted:.0f} s" if lasted >= 1 else what, always=False)

    def end(self, what: str) -> None:
        """Say what came of this step, in a line that stays."""
        print(f"{self._clear()}{self._prefix()}{what}", file=self.stream, flush=True)
        self._step_begun = self._said = self.clock()

    def _show(self, what: str, *, always: bool) -> None:
        if self.stream.isatty():
            width = shutil.get_terminal_size().columns - 1
            print(f"{self._clear()}{(self._prefix() + what + ' …')[:width]}", end="", file=self.stream, flush=True)
        elif always or self.clock() - self._said >= SECONDS_BETWEEN_LINES:
            self._said = self.clock()
            print(f"{self._prefix()}{what} …", file=self.stream, flush=True)

    def _clear(self) -> str:
        return "\r\x1b[2K" if self.stream.isatty() else ""

    def _prefix(self) -> str:
        minutes, seconds = divmod(int(self.seconds), 60)
        return f"{minutes}:{seconds:02}  {self._step:>2}/{self.steps}  "
