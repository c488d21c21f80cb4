"""What the jobs do with what no test's day brings: unknown values, overlapping attempts, other time zones."""

import sys
import threading
import time

import pytest

from scripts.lake import Lake
from scripts.local_airflow import EXAMPLES
from tests.kit.spark import session_on

STAMP = "spark.sql.iceberg.snapshot-property.ips-capture-id"
IMPOSSIBLE = "watched_seconds IS NULL OR watched_seconds NOT BETWEEN 0 AND 86400"
EVENTS = (
    "event_id BIGINT, event_date DATE, event_time TIMESTAMP, account_id INT, title_id INT, watched_seconds INT, "
    "received_at TIMESTAMP, device STRING"
)
MEMBERSHIPS = "event_id BIGINT, event_date DATE, account_id INT, action STRING, cents_per_month BIGINT"
MOST_MINUTES = 1_440.0


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A session in this process that knows an empty lake."""
    lake = Lake.on_sqlite(tmp_path_factory.mktemp("jobs") / "lake")
    lake.catalog().create_namespace("db")
    with pytest.MonkeyPatch.context() as patch, session_on(lake, cores=4) as session:
        patch.syspath_prepend(str(EXAMPLES / "jobs"))
        yield session


@pytest.fixture
def job(spark):
    """Import a job file by its name."""

    def imported(name):
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        # One of them is called like a function of Python; none is to be left for other tests to find.
        module = __import__(name)
        del sys.modules[name]
        return module.main

    return imported


def make(spark, name, *rows, columns=EVENTS):
    """A table of that many events."""
    spark.sql(f"CREATE TABLE lake.db.{name} ({columns}) USING iceberg PARTITIONED BY (event_date)")
    if rows:
        spark.sql(f"INSERT INTO lake.db.{name} VALUES {', '.join(rows)}")
    return f"lake.db.{name}"


def event(number, *, seconds=60, day="2026-10-01", account=1, at=None):
    when = at or f"{day} 10:00:00"
    return (
        f"({number}, DATE '{day}', TIMESTAMP '{when}', {account}, 1, {seconds}, TIMESTAMP '2026-10-03 00:00:00', 'tv')"
    )


def rows(spark, table):
    return sorted((tuple(row) for row in spark.table(table).collect()), key=str)


def test_a_group_of_unknown_seconds_is_a_group(spark, job):
    """It stays while it has a row, takes what becomes known, and goes when its last row has gone."""
    cascade = job("cascade")
    source, target = make(spark, "unknown", event(1, seconds="NULL")), "lake.db.unknown_accounts"
    nothing = make(spark, "unknown_before")
    for _ in range(2):
        cascade("accounts", source, source, nothing, target)
        assert [row[3:] for row in rows(spark, target)] == [(1, None)]
    spark.sql(f"UPDATE {source} SET watched_seconds = 7")
    cascade("accounts", source, source, nothing, target)
    assert [row[3:] for row in rows(spark, target)] == [(1, 7)]
    before = make(spark, "unknown_was", event(1))
    spark.sql(f"DELETE FROM {source}")
    cascade("accounts", source, source, before, target)
    assert rows(spark, target) == []


def test_what_does_not_differ_is_not_written_again(spark, job):
    """Also where a fact is unknown: the next level would have to do its groups anew."""
    cascade = job("cascade")
    source, target = make(spark, "same", event(1, seconds="NULL"), event(2, account=2)), "lake.db.same_accounts"
    nothing = make(spark, "same_before")
    cascade("accounts", source, source, nothing, target)
    cascade("accounts", source, source, nothing, target)
    (first, *others) = spark.sql(f"SELECT summary FROM {target}.snapshots ORDER BY committed_at").collect()
    assert first["summary"]["added-records"] == "2"
    assert [other["summary"].get("added-records") for other in others] in ([], [None])


def test_days_are_those_of_utc_wherever_spark_runs(spark, job):
    """Bounds of the evening and of the next night name both days."""
    days = job("range")
    source = make(spark, "zones", event(1, day="2026-10-01"), event(2, day="2026-10-02"))
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    days(source, "lake.db.zones_hours", "2026-10-01T20:00:00+00:00", "2026-10-02T02:00:00+00:00")
    assert [str(row[0]) for row in rows(spark, "lake.db.zones_hours")] == ["2026-10-01", "2026-10-02"]


def audited(job, name, source, capture_id, spark):
    """Write, audit and publish one capture."""
    spark.conf.set(STAMP, capture_id)
    target, branch = f"lake.db.{name}", f"audit_{capture_id}"
    job("write_to_branch")(source, target, branch)
    job("audit_branch")(source, target, branch, MOST_MINUTES)
    job("publish_branch")(target, branch)


def test_the_audit_looks_at_what_was_captured(spark, job):
    """A row that somebody published on purpose blocks nobody, and one of unknown length is not published."""
    good = make(spark, "audit_good", event(1))
    audited(job, "audited", good, "c1", spark)
    spark.sql("INSERT INTO lake.db.audited VALUES (7, DATE '2026-10-01', 1, 1, 99999.0)")
    audited(job, "audited", make(spark, "audit_next", event(2)), "c2", spark)
    unknown = make(spark, "audit_unknown", event(3, seconds="NULL"))
    with pytest.raises(SystemExit, match="with an impossible length or without one': 1"):
        audited(job, "audited", unknown, "c3", spark)
    assert sorted(row[0] for row in rows(spark, "lake.db.audited")) == [1, 2, 7]


def test_the_first_write_of_all_can_be_repeated(spark, job):
    """Its audit has refused it, or it died: the branch is there, and main has no snapshot yet."""
    source, target = make(spark, "first_of_all", event(1)), "lake.db.first_audited"
    spark.conf.set(STAMP, "f1")
    job("write_to_branch")(source, target, "audit_f1")
    audited(job, "first_audited", source, "f1", spark)
    assert [row[0] for row in rows(spark, target)] == [1]


def test_a_publication_is_repeated_when_main_has_moved_on(spark, job):
    """It died between moving main and dropping the branch: only the branch is left to do."""
    source, target = make(spark, "moved", event(1)), "lake.db.moved_audited"
    spark.conf.set(STAMP, "m1")
    job("write_to_branch")(source, target, "audit_m1")
    spark.sql(f"CALL lake.system.fast_forward('{target}', 'main', 'audit_m1')")
    spark.sql(f"INSERT INTO {target} VALUES (8, DATE '2026-10-01', 1, 1, 1.0)")
    job("audit_branch")(source, target, "audit_m1", MOST_MINUTES)
    for _ in range(2):
        job("publish_branch")(target, "audit_m1")
    assert sorted(row[0] for row in rows(spark, target)) == [1, 8]
    assert [row["name"] for row in spark.table(f"{target}.refs").collect()] == ["main"]


def test_a_refilled_day_keeps_what_a_live_run_has_merged_since_the_capture(spark, job):
    """A late row and a correction, of the day that was captured before them; of another day nothing is touched."""
    source, target = make(spark, "refilled", event(1), event(2), event(3, day="2026-10-02")), "lake.db.refilled_daily"
    captured = make(spark, "refill_captured", event(1), event(2))
    late = ["(7, DATE '2026-10-01', TIMESTAMP '2026-10-01 10:00:00', 1, 1, 60, TIMESTAMP '2026-10-04 00:00:00', 'tv')"]
    late += ["(1, DATE '2026-10-01', TIMESTAMP '2026-10-01 10:00:00', 1, 1, 99, TIMESTAMP '2026-10-04 00:00:00', 'tv')"]
    spark.sql(f"INSERT INTO {source} VALUES {', '.join(late)}")
    job("playback_daily")(source, target, "0001-01-01")
    spark.sql(f"UPDATE {target} SET watched_seconds = -1 WHERE event_id IN (2, 3)")
    spark.sql(f"INSERT INTO {target} SELECT 8, * EXCEPT (event_id) FROM {target} WHERE event_id = 7")

    job("playback_refill")(captured, source, target)

    seconds = {row["event_id"]: row["watched_seconds"] for row in spark.table(target).collect()}
    assert seconds == {1: 99, 2: 60, 3: -1, 7: 60}


def slowly(number, seconds):
    """Read a row, as long as that takes."""
    time.sleep(seconds)
    return number


@pytest.mark.parametrize(("day", "gets_through"), [("2026-10-02", True), ("2026-10-01", False)])
def test_a_refill_minds_what_is_written_to_its_own_days_only(spark, job, day, gets_through):
    """Another chunk, or a live run, commits while it computes. It fails rather than merge into what it has not seen."""
    name = f"beside_{gets_through}".lower()
    source, target = make(spark, name, event(1), event(2, day="2026-10-02")), f"lake.db.{name}_daily"
    captured = make(spark, f"{name}_captured", event(1))
    refill, ended = job("playback_refill"), []
    job("playback_daily")(source, target, "0001-01-01")
    spark.sql(f"UPDATE {target} SET watched_seconds = -1 WHERE event_id = 1")
    spark.udf.register("slowly", slowly, "bigint")
    spark.sql(
        f"CREATE OR REPLACE TEMP VIEW slow_{name} AS SELECT slowly(event_id, 8) AS event_id, * EXCEPT (event_id) "
        f"FROM {source}"
    )

    def attempt():
        try:
            refill(captured, f"slow_{name}", target)
            ended.append("success")
        except Exception as error:  # noqa: BLE001 - whatever Spark says, it is looked at below
            ended.append(str(error))

    thread = threading.Thread(target=attempt)
    thread.start()
    time.sleep(5)
    spark.sql(f"INSERT INTO {target} SELECT 9, DATE '{day}', * EXCEPT (event_id, event_date) FROM {target} LIMIT 1")
    assert ended == [], "the test shows nothing if the refill had ended before"
    thread.join()

    seconds = {row["event_id"]: row["watched_seconds"] for row in spark.table(target).collect()}
    assert seconds == {1: 60 if gets_through else -1, 2: 60, 9: seconds[9]}
    assert "success" in ended if gets_through else "conflict" in ended[0]


def test_of_two_attempts_that_overlap_one_inserts(spark, job):
    """Both find no stamp and write; whoever wants to be seen second fails, and its next attempt leaves the log be."""
    membership = job("membership")
    one = "(1, DATE '2026-10-01', 1, 'joined', 799)"
    source, target = make(spark, "members", one, columns=MEMBERSHIPS), "lake.db.members_log"
    spark.conf.set(STAMP, "o1")
    spark.udf.register("slowly", slowly, "bigint")
    ended = {}

    def attempt(number, seconds):
        view = f"members_in_{seconds}"
        spark.sql(
            f"CREATE OR REPLACE TEMP VIEW {view} AS SELECT slowly(event_id, {seconds}) AS event_id, event_date, "
            f"account_id, action, cents_per_month FROM {source}"
        )
        try:
            membership(view, target, None)
            ended[number] = "success"
        except Exception as error:  # noqa: BLE001 - whatever Spark says, it is looked at below
            ended[number] = str(error)

    membership(f"(SELECT * FROM {source} WHERE false)", target, None)  # an insert of nothing, with its stamp
    spark.conf.set(STAMP, "o2")
    attempts = [threading.Thread(target=attempt, args=(1, 6)), threading.Thread(target=attempt, args=(2, 14))]
    for each in attempts:
        each.start()
        time.sleep(1)
    for each in attempts:
        each.join()
    assert ended[1] == "success"
    assert "fast-forward" in ended[2]
    assert len(rows(spark, target)) == 1
    attempt(2, 0)
    assert ended[2] == "success"
    assert len(rows(spark, target)) == 1


def test_what_stops_the_job_goes_into_quarantine(spark, job):
    """Unknown seconds too; each version of an event is named once, and the job then takes the others."""
    clean, recover = job("auto_remediation"), job("quarantine")
    source = make(
        spark,
        *("sick", event(1, seconds="NULL"), event(2, seconds=99_999), event(2, seconds=88_888), event(3)),
    )
    target, quarantine = "lake.db.sick_clean", "lake.db.sick_quarantine"
    with pytest.raises(Exception, match="cannot be"):
        clean(source, target, quarantine, IMPOSSIBLE)
    for _ in range(2):
        recover(source, quarantine, IMPOSSIBLE)
    clean(source, target, quarantine, IMPOSSIBLE)
    assert [row[0] for row in rows(spark, target)] == [3]
    assert [(row[0], row[3]) for row in rows(spark, quarantine)] == [
        (1, "lasts for unknown seconds"),
        (2, "lasts for 99999 seconds"),
    ]


def test_a_repaired_event_is_taken_if_it_was_received_later_or_is_released(spark, job):
    """What is in quarantine is one version of an event, until somebody deletes its row there."""
    clean, recover = job("auto_remediation"), job("quarantine")
    sick = make(spark, "repaired", event(1, seconds=99_999))
    target, quarantine = "lake.db.repaired_clean", "lake.db.repaired_quarantine"
    with pytest.raises(Exception, match="cannot be"):
        clean(sick, target, quarantine, IMPOSSIBLE)
    recover(sick, quarantine, IMPOSSIBLE)
    again = make(spark, "repaired_again", event(1))
    clean(again, target, quarantine, IMPOSSIBLE)
    assert rows(spark, target) == []
    spark.sql(f"DELETE FROM {quarantine} WHERE event_id = 1")
    clean(again, target, quarantine, IMPOSSIBLE)
    assert [row[0] for row in rows(spark, target)] == [1]
