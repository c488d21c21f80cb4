"""What is generated: how much, over how many days, and how late."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from benchmarks.pipeline.logic import WINDOW_DAYS

NEW_DAY: Final = date(2026, 11, 1)
"""Yesterday, as the pipeline sees it: the day that has no rows in any target yet."""

RELEASE: Final = 3
"""Of the generator. What another release has left in the cache is generated anew."""

VIEWS_AT_SCALE_1: Final = 20_000
EVENTS_PER_VIEW: Final = (20, 40)
"""Fewest and most: a heartbeat a minute, for as long as an episode lasts. All have one daily key."""
SPLIT_BYTES: Final = 16 * 2**20
"""What a task reads of raw events, and what a row group of theirs holds: a day is parsed by both cores to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One data set.

    :param scale: 1.0 is some 600,000 events a day
    :param days: how many days there are before the new one; the lookback of whoever looks back is as long
    :param late: the share of what arrives with the new day that belongs to those days, evenly spread over them
    :param seed: another one gives other rows of the same shape
    """

    scale: float
    days: int = 14
    late: float = 0.03
    seed: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be generated."""
        if self.scale <= 0 or self.days < 1 or not 0 <= self.late < 1:
            raise ValueError(f"{self}: scale and days are positive, late is a share from 0 to less than 1")

    @property
    def views(self) -> int:
        """Views of a day."""
        return max(int(VIEWS_AT_SCALE_1 * self.scale), 10)

    @property
    def late_views(self) -> int:
        """Late views of each earlier day."""
        arriving = self.views / (1 - self.late)
        return round(arriving * self.late / self.days)

    @property
    def accounts(self) -> int:
        """How many there may be; most of them are seldom seen."""
        return self.views * 2

    @property
    def daily_days(self) -> int:
        """Of how many earlier days there are daily rows: the windows of the first day reach further back."""
        return self.days + WINDOW_DAYS - 1

    @property
    def first_day(self) -> date:
        """The oldest."""
        return day(self.days)

    @property
    def base_name(self) -> str:
        """The days before are the same whatever is late, and however many of them are looked back to."""
        return f"release-{RELEASE}-scale-{self.scale:g}-seed-{self.seed}"

    @property
    def name(self) -> str:
        """The whole."""
        return f"{self.base_name}-days-{self.days}-late-{self.late:g}"


def day(age: int) -> date:
    """So many days before the new one."""
    return NEW_DAY - timedelta(days=age)
