"""What is refused while the DAG file is parsed, as an import error in the UI, before anything runs."""

from datetime import datetime, timedelta
from textwrap import dedent, indent

import pytest
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, SourceTable
from airflow_provider_ips.core.errors import InputError


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"source_tables": "events"}, "malformed table identifier 'events'"),
        ({"source_tables": "db..events"}, "malformed table identifier 'db..events'"),
        ({"source_tables": "db.`events`"}, "contains '`'"),
        ({"source_tables": 7}, "source table 7 is a int"),
        ({"source_tables": []}, "source_tables is empty"),
        ({"source_tables": ["db.a", "db.a"]}, "source table 'db.a@main' is there twice"),
        ({"source_tables": ["db.a", SourceTable("db.b", key="db.a")]}, "XCom key 'db.a' is there twice"),
        ({"source_tables": "db.a b"}, "cannot be an XCom key"),
        ({"source_tables": {"key": "a"}}, "has no 'table'"),
        ({"source_tables": {"table": "db.a", "colour": "red"}}, "unknown settings ['colour']"),
        ({"capture_mode": "branch"}, "capture_mode='branch' is unknown"),
        ({"capture_mode": "BRANCH", "icdc_namespace": "icdc"}, "icdc_namespace contradict capture_mode='BRANCH'"),
        ({"capture_mode": "ICDC", "lease": timedelta(1)}, "lease contradict capture_mode='ICDC'"),
        ({"capture_mode": "BRANCH", "lease": timedelta(0)}, "is not a time above zero"),
        ({"data_operations": ["append", "upsert"]}, "unknown operations ['upsert']"),
        ({"data_operations": ["append", "overwrite"]}, "a subset without a sound meaning"),
        ({"on_superset": "allow"}, "on_superset='allow' contradicts data_operations"),
        ({"equality_deletes": "apply"}, "equality_deletes='apply' is unknown"),
        ({"source_tables": SourceTable("db.a", data_operations=["append", "overwrite"])}, "without a sound meaning"),
        ({"on_other_operation": "ignore"}, "on_other_operation='ignore' is unknown"),
        ({"on_superset": "allow"}, "on_superset='allow' contradicts"),
        ({"on_gap": "ignore"}, "on_gap='ignore' is unknown"),
        ({"on_active_run": "ignore"}, "on_active_run='ignore' is unknown"),
        ({"initial": "yesterday"}, "initial='yesterday' is none of the four forms"),
        ({"initial": "2026-10-01T00:00:00"}, "has no time zone"),
        ({"max_snapshots": 0}, "max_snapshots=0 is not a whole number above zero"),
        ({"range_columns": ["day", "day"]}, "range column 'day' is there twice"),
        ({"range_columns": ["da#y"]}, "cannot be an XCom key"),
        ({"icdc_namespace": ""}, "icdc_namespace='' is not a name"),
        ({"icdc_namespace": "a..b"}, "icdc_namespace='a..b' is malformed"),
        ({"iceberg_conn_id": None}, "iceberg_conn_id=None is not a name"),
        ({"consumer": " "}, "consumer=' ' is not a name"),
        ({"skip_if_empty": "no"}, "skip_if_empty='no' is unknown"),
    ],
)
def test_a_capture_that_cannot_be_right(arguments, problem):
    with pytest.raises(InputError) as caught:
        IpCaptureOperator(**{"task_id": "capture", "source_tables": "db.events", **arguments})

    assert problem in str(caught.value)
    assert "What to do: " in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"source_tables": "{{ params.table }}"},
        {"source_tables": ["db.a", "{{ params.table }}"]},
        {"source_tables": {"table": "{{ params.table }}", "key": "a"}},
        {"initial": "{{ params.initial }}"},
        {"initial": datetime.fromisoformat("2026-10-01T00:00:00+00:00")},
        {"on_gap": "{{ params.on_gap }}"},
        {"range_columns": ["{{ params.column }}"]},
        {"icdc_namespace": "{{ var.value.namespace }}"},
    ],
)
def test_a_template_is_left_for_the_run(arguments):
    IpCaptureOperator(**{"task_id": "capture", "source_tables": "db.events", **arguments})


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"icdc_retention": "forever"}, "icdc_retention='forever' is unknown"),
        ({"capture": None}, "capture=None is not an IpCaptureOperator"),
        ({"capture": 7}, "capture=7 is not an IpCaptureOperator"),
        ({"require": []}, "require=[] requires nothing"),
        ({"require": [7]}, "require=7 is not a task"),
        ({"require": 7}, "require=7 is not a task"),
        ({"require": ["job", ()]}, "require names an empty tuple of tasks"),
        ({"require": [("job", 7)]}, "require=7 is not a task"),
        ({"target_changes": True}, "target_changes=True has no target"),
        ({"target_changes": "yes", "verify_target": "db.t"}, "target_changes='yes'"),
    ],
)
def test_a_commit_that_cannot_be_right(arguments, problem):
    with pytest.raises(InputError) as caught:
        IpCommitOperator(**{"task_id": "commit", "capture": "capture", **arguments})

    assert problem in str(caught.value)
    assert "What to do: " in str(caught.value)


def test_a_commit_is_downstream_of_its_capture_without_an_arrow():
    with DAG("arrowless", schedule=None):
        captured = IpCaptureOperator(task_id="capture", source_tables="db.events")
        by_task = IpCommitOperator(task_id="by_task", capture=captured)
        by_output = IpCommitOperator(task_id="by_output", capture=captured.output)
        by_id = IpCommitOperator(task_id="by_id", capture="capture")

    assert [commit.upstream_task_ids for commit in (by_task, by_output, by_id)] == [{"capture"}] * 3


def test_one_capture_of_a_consumer_runs_at_a_time_unless_set_otherwise():
    assert IpCaptureOperator(task_id="a", source_tables="db.t").max_active_tis_per_dag == 1
    assert IpCaptureOperator(task_id="b", source_tables="db.t", max_active_tis_per_dag=3).max_active_tis_per_dag == 3


HEAD = """
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, task, task_group
from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

with DAG("parsed", schedule=None) as dag:
    capture = IpCaptureOperator(task_id="capture", source_tables="db.events")
"""


@pytest.fixture
def parse(airflow_database, tmp_path):
    """Read a DAG file as the DAG processor does, and return its import error."""
    from airflow.dag_processing.dagbag import DagBag

    def read(body):
        (tmp_path / "parsed.py").write_text(HEAD + indent(dedent(body), "    "))
        bag = DagBag(dag_folder=tmp_path)
        assert bag.import_errors or "parsed" in bag.dags
        return "".join(bag.import_errors.values())

    return read


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            'IpCommitOperator(task_id="commit", capture="captur")',
            "names the capture task 'captur', which does not exist",
        ),
        (
            'EmptyOperator(task_id="a") >> IpCommitOperator(task_id="commit", capture="a")',
            "names 'a' as its capture, which is not an IpCaptureOperator",
        ),
        ('IpCommitOperator(task_id="commit", capture=EmptyOperator(task_id="a"))', "is not an IpCaptureOperator"),
        (
            """
            IpCommitOperator(task_id="commit", capture=capture)
            BashOperator(task_id="late", bash_command=f"run {capture.output['db.events']}")
            """,
            "task 'late' uses the capture 'capture' but is not upstream of the commit 'commit'",
        ),
        (
            """
            commit = IpCommitOperator(task_id="commit", capture=capture)
            commit >> BashOperator(task_id="late", bash_command="run", env={"T": capture.output["db.events"]})
            """,
            "task 'late' uses the capture",
        ),
        (
            """
            IpCommitOperator(task_id="commit", capture=capture)
            BashOperator(task_id="late", bash_command="run {{ ti.xcom_pull('capture', key='db.events') }}")
            """,
            "task 'late' uses the capture",
        ),
        (
            """
            IpCommitOperator(task_id="commit", capture=capture)
            BashOperator(task_id="late", bash_command="{{ ti.xcom_pull(key='db.events', task_ids=['x', 'capture']) }}")
            """,
            "task 'late' uses the capture",
        ),
        (
            """
            IpCommitOperator(task_id="commit", capture=capture)
            names = [capture.output["db.events"]]
            PythonOperator.partial(task_id="late", python_callable=print, op_args=names).expand(op_kwargs=[{}])
            """,
            "task 'late' uses the capture",
        ),
        (
            """
            early = BashOperator(task_id="early", bash_command="run {{ ti.xcom_pull('capture', key='db.events') }}")
            early >> IpCommitOperator(task_id="commit", capture=capture)
            """,
            "task 'early' uses the capture 'capture' but is not downstream of it",
        ),
        (
            """
            @task
            def late(name): ...
            IpCommitOperator(task_id="commit", capture=capture)
            late(capture.output["db.events"])
            """,
            "task 'late' uses the capture",
        ),
        (
            """
            job, again = (EmptyOperator(task_id=name) for name in ("job", "again"))
            recover = EmptyOperator(task_id="recover", trigger_rule="one_failed")
            capture >> job >> recover >> again >> IpCommitOperator(task_id="commit", capture=capture)
            """,
            "has trigger_rule='all_success', and is skipped whenever nothing fails, with 'again', 'recover'",
        ),
        (
            """
            job = EmptyOperator(task_id="job")
            gate = EmptyOperator(task_id="gate", trigger_rule="none_failed_min_one_success")
            recover = EmptyOperator(task_id="recover", trigger_rule="all_failed")
            capture >> job >> recover >> gate >> IpCommitOperator(task_id="commit", capture=capture)
            """,
            "is skipped whenever nothing fails, with 'gate', 'recover'",
        ),
        (
            """
            job, recover = EmptyOperator(task_id="job"), EmptyOperator(task_id="recover", trigger_rule="one_failed")
            capture >> job >> recover >> IpCommitOperator(task_id="commit", capture=capture, trigger_rule="all_done")
            """,
            "requires the success of 'recover', skipped whenever nothing fails",
        ),
        (
            """
            job, recover = EmptyOperator(task_id="job"), EmptyOperator(task_id="recover", trigger_rule="one_failed")
            capture >> job >> recover >> IpCommitOperator(
                task_id="commit", capture=capture, trigger_rule="all_done", require=[job, (recover,)]
            )
            """,
            "requires the success of 'recover', skipped whenever nothing fails",
        ),
        (
            """
            commit = IpCommitOperator(task_id="commit", capture=capture, trigger_rule="one_success")
            capture >> EmptyOperator(task_id="job") >> commit
            """,
            "has trigger_rule='one_success', which does not wait for the job",
        ),
        (
            'IpCommitOperator(task_id="commit", capture=capture).as_teardown()',
            "'commit' is a teardown",
        ),
        (
            """
            commit = IpCommitOperator(task_id="commit", capture=capture)
            capture >> EmptyOperator(task_id="work").as_teardown() >> commit
            """,
            "teardown 'work' is between capture and commit",
        ),
        (
            """
            IpCommitOperator(task_id="commit", capture=capture)
            IpCommitOperator(task_id="again", capture=capture)
            """,
            "both commit the capture 'capture'",
        ),
        (
            'IpCommitOperator(task_id="commit", capture=capture, require=["nowhere"])',
            "require='nowhere' of commit 'commit' is not a task upstream of it",
        ),
        (
            """
            capture >> EmptyOperator(task_id="late")
            IpCommitOperator(task_id="commit", capture=capture, require=["late"])
            """,
            "require='late' of commit 'commit' is not a task upstream of it",
        ),
        (
            """
            daily, early = EmptyOperator(task_id="daily"), EmptyOperator(task_id="early")
            early >> capture >> daily
            daily >> IpCommitOperator(
                task_id="commit", capture=capture, trigger_rule="all_done", require=[(daily, early)]
            )
            """,
            "require='early' of commit 'commit' is not downstream of the capture 'capture'",
        ),
        (
            """
            daily, beside = EmptyOperator(task_id="daily"), EmptyOperator(task_id="beside")
            capture >> daily >> (commit := IpCommitOperator(task_id="commit", capture=capture, require=[daily, beside]))
            beside >> commit
            """,
            "require='beside' of commit 'commit' is not downstream of the capture 'capture'",
        ),
        (
            """
            daily = EmptyOperator(task_id="daily")
            capture >> daily >> IpCommitOperator(
                task_id="commit", capture=capture, trigger_rule="all_done", require=[(daily, capture)]
            )
            """,
            "require='capture' of commit 'commit' is its capture",
        ),
        (
            'IpCommitOperator(task_id="commit", capture=capture, require="capture")',
            "require='capture' of commit 'commit' is its capture",
        ),
        (
            """
            job, inner = EmptyOperator(task_id="job"), IpCaptureOperator(task_id="inner", source_tables="db.users")
            between = IpCommitOperator(task_id="between", capture=inner)
            capture >> inner >> job >> between >> IpCommitOperator(
                task_id="commit", capture=capture, trigger_rule="all_done", require=[(job, inner)]
            )
            """,
            "require='inner' of commit 'commit' is another capture",
        ),
        (
            """
            job, inner = EmptyOperator(task_id="job"), IpCaptureOperator(task_id="inner", source_tables="db.users")
            between = IpCommitOperator(task_id="between", capture=inner)
            capture >> inner >> job >> between >> IpCommitOperator(
                task_id="commit", capture=capture, require=[between]
            )
            """,
            "require='between' of commit 'commit' is another commit",
        ),
        (
            """
            for name in ("a", "b"):
                one = IpCaptureOperator(task_id=name, source_tables="db.t", consumer="shared")
                IpCommitOperator(task_id=f"commit_{name}", capture=one)
            """,
            "captures 'a' and 'b' of DAG 'parsed' share consumer 'shared'",
        ),
        (
            """
            kept = IpCaptureOperator(task_id="renamed", source_tables="db.events", consumer="parsed.capture")
            """,
            "captures 'capture' and 'renamed' of DAG 'parsed' share consumer 'parsed.capture'",
        ),
        (
            """
            @task
            def days(record): ...
            @task
            def redo(day): ...
            listed = days(capture.output["capture"])
            redo.expand(day=listed)
            listed >> IpCommitOperator(task_id="commit", capture=capture)
            """,
            "task 'redo' uses the capture 'capture' through 'days' but is not upstream of the commit 'commit'",
        ),
        (
            """
            @task
            def days(record): ...
            BashOperator(task_id="early", bash_command="{{ ti.xcom_pull('days') }}") >> (
                commit := IpCommitOperator(task_id="commit", capture=capture)
            )
            days(capture.output["capture"]) >> commit
            """,
            "task 'early' uses the capture 'capture' through 'days' but is not downstream of it",
        ),
        (
            """
            cluster, work = EmptyOperator(task_id="create").as_setup(), EmptyOperator(task_id="work")
            cluster >> work >> IpCommitOperator(task_id="commit", capture=capture)
            load = BashOperator(task_id="load", bash_command="run", env={"T": capture.output["db.events"]})
            work >> load.as_teardown(setups=cluster)
            """,
            "task 'load' uses the capture 'capture' but is not upstream of the commit 'commit'",
        ),
        (
            """
            commit = IpCommitOperator(task_id="commit", capture=capture)
            job = "{{ ti.xcom_pull('capture', key='capture') }} {{ ti.xcom_pull('capture', key='db.events') }}"
            commit >> BashOperator(task_id="late", bash_command=job)
            """,
            "task 'late' uses the capture",
        ),
        (
            """
            @task_group
            def each(number):
                IpCommitOperator(task_id="commit", capture=capture)
            each.expand(number=[1, 2])
            """,
            "commit 'each.commit' is in a mapped task group, and its capture 'capture' is not",
        ),
        (
            'IpCommitOperator.partial(task_id="commit").expand(capture=["capture"])',
            "commit 'commit' is expanded",
        ),
        (
            """
            many = IpCaptureOperator.partial(task_id="many").expand(source_tables=["db.a", "db.b"])
            many >> EmptyOperator(task_id="job") >> IpCommitOperator(task_id="commit", capture=many)
            """,
            "capture 'many' has several instances in a run, and its commit 'commit' is one task for all of them",
        ),
        (
            """
            @task_group
            def each(table):
                IpCaptureOperator(task_id="capture", source_tables=table) >> EmptyOperator(task_id="job")
            each.expand(table=["db.a", "db.b"]) >> IpCommitOperator(task_id="commit", capture="each.capture")
            """,
            "capture 'each.capture' has several instances in a run, and its commit 'commit' is one task for all",
        ),
        (
            """
            work = BashOperator(task_id="work", bash_command=f"run {capture.output}")
            capture >> work >> IpCommitOperator(task_id="commit", capture=capture)
            """,
            "task 'work' pulls the output of the capture 'capture' without a key",
        ),
        (
            """
            work = BashOperator(task_id="work", bash_command=f"run {capture.output['db.event']}")
            capture >> work >> IpCommitOperator(task_id="commit", capture=capture)
            """,
            "did you mean 'db.events'?",
        ),
        (
            """
            work = BashOperator(task_id="work", bash_command=f"run {capture.output['db.events.before']}")
            capture >> work >> IpCommitOperator(task_id="commit", capture=capture)
            """,
            "task 'work' pulls 'db.events.before', which the capture 'capture' does not push",
        ),
    ],
)
def test_a_dag_whose_wiring_would_lose_rows(parse, body, problem):
    error = parse(body)

    assert "InputError" in error
    assert problem in error
    assert "What to do: " in error


@pytest.mark.parametrize(
    "body",
    [
        """
        work = BashOperator(task_id="work", bash_command=f"run {capture.output['db.events']}")
        capture >> work >> IpCommitOperator(task_id="commit", capture=capture)
        """,
        """
        pulled = [capture.output[key] for key in ("db.events.from", "db.events.lower.day", "positions", "capture_id")]
        work = BashOperator(task_id="work", bash_command=" ".join(map(str, pulled)))
        capture >> work >> IpCommitOperator(task_id="commit", capture=capture)
        """,
        """
        other = IpCaptureOperator(task_id="other", source_tables="{{ params.table }}")
        work = BashOperator(task_id="work", bash_command=f"run {other.output['whatever']}")
        other >> work >> IpCommitOperator(task_id="commit", capture=other)
        """,
        """
        early = IpCommitOperator(task_id="commit", capture="later")
        later = IpCaptureOperator(task_id="later", source_tables="db.events")
        """,
        """
        commit = IpCommitOperator(task_id="commit", capture=capture)
        commit >> BashOperator(task_id="report", bash_command="{{ ti.xcom_pull('commit', key='capture') }}")
        """,
        """
        commit = IpCommitOperator(task_id="commit", capture=capture)
        commit >> PythonOperator(task_id="notify", python_callable=print, op_args=[capture.output["capture"]])
        told = "{{ ti.xcom_pull('capture', key='capture_id') }} {{ ti.xcom_pull('job', key='rows') }}"
        commit >> BashOperator(task_id="tell", bash_command=told)
        """,
        """
        @task
        def count(table): ...
        @task
        def report(rows): ...
        counted = count(capture.output["db.events"])
        counted >> IpCommitOperator(task_id="commit", capture=capture) >> report(counted)
        """,
        """
        make, load = EmptyOperator(task_id="make"), EmptyOperator(task_id="load")
        drop = PythonOperator(task_id="drop", python_callable=print, op_args=[capture.output["capture_id"]])
        capture >> make >> load >> IpCommitOperator(task_id="commit", capture=capture)
        load >> drop.as_teardown(setups=make)
        """,
        """
        renamed = IpCaptureOperator(task_id="renamed", source_tables="db.events", consumer="parsed.plays")
        plays = IpCaptureOperator.partial(task_id="plays").expand(source_tables=["db.a", "db.b"])
        """,
        """
        cluster = EmptyOperator(task_id="create").as_setup()
        work = EmptyOperator(task_id="work")
        capture >> cluster >> work >> IpCommitOperator(task_id="commit", capture=capture)
        cluster >> work >> EmptyOperator(task_id="delete").as_teardown(setups=cluster)
        """,
        """
        @task_group
        def each(table):
            captured = IpCaptureOperator(task_id="capture", source_tables=table)
            captured >> EmptyOperator(task_id="job") >> IpCommitOperator(task_id="commit", capture=captured)
        each.expand(table=["db.a", "db.b"])
        """,
        """
        @task.branch
        def choose(): ...
        jobs = [EmptyOperator(task_id=name) for name in ("merge", "rebuild")]
        capture >> choose() >> jobs >> IpCommitOperator(
            task_id="commit", capture=capture, trigger_rule="all_done", require=[jobs]
        )
        """,
        """
        @task.branch
        def choose(): ...
        work, later = EmptyOperator(task_id="work"), EmptyOperator(task_id="later")
        capture >> choose() >> [work, later]
        work >> IpCommitOperator(task_id="commit", capture=capture)
        """,
        """
        @task.branch
        def choose(): ...
        check, work = EmptyOperator(task_id="check"), EmptyOperator(task_id="work", trigger_rule="none_failed")
        chosen = choose()
        capture >> chosen >> [check, work]
        check >> work >> IpCommitOperator(task_id="commit", capture=capture, require=work)
        """,
        'IpCaptureOperator.partial(task_id="many").expand(source_tables=["db.a", "db.b"])',
    ],
)
def test_a_dag_that_is_right_parses(parse, body):
    assert parse(body) == ""


def test_an_id_defined_later_in_the_file_still_sets_the_dependency(airflow_database, tmp_path):
    from airflow.dag_processing.dagbag import DagBag

    (tmp_path / "parsed.py").write_text(
        HEAD + '    IpCommitOperator(task_id="commit", capture="later")\n'
        '    IpCaptureOperator(task_id="later", source_tables="db.events")\n'
    )

    dag = DagBag(dag_folder=tmp_path).dags["parsed"]

    assert dag.get_task("commit").upstream_task_ids == {"later"}


STAGES = """
from airflow.sdk import DAG
from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, iceberg_asset

CHANGES = ["append", "overwrite", "delete"]
with DAG("one", schedule=None):
    first = IpCaptureOperator(task_id="first", source_tables="db.raw", data_operations={first})
    IpCommitOperator(task_id="commit", capture=first, {target})
with DAG("two", schedule=None):
    second = IpCaptureOperator(task_id="second", source_tables=["db.other", "db.staged"], {second})
    IpCommitOperator(task_id="commit", capture=second)
"""
BY_STAMP = 'verify_target="db.staged"'
BY_ASSET = 'target_assets=iceberg_asset("db.staged", iceberg_conn_id="lake")'


def stages(folder, **parts):
    """Parse a file of two DAGs, the second of which captures what the first writes."""
    from airflow.dag_processing.dagbag import DagBag

    parts = {"first": "CHANGES", "target": BY_ASSET, "second": "", **parts}
    (folder / "stages.py").write_text(STAGES.format(**parts))
    return "".join(DagBag(dag_folder=folder).import_errors.values())


@pytest.mark.parametrize("target", [BY_STAMP, BY_ASSET], ids=["verified", "asset"])
def test_a_stage_that_captures_appends_after_one_that_writes_changes_is_refused(airflow_database, tmp_path, target):
    """Whichever of the two DAGs Airflow looks at first."""
    error = stages(tmp_path, target=target)

    assert "two.second captures the appends of 'db.staged' only, and one.first before it captures changes" in error
    assert "data_operations=" in error


def test_a_stage_that_merges_what_it_captures_of_appends_can_say_so(airflow_database, tmp_path):
    """The file does not show what a job does: the first stage of the talk merges appended rows."""
    error = stages(tmp_path, first='["append"]', target=f"{BY_ASSET}, target_changes=True")

    assert "two.second captures the appends of 'db.staged' only" in error
    assert "one.first before it says that its job changes rows there" in error


@pytest.mark.parametrize(
    "parts",
    [
        {"first": '["append"]'},
        {"second": "data_operations=CHANGES"},
        {"second": 'on_other_operation="skip"'},
        {"target": 'verify_target="{{{{ params.target }}}}"'},
        {"target": 'verify_target="db.elsewhere"'},
    ],
    ids=["appends first", "changes downstream", "says so", "unknown", "another table"],
)
def test_stages_that_fit_one_another_parse(airflow_database, tmp_path, parts):
    assert stages(tmp_path, **parts) == ""


BACKFILLED = """
from airflow.sdk import DAG, task_group
from airflow_provider_ips import IpBackfillOperator, IpCaptureOperator, IpCommitOperator, SourceTable

CHANGES = ["append", "overwrite", "delete"]
with DAG("backfilled", schedule=None):
    plan = IpBackfillOperator(task_id="plan", source_table={plan}, target_tables="db.staged")
{body}
with DAG("next", schedule=None):
    second = IpCaptureOperator(task_id="second", source_tables="db.staged", {second})
    IpCommitOperator(task_id="commit", capture=second)
"""
GROUP = """
@task_group
def part(chunk):
    capture = IpCaptureOperator(task_id="capture", source_tables="db.raw", {capture})
    IpCommitOperator(task_id="commit", capture=capture)
parts = part.expand(chunk=plan.output)
"""
EXPANDED = """
IpCaptureOperator.partial(task_id="capture", source_tables="db.raw").expand({over})
"""
BESIDE = """
beside = IpCaptureOperator(task_id="beside", source_tables="db.raw", consumer="live")
IpCommitOperator(task_id="commit", capture=beside)
"""


def backfilled(folder, body, *, plan='"db.raw"', second="data_operations=CHANGES"):
    """Parse a file of a DAG that backfills, and one that reads what it writes."""
    from airflow.dag_processing.dagbag import DagBag

    (folder / "backfilled.py").write_text(
        BACKFILLED.format(plan=plan, second=second, body=indent(dedent(body), "    "))
    )
    return "".join(DagBag(dag_folder=folder).import_errors.values())


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            GROUP.format(capture=""),
            "capture 'part.capture' is downstream of the plan 'plan' of a backfill, and takes no",
        ),
        (GROUP.format(capture='consumer="live"'), "takes no chunk of it"),
        (
            EXPANDED.format(over='source_tables=["db.raw"]').replace(
                'source_tables="db.raw"', 'trigger_rule="all_done"'
            )
            + 'plan >> dag.task_dict["capture"]'
            + BESIDE,
            "takes no chunk of it",
        ),
        (
            EXPANDED.format(over="chunk=plan.output") + 'IpCommitOperator(task_id="commit", capture="capture")',
            "has several instances in a run",
        ),
        (GROUP.format(capture="chunk=chunk") + BESIDE + "plan >> beside", "capture 'beside' is downstream of the plan"),
        (
            GROUP.format(capture="chunk=chunk, data_operations=CHANGES"),
            "takes chunks of 'db.raw' with data_operations=('append', 'overwrite', 'delete'), and 'plan' plans them",
        ),
        (GROUP.format(capture='chunk=chunk, equality_deletes="carry"'), "with equality_deletes='carry', and 'plan'"),
    ],
    ids=["group", "live consumer", "expanded", "one commit", "beside the group", "operations", "equality deletes"],
)
def test_a_capture_that_would_do_something_else_than_was_planned(airflow_database, tmp_path, body, problem):
    """Take its usual range, and move the checkpoint of live runs; or take other rows than the plan has counted."""
    error = backfilled(tmp_path, body.replace("dag.task_dict", "plan.dag.task_dict"))

    assert "InputError" in error
    assert problem in error


@pytest.mark.parametrize(
    ("body", "plan"),
    [
        (GROUP.format(capture="chunk=chunk"), '"db.raw"'),
        (EXPANDED.format(over="chunk=plan.output") + BESIDE, '"db.raw"'),
        (GROUP.format(capture="chunk=chunk") + BESIDE + "parts >> beside", '"db.raw"'),
        (GROUP.format(capture="chunk=chunk") + BESIDE, '"db.raw"'),
        (GROUP.format(capture="chunk=chunk") + BESIDE + "parts >> beside\nplan >> beside", '"db.raw"'),
        (
            GROUP.format(capture="chunk=chunk, data_operations=CHANGES"),
            'SourceTable("db.raw", data_operations=CHANGES)',
        ),
        (GROUP.format(capture="chunk=chunk, data_operations=CHANGES"), '"{{{{ params.table }}}}"'),
    ],
    ids=["group", "expanded", "next stage", "unrelated", "next stage twice", "both", "unknown"],
)
def test_captures_that_take_what_was_planned_parse(airflow_database, tmp_path, body, plan):
    assert backfilled(tmp_path, body, plan=plan) == ""


def test_a_stage_that_captures_appends_of_what_a_backfill_rewrites_is_refused(airflow_database, tmp_path):
    error = backfilled(tmp_path, GROUP.format(capture="chunk=chunk"), second="")

    assert "next.second captures the appends of 'db.staged' only, and backfilled.plan before it backfills it" in error


def test_a_stage_that_skips_what_a_backfill_rewrites_says_so(airflow_database, tmp_path):
    assert backfilled(tmp_path, GROUP.format(capture="chunk=chunk"), second='on_other_operation="skip"') == ""
