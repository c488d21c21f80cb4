"""Whoever may still write a target is seen by the next capture: replays, runs that were stopped, other tasks."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_ips import IpCommitOperator
from airflow_provider_ips.assets.iceberg import iceberg_asset
from airflow_provider_ips.core.checkpoint.entries import SourcePosition
from airflow_provider_ips.core.checkpoint.manual_changes import abandon, reset, seed, with_intervention
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.iceberg.source.iceberg_source import open_source, position_at
from tests.kit.people import mark, stop
from tests.kit.pipelines import (
    capturing,
    checkpoint_of,
    default_store,
    for_each,
    incremental,
    left_running,
    lose_checkpoint,
)
from tests.kit.tables import append, create, rows

DONE = {"capture": "success", "work": "success", "commit": "success"}


@pytest.fixture
def replayed(events, job, run_dag):
    """A committed run that was cleared, and whose job failed then. Later rows wait."""
    dag = incremental("replayed", "db.events", job)
    at = datetime.now(tz=UTC)
    run_dag(dag, at=at)
    job.fails = True
    ran = run_dag(dag, at=at)
    job.fails = False
    append(events, [4])
    return dag, at, ran


def test_a_cleared_run_that_is_at_work_is_not_overtaken(replayed, job, run_dag):
    """Its job would write its older rows over those of the run that overtook it."""
    dag, _, cleared = replayed

    with left_running(cleared):
        ran = run_dag(dag)

    assert f"run replayed/{cleared.dag_run.run_id} has captured" in str(ran.errors["capture"])
    assert "still active" in str(ran.errors["capture"])
    assert job.seen == [[1, 2, 3]]


def test_a_cleared_run_that_died_is_not_taken_for_done(replayed, job, run_dag):
    """Its job may have removed rows that it did not insert again. Once it is done, others go on."""
    dag, at, cleared = replayed

    ran = run_dag(dag)
    again = run_dag(dag, at=at)
    after = run_dag(dag)

    assert f"run replayed/{cleared.dag_run.run_id} was cleared" in str(ran.errors["capture"])
    assert again.xcom("commit", task="commit")["outcome"] == "replayed"
    assert after.states == DONE
    assert job.seen == [[1, 2, 3], [1, 2, 3], [4]]


def failed_once(dag, job, run_dag):
    """A run whose job has failed."""
    job.fails = True
    ran = run_dag(dag)
    job.fails = False
    return ran


@pytest.mark.parametrize("how", ["failed", "success", "timed out"])
def test_a_run_that_was_stopped_is_at_work_until_its_processes_end(events, job, run_dag, how):
    """They live until their next heartbeat, and may commit to the target until then. That passes by itself."""
    dag = incremental(f"stopped_{how.replace(' ', '_')}", "db.events", job)
    first = failed_once(dag, job, run_dag)
    stop(dag, first, how)

    ran = run_dag(dag)
    stop(dag, first, how, ago=timedelta(minutes=5))
    after = run_dag(dag)

    told = str(ran.errors["capture"])
    assert f"run {dag.dag_id}/{first.dag_run.run_id} has captured" in told
    assert "wait 20 seconds" in told
    assert "mark it failed" not in told
    assert after.states == DONE


def test_the_instance_of_a_stopped_run_is_at_work_and_no_other(lake, events, job, run_dag):
    """Another table of the same mapped group had nothing to process, so its commit was skipped by itself."""
    append(create(lake, "db.others"), [7])
    dag = for_each("stopped_one", ["db.events", "db.others"], job)
    run_dag(dag)
    append(events, [4])
    first = failed_once(dag, job, run_dag)
    append(lake.load_table("db.others"), [8])
    by_itself = run_dag(dag)
    append(events, [5])
    second = failed_once(dag, job, run_dag)
    stop(dag, second, work="one.work[0]", commit="one.commit[0]")

    ran = run_dag(dag)

    assert first.states["one.commit[1]"] == "skipped"
    assert by_itself.states["one.commit[0]"] == "success", by_itself.errors
    assert "wait 20 seconds" in str(ran.errors["one.capture"])


@pytest.mark.parametrize("state", [None, "running"])
def test_the_job_of_a_committed_run_that_is_at_work_again_is_not_overtaken(events, job, run_dag, state):
    """It was cleared without its capture, so no document shows it."""
    dag = incremental(f"job_again_{state}", "db.events", job)
    first = run_dag(dag)
    append(events, [4])
    mark(first, state, "work")

    with left_running(first):
        ran = run_dag(dag)
        mark(first, "success", "work")  # what comes after the commit may take its time
        after = run_dag(dag)

    assert "its 'work' was cleared and has not ended since" in str(ran.errors["capture"])
    assert after.states == DONE
    assert job.seen == [[1, 2, 3], [4]]


def test_a_run_does_not_wait_for_one_that_is_queued_after_it(events, job, run_dag):
    """With one run at a time, the cleared run starts when this one has ended, so neither would ever go on."""
    dag = incremental("one_by_one", "db.events", job, capture={"on_active_run": "wait"})
    dag.max_active_runs = 1
    first = failed_once(dag, job, run_dag)

    with left_running(first, "queued"):
        ran = run_dag(dag)

    assert f"run one_by_one/{first.dag_run.run_id} has captured" in str(ran.errors["capture"])


def skipping(dag_id, job, run_dag, *, fails):
    """A run whose job is skipped, or whose job fails beside another task that is skipped."""

    def skip():
        raise AirflowSkipException

    with DAG(dag_id, schedule=None) as dag:
        captured = capturing("db.events")
        work = PythonOperator(task_id="work", python_callable=job, op_args=[captured.output["db.events"]])
        other = PythonOperator(task_id="other", python_callable=skip)
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)
        if fails:
            captured >> other
        else:
            captured >> other >> work
    return dag, failed_once(dag, job, run_dag) if fails else run_dag(dag)


@pytest.mark.parametrize("fails", [True, False])
def test_a_run_that_ended_by_itself_holds_nobody_up(events, job, run_dag, fails):
    """Nothing of it is running, whatever was skipped in it."""
    dag, first = skipping(f"ended_{fails}", job, run_dag, fails=fails)

    ran = run_dag(dag)

    assert "skipped" in first.states.values()
    assert "capture" not in ran.errors


def test_two_captures_of_one_run_do_not_share_a_pending_range(events, job, run_dag):
    """A template gives both the same consumer: the second would take the range of the first for its own."""
    with DAG("same_consumer", schedule=None, params={"who": "both"}) as dag:
        for name in ("one", "two"):
            captured = capturing("db.events", task_id=name, consumer="{{ params.who }}")
            work = PythonOperator(task_id=f"work_{name}", python_callable=job, op_args=[captured.output["db.events"]])
            captured >> work >> IpCommitOperator(task_id=f"commit_{name}", capture=captured)
        dag.task_dict["one"] >> dag.task_dict["two"]
        dag.task_dict["two"] >> dag.task_dict["work_one"]

    ran = run_dag(dag)

    assert "another task instance" in str(ran.errors["two"])
    assert job.seen == []


def test_two_captures_of_one_run_may_share_a_consumer_one_after_the_other(lake, events, job, run_dag):
    """What the first has committed is not the second's to repeat."""
    other = create(lake, "db.others")
    append(other, [7])
    with DAG("in_turn", schedule=None, params={"who": "in turn"}) as dag:
        last = None
        for name, table in (("one", "db.events"), ("two", "db.others")):
            captured = capturing(table, task_id=name, consumer="{{ params.who }}")
            work = PythonOperator(task_id=f"work_{name}", python_callable=job, op_args=[captured.output[table]])
            commit = IpCommitOperator(task_id=f"commit_{name}", capture=captured)
            captured >> work >> commit
            if last is not None:
                last >> captured
            last = commit

    ran = run_dag(dag)

    assert set(ran.states.values()) == {"success"}, ran.errors
    assert job.seen == [[1, 2, 3], [7]]


def test_a_source_that_is_taken_out_after_a_failed_run_is_not_forgotten(lake, events, job, run_dag):
    """Its job may have written rows that the source has removed since, so the next capture of the source covers it."""
    other = create(lake, "db.others")
    append(other, [7])
    options = {"data_operations": ("append", "overwrite", "delete"), "on_superset": "allow"}

    def of(*sources):
        return incremental("shrunk", list(sources), job, capture=options)

    run_dag(of("db.events", "db.others"))
    for table, ids in ((events, [4]), (other, [8])):
        append(table, ids)
    job.fails = True
    run_dag(of("db.events", "db.others"))
    job.fails = False
    run_dag(of("db.events"))
    lake.load_table("db.others").delete("id = 8")

    ran = run_dag(of("db.events", "db.others"))

    assert ran.states["commit"] == "success", ran.errors
    assert ran.xcom("db.others.before") is not None
    assert checkpoint_of("shrunk.capture").uncommitted == ()


def test_a_renamed_source_is_asked_about_before_it_is_taken_whole_again(lake, events, job, run_dag):
    """Its uuid shows that it is the same table, whatever its name."""
    dag = incremental("moved_table", "db.events", job, capture={"consumer": "keeps its name"})
    run_dag(dag)
    lake.rename_table("db.events", "db.happenings")

    ran = run_dag(incremental("moved_table", "db.happenings", job, capture={"consumer": "keeps its name"}))

    assert "has processed the same table as 'db.events'" in str(ran.errors["capture"])
    assert "--table db.happenings" in str(ran.errors["capture"])
    assert job.seen == [[1, 2, 3]]


FOLLOWS = {"data_operations": ("append", "overwrite", "delete"), "on_superset": "allow", "consumer": "keeps its name"}


def renamed_after_failure(lake, events, job, run_dag, dag_id):
    """A run wrote row 4 and failed; then the source deleted that row, and got another name."""
    append(events, [4])
    job.fails = True
    run_dag(incremental(dag_id, "db.events", job, capture=FOLLOWS))
    job.fails = False
    lake.load_table("db.events").delete("id = 4")
    lake.rename_table("db.events", "db.happenings")
    dag = incremental(dag_id, "db.happenings", job, capture=FOLLOWS)
    return dag, run_dag(dag).errors["capture"]


def test_what_a_failed_run_wrote_before_its_source_was_renamed_is_taken_back(lake, events, job, run_dag):
    """Seeding the new name takes along what the target may hold."""
    run_dag(incremental("renamed_later", "db.events", job, capture=FOLLOWS))
    dag, error = renamed_after_failure(lake, events, job, run_dag, "renamed_later")
    assert "has processed the same table as 'db.events'" in str(error)
    before = checkpoint_of("keeps its name")
    abandoned = abandon(before)
    default_store().write(abandoned, expected_revision=before.revision)
    at = replace(abandoned.positions[0], source=Source("db.happenings"))
    seeded = seed(abandoned, consumer="keeps its name", positions=(at,), now_ms=0)
    default_store().write(seeded, expected_revision=abandoned.revision)

    ran = run_dag(dag)

    assert 4 in rows(lake, ran.xcom("db.happenings.before"))


def test_a_source_that_was_renamed_before_its_first_commit_is_asked_about(lake, events, job, run_dag):
    """There is no position that shows it is the same table, but the capture that failed does."""
    _, error = renamed_after_failure(lake, events, job, run_dag, "renamed_first")

    assert "under its former name 'db.events', and was never committed" in str(error)


def test_rows_of_a_full_refresh_beside_the_checkpoint_are_taken_back(lake, events, job, run_dag):
    """The refresh wrote row 4, which the range since the checkpoint both adds and removes."""
    options = {"data_operations": ("append", "overwrite", "delete"), "on_superset": "allow"}
    dag = incremental("refreshed", "db.events", job, capture=options)
    run_dag(dag)
    append(events, [4])
    run_dag(dag, conf={"ips_run": "full"})
    lake.load_table("db.events").delete("id = 4")

    ran = run_dag(dag)

    assert rows(lake, ran.xcom("db.events.before")) == [4]
    assert checkpoint_of("refreshed.capture").uncommitted == ()


def test_a_stand_by_deployment_does_not_take_the_run_of_another_for_its_own(events, job, run_dag, monkeypatch):
    """Both have the same DAG, and so runs of the same name. Whether the other is at work it cannot ask."""
    dag = incremental("twice", "db.events", job)
    at = datetime.now(tz=UTC)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://one.example")
    job.fails = True
    run_dag(dag, at=at)
    job.fails = False

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://two.example")
    refused = run_dag(dag, at=at)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://one.example")
    retried = run_dag(dag, at=at)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://two.example")
    idle = run_dag(dag, at=at)

    assert "deployment 'https://one.example'" in str(refused.errors["capture"])
    assert retried.states == DONE
    assert idle.states["work"] == "skipped"
    assert job.seen == [[1, 2, 3]]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_checkpoint_that_went_back_is_noticed(events, job, run_dag, is_lost):
    """An older export was imported, or the document was deleted: the table of the last run is newer than it."""
    dag = incremental(f"set_back_{is_lost}", "db.events", job)
    consumer = f"{dag.dag_id}.capture"
    run_dag(dag)
    older = checkpoint_of(consumer)
    append(events, [4])
    run_dag(dag)
    append(events, [5])
    lose_checkpoint(consumer)
    if not is_lost:
        default_store().write(replace(older, revision=1), expected_revision=None)

    ran = run_dag(dag)

    assert "newer than its checkpoint" in str(ran.errors["capture"])
    assert job.seen == [[1, 2, 3], [4]]


class SetBack:
    """A DAG whose job stamps what it writes, and a checkpoint document of it that can be put back, or deleted."""

    def __init__(self, lake, run_dag, dag_id, *, capture=None, named=None):
        self.lake, self.run_dag, self.target = lake, run_dag, "db.target"
        self.consumer = f"{dag_id}.capture"
        self.fails = False
        with DAG(dag_id, schedule=None, params={"target": self.target}) as self.dag:
            captured = capturing("db.events", **(capture or {}))
            names = [captured.output["db.events"], captured.output["capture_id"]]
            work = PythonOperator(task_id="work", python_callable=self.write, op_args=names)
            # The tables of a capture do not outlive it: stamps are all that is left.
            options = {"icdc_retention": "drop", **(named or {"verify_target": self.target})}
            captured >> work >> IpCommitOperator(task_id="commit", capture=captured, **options)

    def write(self, name, capture_id):
        append(self.lake.load_table(self.target), rows(self.lake, name), properties={"ips-capture-id": capture_id})
        if self.fails:
            raise RuntimeError("the job failed after it wrote, as the test wants it")

    def run(self, **options):
        return self.run_dag(self.dag, **options)

    @property
    def document(self):
        return checkpoint_of(self.consumer)

    def put_back(self, document):
        lose_checkpoint(self.consumer)
        if document is not None:
            default_store().write(replace(document, revision=1), expected_revision=None)

    def seed(self, *, after_row):
        """Set the position to the snapshot that appended a row, as the commands reset and seed do."""
        store, now_ms = default_store(), time.time_ns() // 1_000_000
        history = open_source(self.lake, Source("db.events"))
        added = next(s for s in self.lake.load_table("db.events").snapshots() if after_row in self._rows_at(s))
        position = SourcePosition(
            source=Source("db.events"), position=position_at(history, snapshot_id=added.snapshot_id)
        )
        read = store.read(self.consumer)
        empty = None if read is None else replace(reset(read), revision=read.revision)
        seeded = seed(empty, consumer=self.consumer, positions=(position,), now_ms=now_ms)
        written = with_intervention(seeded, who="ada", verb="seed", now_ms=now_ms)
        store.write(written, expected_revision=None if read is None else read.revision)

    def _rows_at(self, snapshot):
        table = self.lake.load_table("db.events")
        return table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["id"].to_pylist()

    @property
    def written(self):
        return rows(self.lake, self.target)


@pytest.fixture
def stamping(lake, events, run_dag):
    """Makes a DAG that writes to a target which exists."""
    create(lake, "db.target")
    return lambda dag_id, **options: SetBack(lake, run_dag, dag_id, **options)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_checkpoint_that_went_back_is_noticed_by_the_stamps_in_the_target(events, stamping, is_lost):
    """No ICDC table is left. The target has rows of a capture that the document does not know."""
    story = stamping(f"stamped_{is_lost}")
    story.run()
    older = None if is_lost else story.document
    append(events, [4])
    story.run()
    append(events, [5])
    story.put_back(older)

    ran = story.run()

    assert "has written to db.target with capture" in str(ran.errors["capture"])
    assert "airflow ips seed" in str(ran.errors["capture"])
    assert story.written == [1, 2, 3, 4]
    story.seed(after_row=4)
    assert story.run().states == DONE
    assert story.written == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("named", "capture"),
    [
        ({"verify_target": "{{ params.target }}"}, {}),
        ({"target_assets": iceberg_asset("db.target", iceberg_conn_id="lake")}, {}),
        ({"verify_target": "db.target"}, {"checkpoint_store": "iceberg"}),
    ],
    ids=["template", "asset", "iceberg store"],
)
def test_a_checkpoint_that_was_lost_is_noticed_however_target_and_store_are_named(
    lake, events, stamping, named, capture
):
    """The job would write all rows a second time."""
    story = stamping(f"lost_{len(str(named))}_{len(capture)}", named=named, capture=capture)
    first = story.run()
    append(events, [4])
    if capture:
        for log in lake.list_tables("ips_checkpoints"):
            lake.drop_table(log)
    else:
        story.put_back(None)

    ran = story.run()

    assert first.states == DONE, first.errors
    assert "has written to db.target with capture" in str(ran.errors["capture"])
    assert story.written == [1, 2, 3]


def test_a_consumer_that_lost_its_checkpoint_does_not_start_at_the_head(events, stamping):
    """With initial='latest' it would find nothing to process, and skip the rows since its last commit."""
    story = stamping("latest_again", capture={"initial": "latest"})
    story.run()
    append(events, [4])
    story.run()
    append(events, [5])
    story.put_back(None)

    ran = story.run()

    assert "has written to db.target with capture" in str(ran.errors["capture"])
    assert story.written == [4]


def test_a_cleared_run_does_not_hide_that_the_checkpoint_went_back(events, stamping):
    """Its commit would make the document newer than the rows that it does not know of."""
    story = stamping("cleared_while_set_back")
    story.run()
    append(events, [4])
    at = datetime.now(tz=UTC)
    story.fails = True
    story.run(at=at)
    story.fails = False
    pending = story.document
    append(events, [5])
    story.run()
    story.put_back(pending)

    ran = story.run(at=at)

    assert "has written to db.target with capture" in str(ran.errors["capture"])


def test_a_replay_does_not_write_older_rows_over_those_that_a_lost_document_knew(events, stamping):
    """By the older document its run is the newest."""
    story = stamping("replayed_while_set_back")
    at = datetime.now(tz=UTC)
    story.run(at=at)
    older = story.document
    append(events, [4])
    story.run()
    story.put_back(older)

    ran = story.run(at=at)

    assert "has written to db.target with capture" in str(ran.errors["capture"])
    assert story.written == [1, 2, 3, 4]


def test_a_target_that_was_set_back_as_well_has_no_rows_too_many(events, lake, stamping):
    """Both were restored from the same backup: the rows are to be processed again."""
    story = stamping("both_set_back")
    story.run()
    older, snapshot = story.document, lake.load_table("db.target").current_snapshot().snapshot_id
    append(events, [4])
    story.run()
    story.put_back(older)
    lake.load_table("db.target").manage_snapshots().rollback_to_snapshot(snapshot).commit()

    ran = story.run()

    assert ran.states == DONE, ran.errors
    assert story.written == [1, 2, 3, 4]


def test_stamps_of_others_in_a_shared_target_are_theirs(events, stamping):
    """Two consumers write to one table, in turn, and one of them is new."""
    first, second = stamping("shares_one"), stamping("shares_two")
    first.run()
    append(events, [4])

    ran = [second.run(), first.run()]

    assert [each.states for each in ran] == [DONE, DONE]
    assert second.written == sorted([1, 2, 3, 1, 2, 3, 4, 4])
