"""The days of the demo: what arrives on each, how far they got, and where that is written down for `make day`."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from scripts.lake import DAYS_ROWS_ARE_LATE, day_of_events
from scripts.wide_events import create_wide_table, day_of_wide_events, with_payload

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

FOLDER: Final = Path(__file__).resolve().parent.parent / ".demo"
SOURCE: Final = "db.playback"
WINDOW_DAYS: Final = DAYS_ROWS_ARE_LATE + 1
DAYS_BEFORE: Final = WINDOW_DAYS - 1
"""How many arrive at once, before the first one that is processed."""
DAYS_OFFLINE: Final = 30
"""How late the views of a device come that was offline: no window holds them, even if days arrive ahead of time."""
OFFLINE_VIEWS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """Days that have arrived. Their contents follow from the seed and their number; the calendar only names them."""

    earliest: str
    rows: int
    seed: int
    arrived: int = 0

    @classmethod
    def ending(cls, last: date, *, days: int, rows: int, seed: int) -> Days:
        """So many days after those before. The window of the first of them still covers all that there is by then."""
        earliest = last - timedelta(days=days + DAYS_BEFORE - 1)
        return cls(earliest=earliest.isoformat(), rows=rows, seed=seed)

    @classmethod
    def read(cls, folder: Path) -> Days | None:
        """What was written down, if anything was."""
        path = folder / "days.json"
        return cls(**json.loads(path.read_text())) if path.exists() else None

    def write(self, folder: Path) -> None:
        """For the next command."""
        (folder / "days.json").write_text(json.dumps(asdict(self)))

    def day(self, number: int) -> date:
        """The date of a day."""
        return date.fromisoformat(self.earliest) + timedelta(days=number)

    @property
    def latest(self) -> date:
        """The day that arrived last."""
        return self.day(self.arrived - 1)

    @property
    def offline_date(self) -> date:
        """The date of the views that came last of all, outside the window of the day that they came on."""
        return self.latest - timedelta(days=DAYS_OFFLINE)

    def arrive(self, source: Table, *, with_offline: bool = False) -> Days:
        """Let the next day arrive, in one snapshot."""
        return self.append(source, self.next(with_offline=with_offline))

    def append(self, source: Table, events: pa.Table) -> Days:
        """Write what arrives on the next day."""
        source.append(events)
        return replace(self, arrived=self.arrived + 1)

    def next(self, *, with_offline: bool = False) -> pa.Table:
        """Return what arrives on the next day."""
        number, earliest = self.arrived, self.day(0)
        day = self.day(number)
        events = day_of_wide_events(day, number=number, rows=self.rows, earliest=earliest, seed=self.seed)
        return pa.concat_tables([self._offline(day, number), events]) if with_offline else events

    def _offline(self, day: date, number: int) -> pa.Table:
        """Views of a device that was offline when they happened; they are received with the others of the day."""
        then = day - timedelta(days=DAYS_OFFLINE)
        views = day_of_events(then, rows=OFFLINE_VIEWS, earliest=then, seed=self.seed + 1, number=number)
        at = views.column_names.index("received_at")
        received = pa.array([datetime(day.year, day.month, day.day, tzinfo=UTC)] * len(views))
        received = received.cast(views.schema.field("received_at").type)
        views = views.set_column(at, views.schema.field("received_at"), received)
        _, once = np.unique(views["event_id"].to_numpy(), return_index=True)  # the first is sent twice
        views = views.take(pa.array(once))
        return with_payload(views, np.random.default_rng([self.seed, number, 2]))


def keep_memory() -> None:
    """Keep what Arrow has freed for some seconds: memory for each day of payloads takes longer to get than to write."""
    if "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
        pa.jemalloc_set_decay_ms(10_000)


def first_days(catalog: Catalog, days: Days, arrived: Callable[[int], None] | None = None) -> tuple[Table, Days]:
    """Make the source, with what has arrived before the days that are processed."""
    source = create_wide_table(catalog, SOURCE)
    # While one day is written, the next one is made up.
    with ThreadPoolExecutor(1) as maker:
        made = maker.submit(days.next)
        for number in range(DAYS_BEFORE):
            events = made.result()
            if number + 1 < DAYS_BEFORE:
                made = maker.submit(replace(days, arrived=number + 1).next)
            days = days.append(source, events)
            if arrived is not None:
                arrived(number)
    return source, days
