"""`airflow ips replay` and `airflow ips gc`: past ranges again, and deleting what is no longer needed."""

# ruff: noqa: AIR311 - the rows in the database are the subject

import json
from contextlib import suppress
from pathlib import Path

import pytest

from airflow_provider_ips.checkpoints.variable import ServerVariables, VariableStore
from airflow_provider_ips.core.identifiers import variable_key
from airflow_provider_ips.iceberg import capture
from tests.checkpoints.test_cli import ips
from tests.kit.calls import CATALOG, FILE_IO, JOURNAL, DiedError, End
from tests.kit.pipelines import Job, checkpoint_of, incremental
from tests.kit.tables import append, create, icdc_tables, rows

__all__ = ["ips"]
pytestmark = pytest.mark.usefixtures("airflow_database")

MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
NOW = ("--older-than-days", "0")


@pytest.fixture
def events(lake):
    table = create(lake, "db.events")
    append(table, [1, 2])
    return table


def three_runs(lake, events, run_dag, dag_id, **options):
    """Commit [1, 2], [3] and [4]."""
    job, dag = Job(lake), None
    runs = []
    for more in ([], [3], [4]):
        if more:
            append(events, more)
        dag = incremental(dag_id, "db.events", job, **options)
        runs.append(run_dag(dag).dag_run)
    return runs


def replaying(ips, consumer, *words):
    return ips("replay", "--consumer", consumer, "--conn-id", "lake", *words)


def collecting(ips, *words, **typed):
    return ips("gc", "--conn-id", "lake", *words, **typed)


def files_of(folder):
    return sorted(str(path) for path in Path(folder).rglob("*") if path.is_file())


def test_a_past_range_is_captured_once_more(ips, lake, events, run_dag):
    """Under a name of its own; the checkpoint does not move, now or when the DAG goes on."""
    runs = three_runs(lake, events, run_dag, "replayed")
    before = checkpoint_of("replayed.capture")
    (row,) = replaying(ips, "replayed.capture", "--run-id", runs[1].run_id).rows
    assert rows(lake, row["icdc_table"]) == [3]
    assert checkpoint_of("replayed.capture") == before
    append(events, [5])
    job = Job(lake)
    run_dag(incremental("replayed", "db.events", job))
    assert job.seen == [[5]]
    assert rows(lake, row["icdc_table"]) == [3]


def test_the_same_replay_is_the_same_table(ips, lake, events, run_dag):
    """However often the command runs, and by either of its names."""
    runs = three_runs(lake, events, run_dag, "replayed_twice")
    newest = checkpoint_of("replayed_twice.capture").history[-1]
    tables = {
        replaying(ips, "replayed_twice.capture", *words).rows[0]["icdc_table"]
        for words in (
            ("--run-id", runs[2].run_id),
            ("--capture-id", newest.capture_id),
            ("--run-id", runs[2].run_id),
        )
    }
    assert len(tables) == 1
    assert tables.isdisjoint(newest.icdc_tables)


@pytest.mark.parametrize("end", End, ids=lambda end: end.value)
def test_whatever_call_of_a_replay_ends_badly_another_one_makes_the_same_table(
    ips, lake, events, run_dag, monkeypatch, end
):
    """And what a died one has left is found by gc; the checkpoint never notices."""
    runs = three_runs(lake, events, run_dag, "replayed_crash")
    before, kept = checkpoint_of("replayed_crash.capture"), icdc_tables(lake)
    files = files_of(lake.properties["warehouse"].removeprefix("file://"))
    extra = {k: lake.properties[k] for k in ("uri", "warehouse")} | {"py-catalog-impl": CATALOG, "py-io-impl": FILE_IO}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": extra}))
    wanted = ("replayed_crash.capture", "--run-id", runs[1].run_id)
    JOURNAL.start()
    replaying(ips, *wanted)
    calls = list(JOURNAL.names)
    JOURNAL.stop()
    collecting(ips, *NOW, "--yes")
    for at, name in enumerate(calls):
        JOURNAL.start(at, end)
        with suppress(DiedError):
            replaying(ips, *wanted)
        assert JOURNAL.was_reached, name
        JOURNAL.stop()
        (row,) = replaying(ips, *wanted).rows
        assert rows(lake, row["icdc_table"]) == [3], name
        assert checkpoint_of("replayed_crash.capture") == before
        collecting(ips, *NOW, "--yes")
        assert icdc_tables(lake) == kept, name
        assert files_of(lake.properties["warehouse"].removeprefix("file://")) == files, name


def test_a_full_first_range_is_replayed_as_it_was(ips, lake, events, run_dag):
    runs = three_runs(lake, events, run_dag, "replayed_full")
    (row,) = replaying(ips, "replayed_full.capture", "--run-id", runs[0].run_id).rows
    assert rows(lake, row["icdc_table"]) == [1, 2]


def test_a_first_range_that_began_at_initial_asks_where_that_was(ips, lake, events, run_dag):
    """No checkpoint keeps it."""
    start = str(events.refresh().current_snapshot().snapshot_id)
    append(events, [9])
    runs = three_runs(lake, events, run_dag, "replayed_initial", capture={"initial": start})
    command = ("replayed_initial.capture", "--run-id", runs[0].run_id)
    assert "--initial" in replaying(ips, *command).failure
    assert rows(lake, replaying(ips, *command, "--initial", start).rows[0]["icdc_table"]) == [9]


def test_a_dry_replay_makes_no_table(ips, lake, run_dag):
    """It counts what the replay captures: files, and not the manifests that list them."""
    events = create(lake, "db.events", properties=MERGING)
    for number in (1, 2):
        append(events, [number])
    runs = three_runs(lake, events, run_dag, "replayed_dry")
    there = icdc_tables(lake)
    words = ("replayed_dry.capture", "--run-id", runs[0].run_id)
    (row,) = replaying(ips, *words, "--dry-run").rows
    assert (row["icdc_table"], row["kind"]) == (None, "full")
    assert icdc_tables(lake) == there
    (replayed,) = replaying(ips, *words).rows
    assert row["files"] == replayed["files"] == "2"


def test_what_was_never_committed_is_not_replayed(ips, lake, events, run_dag):
    """An unknown capture, and one that is still pending."""
    job = Job(lake)
    job.fails = True
    ran = run_dag(incremental("replayed_pending", "db.events", job))
    for words in (("--run-id", ran.dag_run.run_id), ("--capture-id", "0" * 32), ()):
        assert "airflow ips history" in replaying(ips, "replayed_pending.capture", *words).failure
    assert checkpoint_of("replayed_pending.capture").pending is not None


def test_gc_drops_what_no_checkpoint_names(ips, lake, events, run_dag):
    """A replay, and a table that `icdc_retention="keep"` left; never what is pending, retained, or the newest."""
    runs = three_runs(lake, events, run_dag, "collected", commit={"icdc_retention": "keep"})
    kept = [c.icdc_tables[0] for c in checkpoint_of("collected.capture").history]
    (replayed,) = (r["icdc_table"] for r in replaying(ips, "collected.capture", "--run-id", runs[0].run_id).rows)
    append(events, [5])
    job = Job(lake)
    job.fails = True
    run_dag(incremental("collected", "db.events", job, commit={"icdc_retention": "keep"}))
    (pending,) = checkpoint_of("collected.capture").pending.icdc_tables
    sources = files_of(events.metadata.location.removeprefix("file://"))
    said = collecting(ips, *NOW, typed="icdc\n")
    assert said.failure == ""
    assert set(icdc_tables(lake)) == {kept[2], pending}
    assert {row["name"] for row in said.rows if row["delete"] == "yes"} == {kept[0], kept[1], replayed}
    assert files_of(events.metadata.location.removeprefix("file://")) == sources
    assert rows(lake, pending) == [5]


def test_gc_shows_first_and_asks(ips, lake, events, run_dag):
    """A dry run and a wrong word drop nothing; young tables stay whatever is typed."""
    three_runs(lake, events, run_dag, "confirmed", commit={"icdc_retention": "keep"})
    there = icdc_tables(lake)
    assert "nothing was written" in collecting(ips, *NOW, "--dry-run").remarks
    assert "not confirmed" in collecting(ips, *NOW, typed="y\n").failure
    assert "Nothing to collect" in collecting(ips, "--yes").remarks
    assert icdc_tables(lake) == there


def test_gc_leaves_alone_what_is_not_ours(ips, lake, events, run_dag):
    """A table of a user in the same namespace, one made by `iceberg.capture`, and any file that is named otherwise."""
    three_runs(lake, events, run_dag, "not_ours", commit={"icdc_retention": "keep"})
    append(create(lake, "icdc.mine"), [7])
    capture(lake, "db.events", into="icdc.by_hand")
    folder = Path(lake.load_table("icdc.mine").metadata.location.removeprefix("file://")).parent
    strange = folder / "icdc_notes_0123456789abcdef0123" / "metadata" / "notes.txt"
    strange.parent.mkdir(parents=True)
    strange.write_text("mine")
    collecting(ips, *NOW, "--yes")
    assert {"icdc.mine", "icdc.by_hand"} <= set(icdc_tables(lake))
    assert rows(lake, "icdc.mine") == [7]
    assert rows(lake, "icdc.by_hand") == [1, 2, 3, 4]
    assert strange.read_text() == "mine"


def test_gc_keeps_what_belongs_to_a_checkpoint_that_cannot_be_read(ips, lake, events, run_dag):
    """What it names is unknown."""
    three_runs(lake, events, run_dag, "unreadable", commit={"icdc_retention": "keep"})
    there = icdc_tables(lake)
    ServerVariables().set(variable_key("unreadable.capture"), "{", description="")
    said = collecting(ips, *NOW, "--yes")
    assert icdc_tables(lake) == there
    assert all("cannot be read" in row["reason"] for row in said.rows)


def test_gc_drops_tables_without_a_checkpoint_only_if_asked(ips, lake, events, run_dag):
    """Without a checkpoint here, they may be another deployment's."""
    from airflow.models import Variable

    three_runs(lake, events, run_dag, "without_checkpoint")
    there = icdc_tables(lake)
    Variable.delete(variable_key("without_checkpoint.capture"))
    collecting(ips, *NOW, "--yes")
    assert icdc_tables(lake) == there != []
    collecting(ips, *NOW, "--without-checkpoint", "--yes")
    assert icdc_tables(lake) == []


def test_gc_looks_in_both_stores(ips, lake, events, run_dag):
    """A consumer in Iceberg needs its tables too."""
    three_runs(lake, events, run_dag, "both", capture={"checkpoint_store": "iceberg"})
    there = icdc_tables(lake)
    collecting(ips, *NOW, "--without-checkpoint", "--yes")
    assert icdc_tables(lake) == there != []


def test_gc_deletes_files_that_no_table_names(ips, lake, events, run_dag):
    """Of a drop that died before it deleted files: all of them, and none of a table that is there."""
    three_runs(lake, events, run_dag, "died", commit={"icdc_retention": "keep"})
    lost, *others = icdc_tables(lake)
    location = Path(lake.load_table(lost).metadata.location.removeprefix("file://"))
    lake.drop_table(lost)
    assert files_of(location)
    before = {name: rows(lake, name) for name in others}
    collecting(ips, "--yes")
    assert files_of(location), "a capture under way would lose its files"
    newest = checkpoint_of("died.capture").history[-1].icdc_tables
    collecting(ips, *NOW, "--yes")
    assert files_of(location) == []
    assert all(rows(lake, name) == before[name] for name in others if name in newest)


def test_gc_spares_files_of_a_table_registered_elsewhere(ips, lake, events, run_dag):
    """Somebody keeps a capture under another name of the catalog."""
    three_runs(lake, events, run_dag, "elsewhere", commit={"icdc_retention": "keep"})
    name = icdc_tables(lake)[0].partition(".")[2]
    table = lake.load_table(f"icdc.{name}")
    lake.create_namespace("keepsakes")
    lake.register_table(f"keepsakes.{name}", table.metadata_location)
    lake.drop_table(f"icdc.{name}")
    expected = rows(lake, f"keepsakes.{name}")
    collecting(ips, *NOW, "--yes")
    assert rows(lake, f"keepsakes.{name}") == expected


def test_gc_of_a_namespace_that_does_not_exist_finds_nothing(ips, lake):
    assert "Nothing to collect" in collecting(ips, "--namespace", "never.made").remarks
    assert "negative" in collecting(ips, "--older-than-days", "-1").failure


def test_an_outage_of_a_store_collects_nothing(ips, lake, events, run_dag, monkeypatch):
    """What its checkpoints name is unknown."""
    three_runs(lake, events, run_dag, "outage", commit={"icdc_retention": "keep"})
    there = icdc_tables(lake)
    monkeypatch.setenv("AIRFLOW__IPS__CHECKPOINT_CONN_ID", "nowhere")
    assert "nowhere" in collecting(ips, *NOW, "--yes").failure
    assert icdc_tables(lake) == there
    assert VariableStore(ServerVariables()).read("outage.capture") is not None
