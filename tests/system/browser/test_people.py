"""What people do in the Airflow UI, in a real browser: trigger by the form, watch, read the log, follow the link."""

import re
from urllib.parse import quote, unquote

import pytest
from playwright.sync_api import expect

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.identifiers import variable_key
from tests.kit.deployment import PASSWORD, USER

DAG = "playback_daily"
TASKS = ("capture", "daily", "commit")
KEYS = ("db.playback.to", "positions")
GREEN_HUES = range(130, 165)


def open_form(page):
    """Open the DAG and its trigger form, whose first section is the range."""
    page.goto(f"/dags/{DAG}")
    page.get_by_role("button", name="Trigger").first.click()
    form = page.get_by_role("dialog")
    form.get_by_role("button", name="Range").click()
    expect(form.get_by_text("Usual: everything since the last success")).to_be_visible()
    return form


def trigger(page, form):
    """Send the form; the UI then shows the run. Return its id."""
    form.get_by_role("button", name="Trigger", exact=True).click()
    page.wait_for_url(re.compile(rf"/dags/{DAG}/runs/manual__"))
    return unquote(page.url.rpartition("/")[2].partition("?")[0])


def watch_it_turn_green(page, run_id):
    """Wait for the run, and look at each task's field in the grid."""
    expect(page.get_by_text("Success", exact=True).first).to_be_visible()
    for task in TASKS:
        field = page.get_by_test_id(f"grid-{run_id}-{task}").get_by_test_id("task-state-badge")
        page.wait_for_function(
            "([field, hues]) => hues.includes("
            "Math.round(getComputedStyle(field).backgroundColor.match(/oklch\\([^ ]+ [^ ]+ ([\\d.]+)/)?.[1]))",
            arg=[field.element_handle(), list(GREEN_HUES)],
        )


def follow_to_record(page, run_id, task="capture"):
    """Go by the button on the task's details, as a person would."""
    page.goto(f"/dags/{DAG}/runs/{quote(run_id, safe='')}/tasks/{task}/details")
    page.get_by_role("link", name="Capture record").click()
    expect(page.get_by_role("heading", name="What capture captured")).to_be_visible()
    return page.locator("main")


def checkpoint(airflow):
    text = airflow.rest.variable(variable_key(f"{DAG}.capture"))
    return None if text is None else Checkpoint.parse(text, consumer=f"{DAG}.capture")


@pytest.fixture(scope="module")
def first_run(airflow):
    """The run that takes all there is; what is looked at comes after it."""
    airflow.rest.finish(DAG, airflow.rest.trigger(DAG, "first"))
    return checkpoint(airflow)


def test_trigger_as_usual_watch_read_the_log_and_follow_the_link(airflow, page, first_run, append_a_day, shoot):
    append_a_day()
    form = open_form(page)
    shoot(page, "trigger-form")

    run_id = trigger(page, form)
    watch_it_turn_green(page, run_id)
    shoot(page, "run")

    page.get_by_test_id(f"grid-{run_id}-capture").click()
    expect(page.get_by_text("db.playback: captured what was added")).to_be_visible()
    for fact in ("captured", "not read", "read it as", "event_date", "Snapshots of db.playback: 1 captured"):
        expect(page.get_by_text(fact).first).to_be_visible()
    shoot(page, "log")
    page.get_by_test_id(f"grid-{run_id}-commit").click()
    expect(page.get_by_text("The checkpoint moved to the end of the captured range.")).to_be_visible()

    record = follow_to_record(page, run_id, task="commit")
    for told in (
        "committed",
        "what was added since the last commit",
        "10,200",
        "need not be read",
        "it adds 14 data files",
    ):
        expect(record.get_by_text(told).first).to_be_visible()
    shoot(page, "record", full_page=True)
    page.get_by_role("link", name="task and log").click()
    expect(page.get_by_text("db.playback: captured what was added")).to_be_visible()


def test_snapshot_ids_read_right_in_the_xcom_tab(airflow, page, first_run):
    """Airflow makes numbers of texts of digits, and browsers round those; `positions` it shows as it is.

    If `.to` is shown right here, Airflow has changed, and neither `positions` nor what the docs say of it is needed.
    """
    snapshot = str(first_run.positions[0].position.snapshot_id)
    assert airflow.rest.xcom(DAG, "first", "capture", "db.playback.to") == int(snapshot)

    page.goto(f"/dags/{DAG}/runs/first/tasks/capture/xcom")

    rows = {key: page.get_by_role("row").filter(has=page.get_by_role("cell", name=key, exact=True)) for key in KEYS}
    expect(rows["positions"]).to_contain_text(f"db.playback.from = none, db.playback.to = {snapshot}")
    expect(rows["db.playback.to"]).to_contain_text(snapshot[:15])
    expect(rows["db.playback.to"]).not_to_contain_text(snapshot)


def test_only_some_partitions_leave_the_checkpoint_alone(airflow, page, first_run, shoot):
    before = checkpoint(airflow)
    form = open_form(page)
    form.get_by_role("combobox", name="Capture").click()
    page.get_by_text("Some partitions, in full").click()
    form.locator("#element_ips_partitions").fill("event_date = '2026-11-10'")
    shoot(page, "trigger-form-partitions")

    run_id = trigger(page, form)
    watch_it_turn_green(page, run_id)
    record = follow_to_record(page, run_id)

    for told in ("detached", "What was requested", "event_date = '2026-11-10'", "2026-11-10"):
        expect(record.get_by_text(told).first).to_be_visible()
    shoot(page, "record-partitions", full_page=True)
    assert checkpoint(airflow) == before


def test_wrong_input_is_refused_at_the_form(airflow, page, first_run, shoot):
    """No run is made of it."""
    runs = [run["dag_run_id"] for run in airflow.rest.runs(DAG)]
    form = open_form(page)
    form.locator("#element_ips_since_snapshot").fill("yesterday's")

    form.get_by_role("button", name="Trigger", exact=True).click()

    expect(page.get_by_text("Failed to Trigger Dag")).to_be_visible()
    shoot(page, "refused")
    assert [run["dag_run_id"] for run in airflow.rest.runs(DAG)] == runs


def test_a_filter_on_what_is_no_partition_fails_with_words_that_help(airflow, page, first_run):
    """The form cannot know the table; the capture says which columns there are."""
    form = open_form(page)
    form.get_by_role("combobox", name="Capture").click()
    page.get_by_text("Some partitions, in full").click()
    form.locator("#element_ips_partitions").fill("device = 'tv'")

    run_id = trigger(page, form)
    expect(page.get_by_text("Failed", exact=True).first).to_be_visible()
    page.get_by_test_id(f"grid-{run_id}-capture").click()

    expect(page.get_by_text(re.compile("What to do:.*event_date")).first).to_be_visible()


def test_who_is_sent_the_link_and_is_not_logged_in_gets_there_after_the_login(airflow, stranger, first_run):
    stranger.goto(f"/ips/captures/{DAG}/first/capture")
    expect(stranger.get_by_role("heading", name="Log in first")).to_be_visible()

    stranger.get_by_role("link", name="Log in to Airflow").click()
    stranger.locator("input[name=username]").fill(USER)
    stranger.locator("input[type=password]").fill(PASSWORD)
    stranger.get_by_role("button", name="Sign in").click()

    expect(stranger.get_by_role("heading", name="What capture captured")).to_be_visible()
