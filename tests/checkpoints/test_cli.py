"""`airflow ips`, through Airflow's own parser and database, and as a process of its own."""

# ruff: noqa: AIR311 - the rows in the database are the subject

import getpass
import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from airflow.models import Variable

from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.checkpoints.variable import ServerVariables, VariableStore
from airflow_provider_ips.cli.terminal import Terminal
from airflow_provider_ips.core.checkpoint.entries import PendingCapture, SourceRange
from airflow_provider_ips.core.checkpoint.resolution import new_capture_id
from airflow_provider_ips.core.checkpoint.transitions import begin, commit
from airflow_provider_ips.core.identifiers import Source, variable_key
from airflow_provider_ips.core.positions import RunIdentity
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.sightings.consumer_sighting import SeenBy
from airflow_provider_ips.iceberg.source.iceberg_source import open_source, position_at
from airflow_provider_ips.maintenance.overview import LagOptions, lag
from airflow_provider_ips.maintenance.watch import Watcher
from tests.checkpoints.conftest import standing
from tests.core.test_long_history import CAPTURES, SOURCES, long_checkpoint
from tests.kit.tables import append, create

pytestmark = pytest.mark.usefixtures("airflow_database")


@dataclass
class Said:
    """What a command printed, and how it ended."""

    failure: str
    output: str
    remarks: str

    @property
    def rows(self):
        return json.loads(self.output)


@pytest.fixture
def ips(capsys, monkeypatch):
    """Run `airflow ips …` within this process, answering its question with ``typed``."""
    from airflow.cli import cli_parser

    # A command says that it is a server process; what comes after this test must not inherit that.
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")

    def run(*words, typed=""):
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", Typed(typed))
        monkeypatch.setattr("sys.argv", ["airflow", "ips", *words])
        args = cli_parser.get_parser().parse_args(["ips", *words, *(["-o", "json"] if "-o" not in words else [])])
        failure = ""
        try:
            args.func(args)
        except SystemExit as end:
            failure = str(end)
        captured = capsys.readouterr()
        return Said(failure=failure, output=captured.out, remarks=captured.err)

    return run


@dataclass
class Typed:
    """A keyboard."""

    line: str

    def readline(self):
        return self.line

    def isatty(self):
        return False


@pytest.fixture
def store():
    return VariableStore(access=ServerVariables())


@pytest.fixture
def table(lake):
    """A table of three snapshots."""
    made = create(lake, "db.t")
    for day in range(3):
        append(made, [day])
    return made


def snapshots(table):
    return [entry.snapshot_id for entry in table.refresh().history()]


def seeding(consumer, *words):
    return ("seed", "--consumer", consumer, "--conn-id", "lake", "--table", "db.t", *words)


def committed(store, consumer, day, snapshot_id):
    """Let a run capture and commit."""
    document = pending(store, consumer, day, snapshot_id)
    capture = document.pending
    after = commit(document, capture_id=capture.capture_id, run=capture.run, now_ms=day).checkpoint
    store.write(after, expected_revision=document.revision)
    return capture.capture_id


def pending(store, consumer, day, snapshot_id, position=None):
    """Let a run capture."""
    document = store.read(consumer)
    run = RunIdentity(dag_id="daily", run_id=f"r{day}", map_index=-1, run_after=f"2026-11-{day:02d}T00:00:00+00:00")
    taken = SourceRange(
        source=Source("db.t"),
        kind=Kind.RANGE,
        from_exclusive=None if document is None else document.position_of(Source("db.t")),
        to_inclusive=position or standing(snapshot_id).position,
        icdc_table=f"icdc.t_{day}",
    )
    capture_id = new_capture_id(document, consumer=consumer, run=run)
    begun = begin(
        document,
        consumer=consumer,
        pending=PendingCapture(capture_id=capture_id, run=run, started_at_ms=day, ranges=(taken,)),
    )
    store.write(begun, expected_revision=None if document is None else document.revision)
    return begun


def test_a_snapshot_is_seeded(ips, store, table, consumer):
    """Everything up to it counts as processed; the answer is a row and the document."""
    chosen = snapshots(table)[1]
    said = ips(*seeding(consumer, "--snapshot", str(chosen), "--yes"))
    assert said.failure == ""
    assert [(row["source"], row["from_snapshot"], row["to_snapshot"]) for row in said.rows] == [
        ("db.t", None, str(chosen))
    ]
    position = store.read(consumer).position_of(Source("db.t"))
    assert (position.snapshot_id, position.table_uuid) == (chosen, str(table.metadata.table_uuid))


def test_a_time_is_seeded_by_the_snapshot_before_it(ips, store, table, consumer):
    """Rows committed up to that moment are in the target already."""
    second = table.refresh().history()[1]
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=second.timestamp_ms)
    assert ips(*seeding(consumer, "--time", moment.isoformat(), "--yes")).failure == ""
    assert store.read(consumer).position_of(Source("db.t")).snapshot_id == second.snapshot_id


def test_the_latest_is_seeded(ips, store, table, consumer):
    """For a target that a full load has just filled."""
    assert ips(*seeding(consumer, "--latest", "--yes")).failure == ""
    assert store.read(consumer).position_of(Source("db.t")).snapshot_id == snapshots(table)[-1]


def test_a_branch_is_seeded_by_its_own_history(ips, store, table, consumer):
    """Each branch is a source of its own."""
    first = snapshots(table)[0]
    table.manage_snapshots().create_branch(first, "audit").commit()
    assert ips(*seeding(consumer, "--branch", "audit", "--latest", "--yes")).failure == ""
    assert store.read(consumer).position_of(Source("db.t", "audit")).snapshot_id == first
    assert store.read(consumer).position_of(Source("db.t")) is None


def test_a_dry_run_writes_nothing(ips, store, table, consumer):
    """It shows the row that would be written, and says so."""
    said = ips(*seeding(consumer, "--latest", "--dry-run"))
    assert said.rows[0]["to_snapshot"] == str(snapshots(table)[-1])
    assert "nothing was written" in said.remarks
    assert store.read(consumer) is None


def test_the_name_must_be_typed(ips, store, table, consumer):
    """Enter, "y" and end of input are no confirmation; the consumer's name is."""
    for typed in ("", "\n", "y\n", f"{consumer}x\n"):
        assert "not confirmed" in ips(*seeding(consumer, "--latest"), typed=typed).failure
        assert store.read(consumer) is None
    assert ips(*seeding(consumer, "--latest"), typed=f"{consumer}\n").failure == ""
    assert store.read(consumer).revision == 1


def test_an_existing_checkpoint_is_not_seeded_over(ips, store, table, consumer):
    """Not even with --yes."""
    ips(*seeding(consumer, "--snapshot", str(snapshots(table)[0]), "--yes"))
    before = store.read(consumer)
    assert "has a position" in ips(*seeding(consumer, "--latest", "--yes")).failure
    assert store.read(consumer) == before


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "0 of --snapshot, --time and --latest"),
        (("--latest", "--snapshot", "1"), "2 of --snapshot, --time and --latest"),
        (("--snapshot", "12"), "snapshot 12 is not in the lineage"),
        (("--snapshot", "newest"), "not a snapshot id"),
        (("--time", "yesterday"), "not an ISO 8601 time"),
        (("--time", "2026-10-01T00:00:00"), "no time zone"),
        (("--latest", "--table", "db.nothing"), "db.nothing does not exist"),
        (("--latest", "--table", "nothing"), "malformed table identifier"),
        (("--latest", "--branch", "nowhere"), "nowhere"),
        (("--latest", "--conn-id", "nowhere"), "connection 'nowhere' does not exist"),
    ],
)
def test_a_seed_that_cannot_be_right_is_refused(ips, store, table, consumer, words, problem):
    """With the bad value and what to do, before anything is written, and without a traceback."""
    said = ips(*seeding(consumer, *words, "--yes"))
    assert problem in said.failure
    assert "What to do:" in said.failure
    assert store.read(consumer) is None


def test_where_a_consumer_stands_is_shown(ips, store, consumer):
    """Committed and pending, side by side; snapshot ids as strings."""
    committed(store, consumer, 1, 10)
    pending(store, consumer, 2, 20)
    (row,) = ips("show", "--consumer", consumer).rows
    assert (row["snapshot"], row["pending_snapshot"], row["pending_run"]) == ("10", "20", "daily/r2")


def test_history_is_shown(ips, store, consumer):
    """One row per capture and source, newest last."""
    ids = [committed(store, consumer, day, day * 10) for day in (1, 2)]
    rows = ips("history", "--consumer", consumer).rows
    assert [(row["capture_id"], row["run"], row["from_snapshot"], row["to_snapshot"]) for row in rows] == [
        (ids[0], "daily/r1", None, "10"),
        (ids[1], "daily/r2", "10", "20"),
    ]


def test_a_long_history_is_shown_and_rewound_like_any_other(ips, store, consumer):
    """Its document is stored in a short form."""
    document = replace(long_checkpoint(), consumer=consumer)
    store.write(document, expected_revision=None)
    undone, newest = document.history[10], document.history[-1]

    shown = ips("history", "--consumer", consumer).rows
    listed = {row["consumer"]: row for row in ips("list").rows}[consumer]
    pending = ips("show", "--consumer", consumer).rows
    ips("rewind", "--consumer", consumer, "--capture-id", undone.capture_id, "--yes")

    assert len(shown) == CAPTURES * len(SOURCES)
    assert shown[-1]["to_snapshot"] == str(newest.ranges[-1].to_inclusive.snapshot_id)
    assert SOURCES[-1].label in listed["sources"]
    assert pending[0]["snapshot"] == str(newest.ranges[0].to_inclusive.snapshot_id)
    rewound = store.read(consumer)
    assert rewound.position_of(SOURCES[7]) == undone.ranges[7].from_exclusive
    assert rewound.history == document.history[:10]


def test_a_misspelt_consumer_or_table_is_suggested(ips, store, table, consumer):
    """The nearest name is in the remedy, whether a checkpoint or the catalog has it."""
    committed(store, consumer, 1, 10)
    assert f"did you mean {consumer!r}?" in ips("show", "--consumer", f"{consumer}x").failure
    for command in ("reset", "rewind"):
        place = ("--snapshot", str(snapshots(table)[0])) if command == "rewind" else ()
        words = ("--consumer", consumer, "--conn-id", "lake", "--table", "db.tt", *place)
        assert "did you mean 'db.t'?" in ips(command, *words).failure
    assert "did you mean 'db.t'?" in ips(*seeding(f"{consumer}2", "--latest", "--table", "db.tt")).failure


@pytest.mark.parametrize("command", ["list", "gc"])
def test_help_names_options_of_the_configuration_with_their_section(command, capsys):
    """Airflow prints help texts as rich markup, in which brackets have a meaning."""
    from airflow.cli import cli_parser

    with pytest.raises(SystemExit):
        cli_parser.get_parser().parse_args(["ips", command, "--help"])
    assert "[ips] " in capsys.readouterr().out


def test_a_table_shows_options_of_the_configuration_with_their_section(capsys):
    """It is printed as rich markup, too."""
    Terminal(output="table").show([{"remedy": "set [ips] checkpoint_store"}])
    assert "set [ips] checkpoint_store" in capsys.readouterr().out


def test_lag_says_why_it_is_not_known(ips, store, table, consumer):
    """A name may be misspelt, or a consumer has no position: an exit code alone says neither."""
    pending(store, consumer, 1, 10)
    Watcher(variables=ServerVariables(), iceberg_conn_id="lake", seen_by=SeenBy.COMMAND).look([store], consumer)

    misspelt, uncommitted = (ips("lag", "--consumer", name) for name in (f"{consumer}x", consumer))

    assert (misspelt.failure, uncommitted.failure) == ("2", "2")
    assert f"Did you mean {consumer!r}?" in misspelt.remarks
    assert f"no position was seen: {consumer}." in uncommitted.remarks


def test_lag_suggests_a_name_of_the_store_that_has_the_checkpoints(ips, store, lake, consumer):
    """Not that of another consumer, whose checkpoint is in the other store; nor any, if the store cannot be read."""
    pending(store, f"{consumer}2", 1, 10)
    pending(IcebergStore(lake), consumer, 1, 10)

    known, misspelt, unread = (
        ips("lag", "--store", "iceberg", "--conn-id", conn_id, "--consumer", name).remarks
        for conn_id, name in (("lake", consumer), ("lake", f"{consumer}x"), ("nowhere", f"{consumer}x"))
    )

    assert f"Never seen: {consumer}. The DAG ips_watch" in known
    assert f"Did you mean {consumer!r}?" in misspelt
    assert f"Never seen: {consumer}x. The DAG ips_watch" in unread


class ListedVariables(ServerVariables):
    """Variables, and the prefixes by which they were listed."""

    def __init__(self):
        self.prefixes = []

    def keys(self, *, prefix):
        self.prefixes.append(prefix)
        return super().keys(prefix=prefix)


def test_lag_of_a_consumer_that_was_seen_reads_nothing_of_others(store, table, consumer):
    """A deployment may have thousands of checkpoints."""
    pending(store, consumer, 1, 10)
    variables = ListedVariables()
    Watcher(variables=variables, iceberg_conn_id="lake", seen_by=SeenBy.COMMAND).look([store], consumer)

    lag(Terminal("json", variables), LagOptions(consumer=consumer))

    assert variables.prefixes == []


@pytest.mark.parametrize("command", ["show", "history", "reset", "abandon"])
def test_an_unknown_consumer_is_said_to_be_unknown(ips, consumer, command):
    """The name may be misspelled; the list of names is one command away."""
    failure = ips(command, "--consumer", consumer).failure
    assert "has no checkpoint" in failure
    assert "airflow ips list" in failure


def test_all_consumers_are_listed(ips, store, consumer):
    """With a damaged one among them, which is listed and does not hide the others."""
    committed(store, consumer, 1, 10)
    Variable.set(variable_key("broken.capture"), '{"consumer": "broken.capture"}')
    Variable.set(variable_key("mute.capture"), "{")
    try:
        rows = {row["consumer"]: row for row in ips("list").rows}
        assert rows[consumer]["sources"] == "db.t"
        assert "no usable schema_version" in rows["broken.capture"]["problem"]
        assert rows[f"Variable {variable_key('mute.capture')}"]["problem"] == "damaged"
    finally:
        Variable.delete(variable_key("broken.capture"))
        Variable.delete(variable_key("mute.capture"))


@pytest.mark.parametrize("by", ["run", "capture"])
def test_a_consumer_is_rewound(ips, store, consumer, by):
    """To before a run or a capture; the next run takes everything since."""
    ids = [committed(store, consumer, day, day * 10) for day in (1, 2, 3)]
    words = ("--run-id", "r2") if by == "run" else ("--capture-id", ids[1])
    said = ips("rewind", "--consumer", consumer, *words, "--yes")
    assert [(row["from_snapshot"], row["to_snapshot"]) for row in said.rows] == [("30", "10")]
    assert store.read(consumer).position_of(Source("db.t")).snapshot_id == 10


def stepwise(store, consumer, table):
    """Let three runs commit one snapshot each."""
    for day, snapshot_id in enumerate(snapshots(table), start=1):
        pending(
            store,
            consumer,
            day,
            snapshot_id,
            position=position_at(open_source(table.catalog, Source("db.t")), snapshot_id=snapshot_id),
        )
        document = store.read(consumer)
        done = commit(document, capture_id=document.pending.capture_id, run=document.pending.run, now_ms=day)
        store.write(done.checkpoint, expected_revision=document.revision)


@pytest.mark.parametrize("by", ["snapshot", "time", "latest run"])
def test_a_consumer_is_rewound_to_a_place(ips, store, table, consumer, by):
    """A snapshot, or a time, that the table's history knows; runs that reach beyond are undone."""
    stepwise(store, consumer, table)
    first, second, third = snapshots(table)
    at_ms = table.snapshot_by_id(first).timestamp_ms
    words = {
        "snapshot": ("--snapshot", str(first)),
        "time": ("--time", datetime.fromtimestamp(at_ms / 1000, tz=UTC).isoformat(timespec="milliseconds")),
        "latest run": ("--snapshot", str(second), "--table", "db.t"),
    }[by]
    dry = ips("rewind", "--consumer", consumer, "--conn-id", "lake", *words, "--dry-run")
    assert "Dry run" in dry.remarks
    assert store.read(consumer).position_of(Source("db.t")).snapshot_id == third
    said = ips("rewind", "--consumer", consumer, "--conn-id", "lake", *words, typed=consumer)
    assert said.failure == ""
    wanted = second if by == "latest run" else first
    assert [(row["from_snapshot"], row["to_snapshot"]) for row in said.rows] == [(str(third), str(wanted))]
    after = store.read(consumer)
    assert after.position_of(Source("db.t")).snapshot_id == wanted
    assert [c.run.run_id for c in after.history] == (["r1", "r2"] if by == "latest run" else ["r1"])
    assert [i.verb for i in after.interventions] == ["rewind"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--snapshot", "4711"), "not in the lineage"),
        (("--snapshot", "head"), "not a snapshot id"),
        (("--time", "2026-10-01T00:00:00"), "no time zone"),
        (("--time", "2999-10-01T00:00:00+00:00"), "is not earlier than"),
        (("--snapshot", "1", "--time", "2026-10-01T00:00:00+00:00"), "2 of --snapshot, --time"),
        (("--snapshot", "1", "--run-id", "r1"), "is given together with"),
        (("--snapshot", "1", "--table", "db.other"), "does not exist"),
        (("--snapshot", "1", "--branch", "audit"), "0 sources on branch 'audit'"),
    ],
)
def test_a_rewind_to_no_place_is_refused(ips, store, table, consumer, words, problem):
    """With the bad value; nothing is written."""
    stepwise(store, consumer, table)
    before = store.read(consumer)
    assert problem in ips("rewind", "--consumer", consumer, "--conn-id", "lake", *words, "--yes").failure
    assert store.read(consumer) == before


@pytest.mark.parametrize(
    "words",
    [
        ("rewind", "--run-id", "r1", "--table", "db.t"),
        ("rewind", "--run-id", "r1", "--branch", "audit"),
        ("reset", "--branch", "audit"),
    ],
)
def test_an_option_that_would_not_be_followed_is_refused(ips, store, consumer, words):
    """It names one source, and the command would change all of them."""
    committed(store, consumer, 1, 10)
    command, *rest = words
    assert "names one source" in ips(command, "--consumer", consumer, *rest, "--yes").failure
    assert store.read(consumer).revision == 2


def test_a_consumer_without_a_name_is_not_seeded(ips, store, table):
    """No command could read its checkpoint."""
    assert "has no name" in ips(*seeding("", "--latest", "--yes")).failure
    assert store.read("") is None


@pytest.mark.parametrize("words", [(), ("--run-id", "r1", "--capture-id", "x"), ("--run-id", "r9")])
def test_a_rewind_must_say_where_to(ips, store, consumer, words):
    """Exactly once, and to a place that is remembered."""
    committed(store, consumer, 1, 10)
    assert "airflow ips history" in ips("rewind", "--consumer", consumer, *words, "--yes").failure
    assert store.read(consumer).revision == 2


def test_a_consumer_is_reset(ips, store, consumer):
    """In all its sources; afterwards it can be seeded."""
    committed(store, consumer, 1, 10)
    said = ips("reset", "--consumer", consumer, "--yes")
    assert "rebuild the target" in said.remarks
    assert [(row["from_snapshot"], row["to_snapshot"]) for row in said.rows] == [("10", None)]
    assert store.read(consumer).positions == ()


def test_one_source_is_reset(ips, store, consumer):
    """Named by table and branch; one it does not have is refused."""
    committed(store, consumer, 1, 10)
    assert "no position" in ips("reset", "--consumer", consumer, "--table", "db.other", "--yes").failure
    assert ips("reset", "--consumer", consumer, "--table", "db.t", "--yes").failure == ""
    assert store.read(consumer).positions == ()
    assert len(store.read(consumer).history) == 1


def test_a_pending_capture_is_abandoned(ips, store, consumer):
    """The position stays."""
    committed(store, consumer, 1, 10)
    pending(store, consumer, 2, 20)
    (row,) = ips("abandon", "--consumer", consumer, "--dry-run").rows
    assert (row["source"], row["pending_snapshot"], row["pending_run"]) == ("db.t", "20", "daily/r2")
    assert "daily/r2" in ips("abandon", "--consumer", consumer, "--yes").remarks
    after = store.read(consumer)
    assert after.pending is None
    assert after.position_of(Source("db.t")).snapshot_id == 10
    assert "may have written to the target" in ips("abandon", "--consumer", consumer, "--yes").failure
    said = ips("abandon", "--consumer", consumer, "--wrote-nothing", "--yes")
    assert "the target must be right as it is" in said.remarks
    assert store.read(consumer).begun == ()


def test_a_checkpoint_that_moves_while_the_question_waits_is_not_overwritten(ips, store, consumer, monkeypatch):
    """Somebody commits between the question and its answer."""
    committed(store, consumer, 1, 10)

    class Slow(Typed):
        def readline(self):
            committed(store, consumer, 2, 20)
            return self.line

    monkeypatch.setattr("tests.checkpoints.test_cli.Typed", Slow)
    said = ips("reset", "--consumer", consumer, typed=f"{consumer}\n")
    assert "is at revision 4" in said.failure
    assert store.read(consumer).position_of(Source("db.t")).snapshot_id == 20


def airflow(*words, **environment):
    return subprocess.run(
        ["airflow", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_commands_work_as_a_process(store, table, consumer):
    """Seed, then show: JSON alone on standard output, remarks on standard error."""
    seeded = airflow("ips", *seeding(consumer, "--latest", "--yes", "-o", "json"))
    assert seeded.returncode == 0, seeded.stderr
    assert json.loads(seeded.stdout)[0]["to_snapshot"] == str(snapshots(table)[-1])
    assert "Written" in seeded.stderr
    shown = airflow("ips", "show", "--consumer", consumer, "-o", "json")
    assert json.loads(shown.stdout)[0]["snapshot"] == str(snapshots(table)[-1])


@pytest.mark.parametrize("command", ["show", "abandon"])
def test_an_unreachable_database_is_no_absence(consumer, tmp_path, command):
    """A database without tables: the command fails with what to do in a terminal, and does not say "no checkpoint".

    So does a command that Airflow's audit log is to get.
    """
    nothing = f"sqlite:///{tmp_path}/none.db"
    ended = airflow("ips", command, "--consumer", consumer, AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=nothing)
    assert ended.returncode == 1
    assert "airflow db check" in ended.stderr
    assert "let the task run again" not in ended.stderr
    assert "has no checkpoint" not in ended.stderr
    assert "Traceback" not in ended.stderr


def test_who_did_what_is_on_record(ips, store, consumer):
    """In Airflow's audit log, with the command's arguments, and in the document, which `history` shows."""
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    committed(store, consumer, 1, 10)
    ips("reset", "--consumer", consumer, "--yes")
    with create_session() as session:
        logged = [row.extra for row in session.scalars(select(Log).where(Log.event == "cli_reset_command"))]
    assert any(consumer in (extra or "") for extra in logged)
    (intervention,) = store.read(consumer).interventions
    assert (intervention.verb, intervention.who) == ("reset", getpass.getuser())
    assert ips("history", "--consumer", consumer).rows[-1]["run"] == f"reset by {getpass.getuser()}"


def test_commands_that_only_read_variables_do_not_import_pyiceberg():
    """A list of 500 consumers would take a third longer."""
    program = "import airflow_provider_ips.cli.reading, sys; sys.exit('pyiceberg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_table_is_estimated_for_people_and_for_programs(ips, table):
    """Rows and words, or one document. It needs no checkpoint, and writes nothing."""
    asked = ("estimate", "--table", "db.t", "--column", "day", "--conn-id", "lake")
    before = snapshots(table)

    document = ips(*asked).rows
    assert document["days"][-1]["note"] == "so far"
    assert 'source_tables="db.t", iceberg_conn_id="lake"' in document["code"]
    assert document["total"]["capture"]["files"] == len(before)
    assert snapshots(table) == before
    assert "--column event_date" in ips("estimate", "--table", "db.t", "--conn-id", "lake").failure
