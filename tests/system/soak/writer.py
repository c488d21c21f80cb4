"""Whoever fills the source: appends rows of some late day every moment, and compacts now and then."""

import threading
import time
from datetime import date, timedelta

from pyiceberg.exceptions import CommitFailedException

from tests.kit import tables
from tests.kit.moves import compact
from tests.system.soak.totals import SCHEMA

DAYS = 6
TODAY = date(2026, 10, 15)


ATTEMPTS = 20


def _until_committed(write):
    """A capture in mode BRANCH commits to the source, too: whoever is late repeats, as any writer of Iceberg does."""
    for _ in range(ATTEMPTS - 1):
        try:
            return write()
        except (CommitFailedException, ValueError):  # the latter for a sequence number that was taken
            time.sleep(0.05)
    return write()


class Writer:
    """Writes ids that count up, so that a lost or doubled row has a name."""

    def __init__(self, lake, random):
        self.rows = self.appends = self.compactions = 0
        self._random = random
        self._events = lake.create("db.events")
        lake.create("db.log", **{"commit.retry.num-retries": "0"})
        lake.catalog.create_table("db.totals", schema=SCHEMA)
        self._stopped = threading.Event()
        self._error = None

    def run(self):
        """Until it is stopped; an error is told where somebody asks."""
        try:
            while not self._stopped.wait(self._random.uniform(0.2, 1.5)):
                self._append()
                if self._random.random() < 0.1:
                    _until_committed(lambda: compact(self._events))
                    self.compactions += 1
        except Exception as error:  # noqa: BLE001 - raised by check()
            self._error = error

    def stop(self):
        self._stopped.set()

    def check(self):
        """Fail where the writer has failed."""
        if self._error is not None:
            raise AssertionError(f"the writer failed: {self._error!r}") from self._error

    def _append(self):
        count = self._random.randint(1, 20)
        day = TODAY - timedelta(days=self._random.randrange(DAYS))
        ids = list(range(self.rows, self.rows + count))
        _until_committed(lambda: tables.append(self._events, ids, day=day))
        self.rows += count
        self.appends += 1
