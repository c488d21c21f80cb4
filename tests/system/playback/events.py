"""Days of playback with late events and with corrections, as the tests of the talk's pipelines append them."""

from datetime import timedelta

import pyarrow as pa

from scripts.lake import EVENTS, create_events_table, day_of_events, midnight
from tests.kit.example_world import FIRST_DAY

ROWS = 400


def make_source(world, name="db.playback"):
    """An empty table of events."""
    return create_events_table(world.catalog, name)


def append_rows(world, name, rows):
    """Append events that are written as dicts."""
    world.catalog.load_table(name).append(pa.Table.from_pylist(rows, schema=EVENTS.as_arrow()))


def gain_a_day(world, name="db.playback", *, corrected=0):
    """Append a day of events with late ones, and corrections of earlier events; return its logical date."""
    day = world.next_day()
    earlier = world.rows(name)
    world.catalog.load_table(name).append(day_of_events(day, rows=ROWS, earliest=FIRST_DAY))
    if corrected:
        append_rows(world, name, corrections(last_versions(earlier), day, corrected))
    return midnight(day)


def corrections(events, day, count):
    """All events of some earlier keys, sent again as those of another account: the old keys lose every row."""
    keys = sorted({(e["event_date"], e["account_id"]) for e in events})[:: max(1, len(events) // count)]
    received = midnight(day) + timedelta(days=1, hours=1)
    return [
        {
            **e,
            "account_id": e["account_id"] + 5_000,
            "watched_seconds": e["watched_seconds"] + 1,
            "received_at": received,
        }
        for e in events
        if (e["event_date"], e["account_id"]) in keys
    ]


def last_versions(events):
    """One row per event: the last version of it that was received."""
    last = {}
    for e in sorted(events, key=lambda e: e["received_at"]):
        last[e["event_date"], e["event_id"]] = e
    return list(last.values())


def sorted_rows(rows):
    """Rows in an order of their own, every column of them."""
    return sorted(tuple(sorted(row.items())) for row in rows)
