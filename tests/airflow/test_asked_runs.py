"""What a person asks of one run by the trigger form: done once, told in the record, and nothing else moves."""

from datetime import UTC, date, datetime

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import ParamValidationError

from airflow_provider_ips import ips_params
from airflow_provider_ips.core.errors import CheckpointConflictError, InputError
from airflow_provider_ips.core.requests.request import PARAM_NAMES, RunRequest
from airflow_provider_ips.core.settings import ALL_OPERATIONS
from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.maintenance.clean_up import plan_clean_up
from airflow_provider_ips.runs.reports import source_lines
from tests.docs.test_reference import code, default
from tests.kit import people
from tests.kit.pages import table
from tests.kit.pipelines import (
    capturing,
    checkpoint_of,
    committed_at,
    default_store,
    for_each,
    incremental,
    left_running,
)
from tests.kit.tables import append, create, icdc_tables

DONE = {"capture": "success", "work": "success", "commit": "success"}
SKIPPED = {"capture": "success", "work": "skipped", "commit": "skipped"}


@pytest.fixture
def pipeline(job):
    """A DAG with the trigger form."""

    def make(dag_id, source="db.events", **options):
        dag = incremental(dag_id, source, job, **options)
        dag.params.update(ips_params())
        return dag

    return make


def head(table):
    return table.refresh().current_snapshot().snapshot_id


def test_a_full_refresh_processes_everything_and_the_checkpoint_stays(events, job, pipeline, run_dag):
    """The next usual run goes on as if it had not been."""
    dag = pipeline("refreshed")
    run_dag(dag)
    first = head(events)
    append(events, [4])

    ran = run_dag(dag, conf={"ips_run": "full"})
    after = committed_at("refreshed.capture", "db.events")
    run_dag(pipeline("refreshed"))  # made anew: within one process, Airflow keeps a run's conf in the DAG's params

    assert ran.states == DONE
    assert ran.xcom("commit", task="commit")["outcome"] == "detached"
    assert after == first
    assert job.seen == [[1, 2, 3], [1, 2, 3, 4], [4]]


def test_a_full_refresh_moves_the_checkpoint_if_it_is_told_to(events, job, pipeline, run_dag):
    dag = pipeline("moving")
    run_dag(dag)
    append(events, [4])

    ran = run_dag(dag, conf={"ips_run": "full", "ips_move_checkpoint": True})

    assert ran.xcom("commit", task="commit")["outcome"] == "advanced"
    assert job.seen[-1] == [1, 2, 3, 4]
    assert committed_at("moving.capture", "db.events") == head(events)


def test_a_full_refresh_that_was_not_committed_is_not_followed_by_a_range(events, job, pipeline, run_dag):
    """Its job may have emptied the target and inserted nothing; the range has only the rows since the checkpoint."""
    dag = pipeline("interrupted")
    run_dag(dag)
    append(events, [4])
    job.fails = True
    run_dag(dag, conf={"ips_run": "full", "ips_move_checkpoint": True})
    job.fails = False

    refused = run_dag(pipeline("interrupted"))
    assert isinstance(refused.errors["capture"], CheckpointConflictError)
    assert "captured all rows of db.events and was never committed" in str(refused.errors["capture"])

    again = run_dag(pipeline("interrupted"), conf={"ips_run": "full", "ips_move_checkpoint": True})
    assert again.xcom("commit", task="commit")["outcome"] == "advanced"
    assert job.seen[-1] == [1, 2, 3, 4]


@pytest.fixture
def emptied(events, job, pipeline, run_dag):
    """A refresh beside the checkpoint, whose job has emptied the target and failed."""
    run_dag(pipeline("beside_failed"))
    append(events, [4])
    job.fails = True
    failed = run_dag(pipeline("beside_failed"), conf={"ips_run": "full"})
    job.fails = False
    return failed


def test_a_refresh_beside_the_checkpoint_that_failed_is_not_followed_by_a_range(emptied, job, pipeline, run_dag):
    """The checkpoint does not move, so nothing but the refresh brings back the rows before it."""
    refused = run_dag(pipeline("beside_failed"))
    cleared = run_dag(pipeline("beside_failed"), at=emptied.dag_run.logical_date, conf={"ips_run": "full"})
    after = run_dag(pipeline("beside_failed"))

    assert isinstance(refused.errors["capture"], CheckpointConflictError)
    told = f"run beside_failed/{emptied.dag_run.run_id} captured all rows of db.events and was never committed"
    assert told in str(refused.errors["capture"])
    assert cleared.xcom("commit", task="commit")["outcome"] == "detached"
    assert after.states == DONE
    assert job.seen == [[1, 2, 3], [1, 2, 3, 4], [4]]


def test_a_usual_run_leaves_the_target_to_a_refresh_that_is_at_work(emptied, pipeline, run_dag):
    """Whatever it wrote meanwhile the refresh would remove, and the checkpoint would be past it."""
    with left_running(emptied):
        ran = run_dag(pipeline("beside_failed"))

    assert f"run beside_failed/{emptied.dag_run.run_id} has captured" in str(ran.errors["capture"])
    assert "still active" in str(ran.errors["capture"])


def test_another_refresh_repairs_one_that_failed(emptied, job, pipeline, run_dag):
    again = run_dag(pipeline("beside_failed"), conf={"ips_run": "full"})
    after = run_dag(pipeline("beside_failed"))

    assert again.states == after.states == DONE
    assert checkpoint_of("beside_failed.capture").uncommitted == ()


def test_a_refresh_without_a_commit_is_not_waited_for(events, run_dag):
    """Nothing would ever show that its job has ended, nor that it fills the same target as the usual runs."""
    with DAG("without_commit", schedule=None, params=ips_params()) as dag:
        capturing("db.events", consumer="shared")

    run_dag(dag, conf={"ips_run": "full"})

    assert checkpoint_of("shared") is None


def test_a_range_of_ones_own(events, job, pipeline, run_dag):
    dag = pipeline("ranged")
    run_dag(dag)
    since = head(events)
    append(events, [4])
    until = head(events)
    append(events, [5])

    run_dag(dag, conf={"ips_run": "snapshot", "ips_since_snapshot": str(since), "ips_until_snapshot": str(until)})

    assert job.seen[-1] == [4]
    assert committed_at("ranged.capture", "db.events") == since


def test_a_range_from_a_moment(events, job, pipeline, run_dag):
    dag = pipeline("from_moment")
    at = events.refresh().current_snapshot().timestamp_ms
    append(events, [4])

    run_dag(dag, conf={"ips_run": "time", "ips_since_time": moment(at)})

    assert job.seen == [[4]]
    assert checkpoint_of("from_moment.capture") is None


def moment(milliseconds):
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).isoformat()


def test_a_dry_run_reports_and_leaves_nothing(lake, events, job, pipeline, run_dag):
    dag = pipeline("dry")
    run_dag(dag)
    append(events, [4, 5])
    before = checkpoint_of("dry.capture"), icdc_tables(lake)

    ran = run_dag(dag, conf={"ips_dry_run": True})

    assert ran.states == SKIPPED
    source = ran.xcom("capture")["sources"][0]
    assert (source["files"], source["records"], source["icdc_table"]) == (1, 2, None)
    assert source["bytes"] > 0
    assert ran.xcom("capture")["requested"]["asked"] == {"run": "usual", "dry_run": True}
    assert (checkpoint_of("dry.capture"), icdc_tables(lake)) == before
    assert job.seen == [[1, 2, 3]]


def test_a_dry_run_skips_downstream_also_where_empty_runs_do_not(events, job, pipeline, run_dag):
    """There is no table to read."""
    dag = pipeline("dry_unskipped", capture={"skip_if_empty": False})

    ran = run_dag(dag, conf={"ips_dry_run": True})

    assert ran.states == SKIPPED
    assert job.seen == []


def test_a_dry_run_skips_all_downstream_whatever_the_trigger_rules(events, job, pipeline, run_dag):
    """Also those two steps away, and where empty runs leave them to their trigger rule."""
    dag = pipeline("dry_rules", capture={"ignore_downstream_trigger_rules": False})
    with dag:
        after = PythonOperator(task_id="after", python_callable=job, trigger_rule="none_failed")
        dag.task_dict["work"] >> after >> dag.task_dict["commit"]

    ran = run_dag(dag, conf={"ips_dry_run": True})

    assert ran.states == {**SKIPPED, "after": "skipped"}


@pytest.mark.parametrize("rule", ["none_failed", "all_success"])
def test_a_dry_run_in_a_mapped_group_starts_no_job(events, job, run_dag, rule):
    """Airflow skips there by trigger rules only: if one would let the job run, the dry run reports and fails."""
    dag = for_each(f"dry_{rule}", ["db.events"], job, work_options={"trigger_rule": rule})
    dag.params.update(ips_params())

    ran = run_dag(dag, conf={"ips_dry_run": True})

    is_refused = rule == "none_failed"
    assert ran.states["one.capture[0]"] == ("failed" if is_refused else "skipped")
    assert ("'one.work'" in str(ran.errors.get("one.capture"))) == is_refused
    assert job.seen == []


def test_limits_bound_the_usual_run(events, job, pipeline, run_dag):
    dag = pipeline("bounded")
    run_dag(dag)
    append(events, [4])
    middle = head(events)
    append(events, [5])

    run_dag(dag, conf={"ips_max_snapshots": 1})

    assert job.seen[-1] == [4]
    assert committed_at("bounded.capture", "db.events") == middle


def test_a_retry_of_a_detached_capture_has_the_same_range(lake, events, job, pipeline, run_dag):
    """Nothing is pending: its ICDC table says where it ended."""
    dag = pipeline("retried")
    job.fails = True
    failed = run_dag(dag, conf={"ips_run": "full"})
    append(events, [4])
    job.fails = False

    ran = run_dag(dag, at=failed.dag_run.logical_date, conf={"ips_run": "full"})

    assert ran.states == DONE
    assert job.seen == [[1, 2, 3]]
    assert ran.xcom("db.events") == failed.xcom("db.events")


def test_detached_tables_outlive_the_commits_of_live_runs(lake, events, job, pipeline, run_dag):
    """A backfill reads them while live runs commit; `airflow ips gc` takes them later."""
    dag = pipeline("beside")
    detached = run_dag(dag, conf={"ips_run": "full"}).xcom("db.events")
    run_dag(dag)
    append(events, [4])
    run_dag(dag)

    assert detached in icdc_tables(lake)


def test_a_detached_commit_drops_its_tables_if_it_is_told_to(lake, events, pipeline, run_dag):
    dag = pipeline("tidy", commit={"icdc_retention": "drop"})

    ran = run_dag(dag, conf={"ips_run": "full"})

    assert ran.xcom("commit", task="commit")["dropped"] == [ran.xcom("db.events")]
    assert icdc_tables(lake) == []


def test_a_detached_run_does_not_mind_a_live_one(events, job, pipeline, run_dag):
    """It takes nothing that the live run has captured, and commits nothing."""
    dag = pipeline("live")
    job.fails = True
    run_dag(dag)
    pending = checkpoint_of("live.capture").pending
    job.fails = False

    ran = run_dag(dag, conf={"ips_run": "full"})

    assert ran.states == DONE
    assert checkpoint_of("live.capture").pending == pending


WRONG = [
    ({"ips_run": "partitions"}, "ips_run='partitions' without ips_partitions"),
    ({"ips_run": "snapshot"}, "without ips_since_snapshot"),
    ({"ips_partitions": "day >= '2026-10-01'"}, "has no effect with ips_run='usual'"),
    ({"ips_run": "partitions", "ips_partitions": "day >>"}, "cannot be read"),
    ({"ips_run": "partitions", "ips_partitions": "true"}, "names no column"),
    ({"ips_run": "time", "ips_since_time": "2026-10-01T00:00:00"}, "a time without its zone"),
    ({"ips_run": "full", "ips_max_files": 5}, "has no effect with ips_run='full'"),
    ({"ips_run": "full", "ips_everything": True}, "has no effect with ips_run='full'"),
    ({"ips_dryrun": True}, "param 'ips_dryrun' is unknown"),
    ({"ips_run": "full", "ips_dry_run": True, "ips_move_checkpoint": True}, "contradict"),
]


@pytest.mark.parametrize(("conf", "told"), WRONG, ids=[told for _, told in WRONG])
def test_what_contradicts_itself_is_refused_before_any_catalog_is_opened(conf, told, lake, job, run_dag, monkeypatch):
    """In the task's first second, whoever sends it: the form, the API or the command line."""
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", '{"conn_type": "iceberg", "extra": {"type": "no such catalog"}}')
    dag = incremental("contradicting", "db.events", job)
    dag.params.update(ips_params())

    ran = run_dag(dag, conf=conf)

    assert isinstance(ran.errors["capture"], InputError)
    assert told in str(ran.errors["capture"])


@pytest.mark.parametrize(
    "conf",
    [{"ips_run": "everything"}, {"ips_max_files": 0}, {"ips_since_snapshot": 12}, {"ips_dry_run": "yes"}],
    ids=str,
)
def test_wrong_types_and_choices_are_refused_when_the_run_is_made(conf, lake, job, run_dag):
    """By the schema that the form and the API check, before there is a run."""
    dag = incremental("mistyped", "db.events", job)
    dag.params.update(ips_params())

    with pytest.raises((ParamValidationError, ValueError)):
        run_dag(dag, conf=conf)


def test_a_capture_may_keep_out_of_it(events, job, pipeline, run_dag):
    """The second stage of a DAG runs as usual, whatever the first is asked for."""
    ran = run_dag(pipeline("deaf", capture={"follow_params": False}), conf={"ips_dry_run": True})

    assert ran.states == DONE


def test_a_snapshot_for_several_tables_is_refused(lake, events, pipeline, run_dag):
    create(lake, "db.users")
    dag = pipeline("several", ["db.events", "db.users"])

    ran = run_dag(dag, conf={"ips_run": "snapshot", "ips_since_snapshot": "7"})

    assert "2 tables are captured together" in str(ran.errors["capture"])


@pytest.fixture
def days(lake):
    """Rows of three days, partitioned by day, in one snapshot each; the last came late."""
    table = create(lake, "db.days")
    with table.update_spec() as spec:
        spec.add_identity("day")
    for number, day in enumerate([1, 2, 3, 1]):
        append(table, [number], day=date(2026, 10, day))
    return table


def test_only_some_partitions(days, job, pipeline, run_dag):
    """All live rows of them, and the checkpoint stays."""
    dag = pipeline("some_days", "db.days")

    ran = run_dag(dag, conf={"ips_run": "partitions", "ips_partitions": "day >= '2026-10-01' and day < '2026-10-03'"})

    assert job.seen == [[0, 1, 3]]
    assert ran.xcom("commit", task="commit")["outcome"] == "detached"
    assert checkpoint_of("some_days.capture") is None


def test_a_filter_narrows_a_range(days, job, pipeline, run_dag):
    first = days.refresh().snapshots()[1].snapshot_id
    requested = {"ips_run": "snapshot", "ips_since_snapshot": str(first), "ips_partitions": "day = '2026-10-01'"}

    run_dag(pipeline("narrowed", "db.days"), conf=requested)

    assert job.seen == [[3]]


def test_a_dry_run_counts_what_a_filter_selects(days, pipeline, run_dag):
    requested = {"ips_run": "partitions", "ips_partitions": "day = '2026-10-01'", "ips_dry_run": True}

    source = run_dag(pipeline("counted", "db.days"), conf=requested).xcom("capture")["sources"][0]

    assert (source["files"], source["records"]) == (2, 2)
    assert 0 < source["bytes"] < source["table"]["bytes"]
    assert source["partitions"] == [
        {"column": "day", "lower": "2026-10-01", "upper": "2026-10-01", "known": True, "reason": ""}
    ]


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("id = 1", "db.days is not partitioned by it"),
        ("nonsense = 1", "'nonsense', which is not a column of db.days"),
        ("day > '2027-01-01'", "selects none of the partitions"),
        ("day > 5", "with 5"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_asked_back(condition, told, days, lake, pipeline, run_dag):
    """With the columns that are partitions, and where the files lie."""
    ran = run_dag(pipeline("asked_back", "db.days"), conf={"ips_run": "partitions", "ips_partitions": condition})

    assert isinstance(ran.errors["capture"], InputError)
    assert told in str(ran.errors["capture"])
    assert "day" in ran.errors["capture"].remedy
    assert icdc_tables(lake) == []


def test_a_cleared_full_refresh_is_replayed_while_nobody_has_committed_since(events, job, pipeline, run_dag):
    """The same range, from the same table: what clearing promises."""
    dag = pipeline("replayed")
    requested = run_dag(dag, conf={"ips_run": "full"})
    append(events, [4])

    people.clear(requested, *DONE)
    again = people.go_on(dag, requested)

    assert again.states == DONE
    assert job.seen == [[1, 2, 3], [1, 2, 3]]
    assert again.xcom("capture_id") == requested.xcom("capture_id")


@pytest.mark.parametrize("moves", [False, True], ids=["detached", "moving the checkpoint"])
def test_a_cleared_old_run_does_not_repeat_its_full_refresh(moves, events, job, pipeline, run_dag):
    """Later runs have committed: rows of its time, or a surprise, would be written over theirs."""
    dag = pipeline(f"old_{moves}".lower())
    job.fails = moves  # a full refresh that was never committed is no committed run that clearing would replay
    requested = run_dag(dag, conf={"ips_run": "full", "ips_move_checkpoint": moves})
    job.fails = False
    append(events, [4])
    run_dag(pipeline(dag.dag_id))
    seen, stands = list(job.seen), committed_at(f"{dag.dag_id}.capture", "db.events")

    people.clear(requested, *DONE)
    again = people.go_on(dag, requested)

    assert isinstance(again.errors["capture"], CheckpointConflictError)
    assert "requests a full refresh" in str(again.errors["capture"])
    assert job.seen == seen
    assert committed_at(f"{dag.dag_id}.capture", "db.events") == stands


def test_clearing_the_newest_full_refresh_replays_it_where_it_ended(events, job, pipeline, run_dag):
    """It has moved the checkpoint once, and moves nothing again."""
    dag = pipeline("newest")
    requested = run_dag(dag, conf={"ips_run": "full", "ips_move_checkpoint": True})
    stands = committed_at("newest.capture", "db.events")
    append(events, [4])

    people.clear(requested, *DONE)
    again = people.go_on(dag, requested)

    assert again.xcom("commit", task="commit")["outcome"] == "replayed"
    assert job.seen == [[1, 2, 3], [1, 2, 3]]
    assert committed_at("newest.capture", "db.events") == stands


def test_gc_takes_detached_tables_once_they_are_old(lake, events, pipeline, run_dag):
    """No checkpoint names them, so their age is all that keeps them: a run may be reading a young one."""
    dag = pipeline("collected")
    run_dag(pipeline("collected"))
    detached = run_dag(dag, conf={"ips_run": "full"}).xcom("db.events")
    now = int(datetime.now(tz=UTC).timestamp() * 1000)
    stores = [default_store()]

    young = plan_clean_up(lake, "icdc", stores, before_ms=now - 60_000)
    old = plan_clean_up(lake, "icdc", stores, before_ms=now + 60_000)

    assert young.tables == ()
    assert [table.name for table in old.tables] == [detached]


def test_the_form_is_what_a_run_can_be_asked_for():
    """Each field of the one is a Param of the other, with a default that asks for nothing."""
    form = ips_params()
    untouched = {name: param.resolve() for name, param in form.items()}

    assert {name.removeprefix("ips_") for name in form} == set(PARAM_NAMES)
    assert RunRequest.from_params(untouched) == RunRequest()
    assert all(param.schema["title"] and param.schema["description_md"] for param in form.values())


def test_the_params_page_is_the_form():
    """Names and defaults, as the reference lists them."""
    documented = {code(row[0]): default(row[1]) for row in table("docs/reference/params.md", "The Params").rows}

    assert documented == {name: param.value for name, param in ips_params().items()}


def test_a_dry_run_is_told_in_the_log(lake, events):
    """With its amounts, though there is no table to read them from."""
    told = list(source_lines(capture(lake, "db.events", into="icdc.t", dry_run=True), None))

    assert any("3 rows" in line for line in told)
    assert not any("read it as" in line for line in told)


def test_an_attempt_that_died_between_its_tables_is_taken_up(lake, events, job, pipeline, run_dag):
    """The rows' origin is made first; alone it pins the range too."""
    options = {"capture": {"data_operations": ALL_OPERATIONS, "on_superset": "allow"}}
    since = head(events)
    append(events, [4])
    requested = {"ips_run": "snapshot", "ips_since_snapshot": str(since)}
    died = run_dag(pipeline("died", **options), conf=requested)
    drop_icdc(lake, died.xcom("db.events"))
    append(events, [5])

    again = run_dag(pipeline("died", **options), at=died.dag_run.logical_date, conf=requested)

    assert again.states == DONE
    assert job.seen == [[4], [4]]


def test_a_conf_that_airflow_keeps_from_params_is_refused(events, job, run_dag, monkeypatch):
    """A deployment may say so; then a dry run would be none."""
    monkeypatch.setenv("AIRFLOW__CORE__DAG_RUN_CONF_OVERRIDES_PARAMS", "False")
    dag = incremental("unheard", "db.events", job)

    ran = run_dag(dag, conf={"ips_dry_run": True})

    assert "does not pass on to its params" in str(ran.errors["capture"])
    assert job.seen == []


def test_a_source_without_selected_partitions_is_a_table_without_rows(lake, days, job, pipeline, run_dag):
    """As long as another has some: a join names both its sides."""
    users = create(lake, "db.users")
    with users.update_spec() as spec:
        spec.add_identity("day")
    append(users, [10], day=date(2026, 10, 2))
    requested = {"ips_run": "partitions", "ips_partitions": "day = '2026-10-01'"}

    run_dag(pipeline("both", ["db.days", "db.users"]), conf=requested)

    assert job.seen == [[[0, 3], []]]


def test_a_range_that_is_most_of_the_table_is_taken_as_everything(events, job, pipeline, run_dag):
    """An ordinary capture otherwise: it moves the checkpoint."""
    dag = pipeline("most", capture={"full_refresh_above": 0.4})
    run_dag(dag)
    append(events, [4, 5, 6])

    ran = run_dag(dag)

    assert job.seen == [[1, 2, 3], [1, 2, 3, 4, 5, 6]]
    assert ran.xcom("capture")["sources"][0]["kind"] == "full"
    assert ran.xcom("commit", task="commit")["outcome"] == "advanced"
    assert committed_at("most.capture", "db.events") == head(events)


def test_a_run_can_be_asked_without_the_form(lake, events, job, run_dag):
    """By the API, the command line or another DAG: what a run's conf says counts."""
    ran = run_dag(incremental("formless", "db.events", job), conf={"ips_dry_run": True})

    assert ran.states == SKIPPED
    assert icdc_tables(lake) == []


def test_a_first_run_says_where_it_starts(events, job, pipeline, run_dag):
    """In its log and in its record, for whoever wonders at all live rows at once. The second run says nothing."""
    dag = pipeline("started")

    ran = [run_dag(dag).xcom("capture")["requested"]["started"] for _ in range(2)]

    assert ran == [[{"source": "db.events", "initial": "full"}], []]


def test_a_filter_that_selects_the_whole_table_is_asked_back(lake, days, job, pipeline, run_dag):
    """With how much that is, before anything is written; unless it is said that everything is meant."""
    dag = pipeline("whole", "db.days")
    requested = {"ips_run": "partitions", "ips_partitions": "day >= '2020-01-01'"}

    refused = run_dag(dag, conf=requested)
    meant = run_dag(pipeline("whole", "db.days"), conf={**requested, "ips_everything": True})

    assert isinstance(refused.errors["capture"], InputError)
    assert "selects everything that db.days has: 4 files, day from 2026-10-01 to 2026-10-03" in str(
        refused.errors["capture"]
    )
    assert "ips_everything=True" in refused.errors["capture"].remedy
    assert meant.states == DONE
    assert job.seen == [[0, 1, 2, 3]]


def test_a_full_refresh_needs_nothing_new(events, job, pipeline, run_dag):
    """It starts and ends where the checkpoint stands."""
    dag = pipeline("still")
    run_dag(dag)

    ran = run_dag(dag, conf={"ips_run": "full", "ips_move_checkpoint": True})

    assert ran.states == DONE
    assert job.seen == [[1, 2, 3], [1, 2, 3]]
    assert checkpoint_of("still.capture").pending is None
    assert committed_at("still.capture", "db.events") == head(events)
