"""What wakes a DAG: the trigger in a real event loop, over a real catalog."""

import asyncio
import gc
import json
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, AssetWatcher
from airflow.serialization.decoders import smart_decode_trigger_kwargs
from airflow.serialization.encoders import encode_trigger
from airflow.triggers.base import BaseEventTrigger

from airflow_provider_ips import IcebergAppendTrigger, IpCaptureOperator, IpCommitOperator, SourceTable
from airflow_provider_ips import watching as tables_module
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import SourcePosition
from airflow_provider_ips.core.errors import CatalogError, InputError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.watching.thresholds import AtLeast
from airflow_provider_ips.iceberg.gc_pause import LongLivedObjects
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from airflow_provider_ips.runs.environment import now_ms, open_named_store
from tests.airflow.counting import IMPLEMENTATION, CountingCatalog
from tests.kit.moves import QUIET, compact, expire, roll_back
from tests.kit.tables import append, create

INTERVAL_S = 0.05
PATIENCE_S = 20


class FakeState:
    """An asset's state store as a trigger sees it."""

    def __init__(self):
        self.values = {}

    async def aget(self, key, default=None):
        return json.loads(self.values[key]) if key in self.values else default

    async def aset(self, key, value):
        self.values[key] = json.dumps(value)


class StateWithoutCoroutines:
    """What Airflow 3.3.0 and 3.3.1 give a trigger; it must not be called in the event loop, which would wait for it."""

    def __init__(self):
        self.values = {}

    def get(self, key, default=None):
        refuse_in_event_loop()
        return json.loads(self.values[key]) if key in self.values else default

    def set(self, key, value):
        refuse_in_event_loop()
        self.values[key] = json.dumps(value)


def refuse_in_event_loop():
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()


class SharedState(FakeState):
    """What Airflow gives a trigger that several assets watch."""

    async def aget(self, key, default=None):
        raise ValueError("Task has 2 concrete inlets and outlets: use context['asset_state_store'][MY_ASSET]")


class Watching:
    """A running trigger: its next event, or the certainty that there will not be one."""

    def __init__(self, events):
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.task = asyncio.create_task(self._drain(events))

    async def _drain(self, events):
        async for event in events:
            self._queue.put_nowait(event.payload)

    async def event(self):
        return await asyncio.wait_for(self._queue.get(), PATIENCE_S)

    async def assert_quiet(self):
        """Let three whole polls pass."""
        seen = len(CountingCatalog.loads)
        async with asyncio.timeout(PATIENCE_S):
            while len(CountingCatalog.loads) < seen + 4 and not self.task.done():  # noqa: ASYNC110 - threads count the loads
                await asyncio.sleep(INTERVAL_S / 5)
        assert self._queue.empty(), self._queue.get_nowait()


@asynccontextmanager
async def watching(trigger, events=None):
    running = Watching(trigger.run() if events is None else events)
    try:
        yield running
    finally:
        running.task.cancel()
        await asyncio.gather(running.task, return_exceptions=True)


def watcher(state=None, **parameters):
    """A trigger as a triggerer builds it: from what was serialised, with an asset's state."""
    defaults = {"table": "db.events", "iceberg_conn_id": "lake", "poll_interval": INTERVAL_S}
    trigger = rebuilt(IcebergAppendTrigger(**{**defaults, **parameters}))
    trigger.asset_state_store = state
    return trigger


def rebuilt(trigger):
    encoded = encode_trigger(trigger)
    return type(trigger)(**{k: smart_decode_trigger_kwargs(v) for k, v in encoded["kwargs"].items()})


def checkpoint_at(consumer, position):
    """Let a consumer stand there, in the store that a triggerer reaches by itself."""
    store = open_named_store("iceberg", iceberg_conn_id="lake")
    read = store.read(consumer)
    revision = 0 if read is None else read.revision
    positions = (SourcePosition(source=Source("db.events"), position=position),)
    written = Checkpoint(consumer=consumer, revision=revision + 1, positions=positions)
    store.write(written, expected_revision=revision or None)


async def in_thread(function, *arguments):
    return await asyncio.to_thread(function, *arguments)


def records(event):
    return [table["records"] for table in event["tables"] if table["ready"]]


def head_of(table):
    table.refresh()
    return str(table.current_snapshot().snapshot_id)


@pytest.fixture(autouse=True)
def counting(lake, monkeypatch):
    """Every load through the connection is counted, and can be made to fail."""
    extra = {**{k: v for k, v in lake.properties.items() if k != "type"}, "py-catalog-impl": IMPLEMENTATION}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": extra}))
    tables_module.shared_tables.cache_clear()
    CountingCatalog.loads.clear()
    yield
    CountingCatalog.faults.clear()


@pytest.fixture
def table(lake):
    table = create(lake, "db.events")
    append(table, [1, 2, 3])
    return table


def test_every_append_wakes_once(table):
    """And the event says what came."""

    async def story():
        async with watching(watcher(since=head_of(table))) as events:
            await events.assert_quiet()
            await in_thread(append, table, [4, 5])
            event = await events.event()
            assert (event["status"], records(event)) == ("ready", [2])
            assert event["tables"][0]["head"]["snapshot_id"] == head_of(table)
            await events.assert_quiet()
            await in_thread(append, table, [6])
            assert records(await events.event()) == [1]

    asyncio.run(story())


@pytest.mark.parametrize("move", QUIET)
def test_what_adds_no_row_wakes_nobody(table, move):
    """And hides nothing that comes after it."""
    append(table, [4])

    async def story():
        async with watching(watcher(since=head_of(table))) as events:
            await events.assert_quiet()
            await in_thread(move, table)
            await events.assert_quiet()
            await in_thread(append, table, [5])
            assert records(await events.event()) == [1]

    asyncio.run(story())


def test_compaction_and_expiry_of_what_was_reported_last_fires_no_event(table):
    """The watermark follows compactions, so that expiring older snapshots makes no gap."""

    async def story():
        async with watching(watcher(since=head_of(table))) as events:
            await events.assert_quiet()
            for _ in range(2):
                await in_thread(compact, table)
                await events.assert_quiet()
            await in_thread(expire, table)
            await events.assert_quiet()
            await in_thread(append, table, [4])
            assert (await events.event())["status"] == "ready"

    asyncio.run(story())


def test_without_a_start_the_first_event_is_about_the_table(table):
    """initial="latest" starts with what comes."""

    async def story():
        async with watching(watcher()) as events:
            assert records(await events.event()) == [3]
            await events.assert_quiet()
        async with watching(watcher(initial="latest")) as events:
            await events.assert_quiet()
            await in_thread(append, table, [4])
            assert records(await events.event()) == [1]

    asyncio.run(story())


@pytest.mark.parametrize("kind", [FakeState, StateWithoutCoroutines])
def test_a_restart_repeats_nothing_and_loses_nothing(table, kind):
    """What was reported is kept with the asset; rows from the time in between are reported once."""
    state = kind()

    async def story():
        async with watching(watcher(state)) as events:
            await events.event()
            await events.assert_quiet()
        async with watching(watcher(state)) as events:
            await events.assert_quiet()
        await in_thread(append, table, [4])
        await in_thread(append, table, [5])
        async with watching(watcher(state)) as events:
            assert records(await events.event()) == [2]
            await events.assert_quiet()

    asyncio.run(story())
    assert "token" not in str(state.values)


def test_a_restart_just_after_an_event_repeats_it(table):
    """The event may not be stored yet: reported twice is one wake-up too many, forgotten would be a lost change."""
    state = FakeState()

    async def story():
        events = watcher(state).run()
        await asyncio.wait_for(anext(events), PATIENCE_S)
        await events.aclose()
        async with watching(watcher(state)) as again:
            assert records(await again.event()) == [3]

    asyncio.run(story())


def test_rows_of_an_unreadable_watermark_are_reported_again(table):
    """Whatever stands there, the trigger goes on."""
    state = FakeState()
    state.values["ips_told"] = json.dumps({"schema_version": 2})

    async def story():
        async with watching(watcher(state)) as events:
            assert records(await events.event()) == [3]

    asyncio.run(story())


def test_several_assets_on_one_trigger_lose_nothing(table):
    """Airflow keeps no state for them together, so a restart reports the newest rows again."""

    async def story():
        for _ in range(2):
            async with watching(watcher(SharedState())) as events:
                assert records(await events.event()) == [3]
                await events.assert_quiet()

    asyncio.run(story())


# --- outages and problems ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [OSError("no route"), CatalogError("storage is down"), RuntimeError("a bug")])
def test_a_watcher_rides_out_whatever_fails(table, fault, capsys):
    """Dying would have it restarted every second; the log says what is wrong and when it is tried again."""
    since = head_of(table)
    append(table, [4])
    CountingCatalog.faults["db.events"] = fault

    async def story():
        async with watching(watcher(since=since)) as events:
            await events.assert_quiet()
            CountingCatalog.faults.clear()
            assert records(await events.event()) == [1]

    asyncio.run(story())
    said = capsys.readouterr().out
    assert str(fault) in said
    assert ("Trying again in 0.1 s" in said and "in 0.2 s" in said) is not isinstance(fault, RuntimeError)


def test_pauses_grow_while_a_catalog_is_out():
    """Doubling, up to five minutes; a longer interval stays as it is."""
    trigger = watcher(poll_interval=60)

    assert [trigger._pause_s(failures) for failures in (0, 1, 2, 3, 99)] == [60, 120, 240, 300, 300]
    assert watcher(poll_interval=3600)._pause_s(5) == 3600


def test_one_table_out_of_order_does_not_hide_the_other(table, lake):
    """With require="any"; and it keeps the pace of the interval."""
    create(lake, "db.others")
    CountingCatalog.faults["db.others"] = OSError("no route")

    async def story():
        both = watcher(table=["db.others", "db.events"], initial="latest")
        async with watching(both) as events:
            await events.assert_quiet()
            await in_thread(append, table, [4])
            assert records(await events.event()) == [1]

    asyncio.run(story())


def test_a_problem_is_reported_once_and_again_with_the_next_head(table, lake):
    """A table dropped and made again has no history in common: a run must be started for its capture to say so."""
    since = head_of(table)

    append(create(lake, "db.fresh"), [7])

    def recreate():
        lake.drop_table("db.events")
        lake.rename_table("db.fresh", "db.events")

    async def story():
        async with watching(watcher(since=since)) as events:
            await events.assert_quiet()
            await in_thread(recreate)
            event = await events.event()
            assert event["status"] == "problem"
            assert "another table" in event["tables"][0]["reason"]
            await events.assert_quiet()
            await in_thread(append, lake.load_table("db.events"), [8])
            assert records(await events.event()) == [1]

    asyncio.run(story())


def test_rows_behind_a_rollback_wake(table):
    """The branch goes on from the fork."""
    append(table, [4, 5])

    async def story():
        async with watching(watcher(since=head_of(table))) as events:
            await events.assert_quiet()
            await in_thread(roll_back, table)
            await in_thread(append, table, [6])
            event = await events.event()
            assert (event["status"], records(event)) == ("ready", [1])

    asyncio.run(story())


def test_a_table_that_does_not_exist_yet_is_waited_for(lake):
    async def story():
        async with watching(watcher(table="db.born")) as events:
            await events.assert_quiet()
            append(create(lake, "db.born"), [1])
            assert records(await events.event()) == [1]

    asyncio.run(story())


# --- a consumer's checkpoint ------------------------------------------------------------------------------------


def test_a_consumer_is_woken_again_as_long_as_rows_are_left(table, lake):
    """A bounded capture commits a part: the moved checkpoint makes the rest news."""
    first = open_source(lake, Source("db.events")).position
    append(table, [4])
    middle = open_source(lake, Source("db.events")).position
    append(table, [5])
    checkpoint_at("readers", first)

    async def story():
        async with watching(watcher(consumer="readers", checkpoint_store="iceberg")) as events:
            assert records(await events.event()) == [2]
            await events.assert_quiet()
            await in_thread(checkpoint_at, "readers", middle)
            assert records(await events.event()) == [1]
            await in_thread(checkpoint_at, "readers", open_source(lake, Source("db.events")).position)
            await events.assert_quiet()

    asyncio.run(story())


def test_thresholds_count_what_came_since_the_last_event(table, lake):
    """While the run that was woken has not committed, every further append would else start one more."""
    checkpoint_at("readers", open_source(lake, Source("db.events")).position)

    async def story():
        async with watching(watcher(consumer="readers", checkpoint_store="iceberg", min_records=2)) as events:
            await in_thread(append, table, [4])
            await events.assert_quiet()
            await in_thread(append, table, [5])
            assert records(await events.event()) == [2]
            await in_thread(append, table, [6])
            await events.assert_quiet()
            await in_thread(append, table, [7])
            assert records(await events.event()) == [2]

    asyncio.run(story())


# --- pauses -----------------------------------------------------------------------------------------------------


def test_events_keep_their_distance_across_restarts(table):
    """What comes too early is in the next event, whoever runs the trigger by then."""
    state = FakeState()
    pausing = {"since": head_of(table), "min_interval": 4}

    async def story():
        async with watching(watcher(state, **pausing)) as events:
            await in_thread(append, table, [4])
            assert records(await events.event()) == [1]
            reported = time.monotonic()
            await in_thread(append, table, [5])
            while "event_at_ms" not in state.values.get("ips_told", ""):  # noqa: ASYNC110 - a dict has no events
                await asyncio.sleep(INTERVAL_S)
        async with watching(watcher(state, **pausing)) as events:
            await in_thread(append, table, [6])
            assert records(await events.event()) == [2]
            assert time.monotonic() - reported > 3.9

    asyncio.run(story())


def test_a_burst_is_one_event(table):
    """It is reported when nothing came for so long."""

    async def story():
        async with watching(watcher(since=head_of(table), quiet_for=1.5)) as events:
            for row in (4, 5, 6):
                await in_thread(append, table, [row])
                await asyncio.sleep(0.3)
            assert records(await events.event()) == [3]
            await events.assert_quiet()

    asyncio.run(story())


# --- for a capture ----------------------------------------------------------------------------------------------


def capture_of(**parameters):
    defaults = {"task_id": "capture", "source_tables": ["db.events"], "iceberg_conn_id": "lake", "consumer": "readers"}
    return IpCaptureOperator(**{**defaults, **parameters})


def test_a_capture_says_what_to_watch(table, lake):
    """Tables, connection, consumer, store and rules; the rest is the watcher's own."""
    checkpoint_at("readers", open_source(lake, Source("db.events")).position)
    capture = capture_of(checkpoint_store="iceberg", on_other_operation="skip", initial="latest")
    trigger = IcebergAppendTrigger.for_capture(capture, poll_interval=INTERVAL_S, min_records=2)

    async def story():
        async with watching(rebuilt(trigger)) as events:
            await in_thread(append, table, [4])
            await events.assert_quiet()
            await in_thread(append, table, [5])
            assert records(await events.event()) == [2]

    asyncio.run(story())
    assert trigger.watch.settings.on_other_operation == "skip"
    assert trigger.initial == "latest"


def test_a_capture_made_before_its_dag_can_start_it():
    """An asset is there before the DAG that it starts."""
    capture = capture_of()
    trigger = IcebergAppendTrigger.for_capture(capture)
    watched = Asset("events", watchers=[AssetWatcher(name="appends", trigger=trigger)])
    with DAG("started", schedule=[watched]) as dag:
        capture >> IpCommitOperator(task_id="commit", capture=capture)

    assert set(dag.task_ids) == {"capture", "commit"}
    assert trigger.watch.consumer == "readers"


@pytest.mark.parametrize(
    ("of_capture", "beside", "named"),
    [
        ({"consumer": None}, {}, "neither a consumer nor a DAG"),
        ({"consumer": "{{ dag.dag_id }}"}, {}, "consumer='.*' of the capture is a template"),
        ({}, {"table": "db.others"}, "table='db.others' contradicts"),
        ({}, {"consumer": "others"}, "consumer='others' contradicts"),
        ({}, {"iceberg_conn_id": "elsewhere"}, "iceberg_conn_id='elsewhere' contradicts"),
        ({}, {"min_interval": 0}, "min_interval=0"),
        ({}, {"min_interval": 5, "once": True}, "only one event"),
    ],
    ids=str,
)
def test_a_watcher_that_could_not_follow_its_capture_is_refused(of_capture, beside, named):
    """While the DAG file is read."""
    with pytest.raises(InputError, match=named):
        IcebergAppendTrigger.for_capture(capture_of(**of_capture), **beside)


# --- for a sensor -----------------------------------------------------------------------------------------------


def test_for_a_sensor_it_ends_with_its_event(table):
    """One event, and the trigger is done."""
    since = head_of(table)
    append(table, [4])

    async def story():
        async with watching(watcher(since=since, once=True)) as events:
            assert (await events.event())["status"] == "ready"
            await asyncio.wait_for(events.task, PATIENCE_S)

    asyncio.run(story())


def test_for_a_sensor_it_gives_up_in_time(table):
    """Also while the catalog is out."""
    CountingCatalog.faults["db.events"] = OSError("no route")
    give_up = now_ms() + 1500

    async def story():
        waiting = watcher(since=head_of(table), once=True, poll_interval=60.0, give_up_at_ms=give_up)
        async with watching(waiting) as events:
            assert await events.event() == {"status": "timeout", "give_up_at_ms": give_up}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"since": "1234567890123"}, "not in the lineage"),
        ({"table": "db.nowhere", "missing": "fail"}, "db.nowhere does not exist"),
        ({"iceberg_conn_id": "nowhere"}, "connection 'nowhere' does not exist"),
    ],
)
def test_for_a_sensor_a_problem_is_reported_at_once(table, parameters, said):
    """The sensor looks again and fails with it."""

    async def story():
        async with watching(watcher(**{"since": "2026-10-01T00:00:00Z", "once": True, **parameters})) as events:
            event = await events.event()
            assert event["status"] == "problem"
            assert said in json.dumps(event)

    asyncio.run(story())


def test_for_a_sensor_a_bug_is_raised(table):
    """A failed task with a traceback, not a wait without end."""
    CountingCatalog.faults["db.events"] = RuntimeError("a bug")

    async def story():
        async with watching(watcher(since=head_of(table), once=True)) as events:
            await asyncio.wait([events.task], timeout=PATIENCE_S)
            assert isinstance(events.task.exception(), RuntimeError)

    asyncio.run(story())


# --- what it costs ----------------------------------------------------------------------------------------------


@pytest.mark.needs_airflow_3_3("triggers share a poll")
def test_watchers_of_one_table_share_one_poll(table):
    """Through Airflow's own shared streams: three triggers, each with its own condition, and one load per poll."""
    from airflow.triggers.shared_stream import SharedStreamManager

    async def story():
        streams = SharedStreamManager()
        triggers = [watcher(min_records=n, since=head_of(table)) for n in (1, 2, 50)]
        key = triggers[0].shared_stream_key()
        assert all(trigger.shared_stream_key() == key for trigger in triggers)

        def shared(number):
            raw = streams.subscribe(trigger_id=number, trigger=triggers[number], key=key)
            return triggers[number].filter_shared_stream(raw)

        async with (
            watching(triggers[0], shared(0)) as one,
            watching(triggers[1], shared(1)) as two,
            watching(triggers[2], shared(2)) as fifty,
        ):
            started, before = time.monotonic(), len(CountingCatalog.loads)
            await one.assert_quiet()
            polls = (time.monotonic() - started) / INTERVAL_S
            assert len(CountingCatalog.loads) - before <= polls + 1
            await in_thread(append, table, [4])
            assert records(await one.event()) == [1]
            await two.assert_quiet()
            await in_thread(append, table, [5])
            assert records(await two.event()) == [2]
            await fifty.assert_quiet()
        await streams.stop_all()

    asyncio.run(story())


def test_a_table_that_did_not_change_is_kept_as_it_was_parsed(table):
    """The cycle collector walks whatever every poll creates, which holds up the event loop."""
    tables, key = tables_module.Tables("lake"), Source("db.events")

    with tables.kept([key]):
        first = tables.load(key)
        assert first is not None
        keys_of_first = first.table.io
        assert tables.load(key) is first
        assert first.table.io is not keys_of_first  # those that a catalog hands out expire
        append(table, [4])
        changed = tables.load(key)
        assert changed is not first
        assert tables.load(key) is changed
    assert tables.load(key) is not changed


def test_tables_of_the_first_format_are_kept_too(lake):
    """Their metadata has no sequence numbers."""
    append(create(lake, "db.v1", properties={"format-version": "1"}), [1])
    tables, key = tables_module.Tables("lake"), Source("db.v1")

    with tables.kept([key]):
        assert tables.load(key) is tables.load(key)


def test_a_change_is_seen_though_the_catalog_names_no_metadata_file(table, monkeypatch):
    """A REST catalog may leave the name out."""
    load = CountingCatalog.load_table

    def nameless(self, identifier):
        loaded = load(self, identifier)
        loaded.metadata_location = ""
        return loaded

    monkeypatch.setattr(CountingCatalog, "load_table", nameless)
    tables, key = tables_module.Tables("lake"), Source("db.events")

    with tables.kept([key]):
        first = tables.load(key)
        assert tables.load(key) is first
        append(table, [4])
        changed = tables.load(key)
        assert changed is not None
        assert str(changed.position.snapshot_id) == head_of(table)


def test_two_who_watch_a_table_keep_it_until_both_have_gone(table):
    tables, key = tables_module.Tables("lake"), Source("db.events")

    with tables.kept([key]):
        with tables.kept([key]):
            first = tables.load(key)
        assert tables.load(key) is first


def test_what_stays_is_set_aside_from_the_cycle_collector_ever_more_seldom():
    """Once when the first table is watched, then when there is more, with pauses that double."""
    now = [1000.0]
    lasting = LongLivedObjects(clock=lambda: now[0])
    at_first = gc.get_freeze_count()

    def grown_after(seconds):
        now[0] += seconds
        lasting.has_grown = True
        return lasting.freeze_if_due()

    try:
        assert lasting.freeze_if_due()
        assert gc.get_freeze_count() > at_first
        assert [grown_after(19), grown_after(1), grown_after(39), grown_after(1)] == [False, True, False, True]
        now[0] += 10_000
        assert not lasting.freeze_if_due()
    finally:
        gc.unfreeze()


def test_other_tables_and_intervals_are_polled_apart(lake):
    """Only what is loaded decides who shares."""
    keys = {
        trigger.shared_stream_key()
        for trigger in (
            watcher(),
            watcher(table="db.others"),
            watcher(table=SourceTable("db.events", branch="audit")),
            watcher(poll_interval=1),
            watcher(iceberg_conn_id="elsewhere"),
        )
    }

    assert len(keys) == 5


def test_a_slow_catalog_does_not_hold_up_the_event_loop(table, monkeypatch):
    """PyIceberg runs in threads: other triggers go on while a load takes its time."""
    load = CountingCatalog.load_table

    def slow(self, identifier):
        time.sleep(0.5)
        return load(self, identifier)

    monkeypatch.setattr(CountingCatalog, "load_table", slow)

    async def story():
        longest = 0.0
        async with watching(watcher()) as events:
            waiting = asyncio.create_task(events.event())
            while not waiting.done():
                started = time.monotonic()
                await asyncio.sleep(0.01)
                longest = max(longest, time.monotonic() - started)
        return longest

    assert asyncio.run(story()) < 0.4


# --- what Airflow keeps of it -----------------------------------------------------------------------------------


def test_it_survives_being_stored():
    """Rebuilt from Airflow's database it watches the same, and is recognised as the same trigger."""
    trigger = IcebergAppendTrigger(
        table=["db.a", SourceTable("db.b", branch="audit", on_other_operation="skip")],
        consumer="readers",
        initial="latest",
        on_gap="resync",
        min_files=3,
        min_bytes=AtLeast(10, or_after=60),
        quiet_for=2,
        or_after=5,
        min_interval=timedelta(minutes=1),
        require="all",
        missing="fail",
        poll_interval=7,
    )

    again = rebuilt(trigger)

    assert again.watch == trigger.watch
    assert again.serialize() == trigger.serialize()
    assert BaseEventTrigger.hash(*again.serialize()) == BaseEventTrigger.hash(*trigger.serialize())


def test_an_asset_can_be_watched_with_it():
    """The use that needs no sensor."""
    trigger = IcebergAppendTrigger(table="db.events")

    asset = Asset("events", watchers=[AssetWatcher(name="appends", trigger=trigger)])

    assert asset.watchers[0].trigger is trigger


@pytest.mark.parametrize("interval", [0, -1, float("nan"), True])
def test_an_interval_without_a_pause_is_refused(interval):
    """It would ask the catalog as fast as it answers."""
    with pytest.raises(InputError, match="poll_interval"):
        IcebergAppendTrigger(table="db.events", poll_interval=interval)
