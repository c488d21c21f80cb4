"""A rolling week, between the captured bounds: a late row changes the weeks that end up to six days after it."""

from collections import Counter
from datetime import timedelta

from scripts.lake import midnight
from tests.system.playback.events import append_rows, make_source, sorted_rows

PLAIN, INCREMENTAL = "range_rolling_plain", "range_rolling_incremental"


def weeks(events):
    """Seconds watched per title in the week that ends with each of its days."""
    per_day: Counter = Counter()
    for e in events:
        per_day[e["event_date"], e["title_id"]] += e["watched_seconds"]
    return [
        {
            "event_date": day,
            "title_id": title,
            "seconds_in_week": sum(per_day[day - timedelta(days=n), title] for n in range(7)),
        }
        for day, title in list(per_day)
    ]


def event(number, day, *, title):
    at = midnight(day)
    return {
        "event_id": number,
        "event_date": day,
        "event_time": at + timedelta(hours=12),
        "account_id": 1,
        "title_id": title,
        "watched_seconds": 60 + number,
        "received_at": at,
        "device": "tv",
    }


def rolled(world, dag_id):
    return sorted_rows(world.rows(f"db.{dag_id}"))


def days_made_anew(world):
    target = world.catalog.load_table(f"db.{INCREMENTAL}")
    newest = target.current_snapshot().snapshot_id
    entries = target.inspect.entries().to_pylist()
    return {
        e["data_file"]["partition"]["event_date"] for e in entries if e["snapshot_id"] == newest and e["status"] == 1
    }


def test_a_late_row_reaches_every_week_that_it_belongs_to(world):
    """Ten days, then a row six days late, then one far later than that: each sum equals a full recomputation."""
    make_source(world)
    days = [world.next_day() for _ in range(12)]
    start = [event(n * 10 + title, day, title=title) for n, day in enumerate(days[:10]) for title in (1, 2)]
    append_rows(world, "db.playback", start)
    world.run(INCREMENTAL, midnight(days[9]))

    append_rows(world, "db.playback", [event(1_000, days[4], title=1), event(1_001, days[4], title=3)])
    _, record = world.run(INCREMENTAL, midnight(days[10]))
    (bounds,) = record["sources"][0]["ranges"]
    assert (bounds["lower"], bounds["upper"]) == (str(days[4]), str(days[4]))
    assert rolled(world, INCREMENTAL) == sorted_rows(weeks(world.rows("db.playback")))
    assert days_made_anew(world) == set(days[4:10]), "no day before the late row has a week that holds it"

    append_rows(world, "db.playback", [event(2_000, days[11], title=2), event(2_001, days[1], title=2)])
    world.run(INCREMENTAL, midnight(days[11]))
    world.run(PLAIN, midnight(days[11]))
    everything = sorted_rows(weeks(world.rows("db.playback")))
    assert rolled(world, INCREMENTAL) == everything
    assert rolled(world, PLAIN) == everything
