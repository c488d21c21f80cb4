"""A source that stays within few partitions: its late events lie no further back than its first day."""

from scripts.lake import day_of_events, midnight
from tests.examples.world import FIRST_DAY

ROWS = 300


def gain_a_day(world, name="db.playback"):
    """Append a day of events, late ones of the days before among them; return its logical date."""
    day = world.next_day()
    world.catalog.load_table(name).append(day_of_events(day, rows=ROWS, earliest=FIRST_DAY))
    return midnight(day)


def span(world, finished):
    """From where to where a run has captured."""
    (source,) = world.xcom(finished, "capture", "capture")["sources"]
    return source["from"], source["to"]


def fail():
    """A worker that dies when the task has done its work: what `after=` lets happen."""
    raise RuntimeError("the worker died, as the test wants it")
