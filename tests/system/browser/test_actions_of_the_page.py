"""Every action of the page *Incremental*, in a real browser: what it will do, its confirmation, its refusal, its trace.

The stories follow each other on one consumer, as a person's night would: each sets up what it needs.
"""

import re
from urllib.parse import unquote

import pytest
from playwright.sync_api import expect

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.identifiers import variable_key
from tests.system.browser.conftest import visit
from tests.system.browser.test_the_page_incremental import log_in_as_reader, open_page

DAG = "clicks_hourly"
CONSUMER = f"{DAG}.capture"
PAGE = f"/ips/consumers/{DAG}?consumer={CONSUMER}"
BY_HAND = ("rewind", "seed", "reset", "abandon", "replay", "dry-run")


@pytest.fixture(scope="module", autouse=True)
def two_commits(airflow):
    """Two runs have committed, and the DAGs that the page starts are there."""
    lake = airflow.lakes["lake"]
    lake.create("db.clicks", [1, 2, 3])
    for dag_id in (DAG, "ips_maintenance", "ips_watch"):
        airflow.rest.wait_for(lambda name=dag_id: airflow.rest.knows(name), f"{dag_id} to be read")
    for run_id in ("one", "two"):
        airflow.rest.finish(DAG, airflow.rest.trigger(DAG, run_id))
        lake.append("db.clicks", [4, 5])


def checkpoint(airflow):
    return Checkpoint.parse(airflow.rest.variable(variable_key(CONSUMER)), consumer=CONSUMER)


def verbs(airflow):
    return [(each.who, each.verb) for each in checkpoint(airflow).interventions]


def open_action(page, title):
    """Go to the consumer, and press the button of an action."""
    frame = open_page(page, PAGE)
    frame.get_by_role("link", name=title, exact=True).click()
    expect(frame.get_by_role("heading", name=title).first).to_be_visible()
    return frame


def confirm(frame, title, word=CONSUMER):
    """Type a wrong word first, which is refused and does nothing, then the right one."""
    frame.get_by_label("To confirm, type").fill("something else")
    frame.get_by_role("button", name=title, exact=True).click()
    expect(frame.get_by_role("alert")).to_contain_text("Nothing was done")
    if frame.get_by_role("button", name="Show what will change").count():
        frame.get_by_role("button", name="Show what will change").click()
    frame.get_by_label("To confirm, type").fill(word)
    frame.get_by_role("button", name=title, exact=True).click()


def run_started(airflow, frame, dag_id="ips_maintenance"):
    """Follow the link to the run that does it, and wait for its end."""
    address = frame.get_by_role("link", name="Look at the run").get_attribute("href")
    run_id = unquote(address.rpartition("/")[2])
    airflow.rest.finish(dag_id, run_id)
    return run_id


def test_a_rewind_to_before_a_capture_is_shown_and_done_at_once(airflow, page, shoot):
    before = checkpoint(airflow)
    frame = open_action(page, "Rewind")
    frame.get_by_label("Capture").select_option(index=1)
    frame.get_by_role("button", name="Show what will change").click()
    expect(frame.get_by_text("What will change", exact=True)).to_be_visible()
    shoot(page, "incremental-rewind")
    assert checkpoint(airflow) == before

    frame.get_by_label("To confirm, type").fill(CONSUMER)
    frame.get_by_role("button", name="Rewind", exact=True).click()

    expect(frame.get_by_text("Written: the checkpoint")).to_be_visible()
    assert checkpoint(airflow).history == before.history[:-1]
    assert verbs(airflow) == [("admin", "rewind")]
    frame.get_by_role("link", name="Back to the consumer").click()
    expect(frame.get_by_text("changed by hand").first).to_be_visible()
    expect(frame.get_by_text("Rewind by admin")).to_be_visible()
    expect(frame.locator("tr", has_text="two").get_by_text("rewound")).to_be_visible()


def test_a_dry_run_is_a_run_of_the_dag_that_changes_nothing(airflow, page):
    before = checkpoint(airflow)
    frame = open_action(page, "Dry run")
    confirm(frame, "Dry run")
    expect(frame.get_by_text("started", exact=True)).to_be_visible()
    run_id = run_started(airflow, frame, DAG)

    frame = open_page(page, PAGE)
    expect(frame.locator("tr", has_text=run_id).get_by_text("dry run", exact=True)).to_be_visible()
    assert checkpoint(airflow) == before


def test_a_replay_is_previewed_and_done_by_runs_of_the_maintenance_dag(airflow, page):
    before = checkpoint(airflow)
    frame = open_action(page, "Replay")
    frame.get_by_label("Capture").select_option(index=1)
    frame.get_by_role("button", name="Show what will change").click()
    expect(frame.get_by_text("Nothing is written by it.")).to_be_visible()
    preview = run_started(airflow, frame)

    frame.get_by_label("To confirm, type").fill(CONSUMER)
    frame.get_by_role("button", name="Replay", exact=True).click()
    expect(frame.get_by_text("A run does it.")).to_be_visible()
    done = run_started(airflow, frame)

    assert {each["dag_run_id"]: each["state"] for each in airflow.rest.runs("ips_maintenance")} == {
        preview: "success",
        done: "success",
    }
    assert checkpoint(airflow) == before


def test_a_failed_capture_is_shown_and_abandoned(airflow, page):
    airflow.rest.finish(DAG, airflow.rest.trigger(DAG, "fails", conf={"fails": True}))
    frame = open_page(page, PAGE)
    expect(frame.get_by_text("failed and uncommitted").first).to_be_visible()
    frame.get_by_role("link", name="Abandon", exact=True).click()
    frame.get_by_role("button", name="Show what will change").click()
    confirm(frame, "Abandon")

    expect(frame.get_by_text("Written: the checkpoint")).to_be_visible()
    assert checkpoint(airflow).pending is None
    frame.get_by_role("link", name="Back to the consumer").click()
    expect(frame.locator("tr", has_text="fails").get_by_text("given up")).to_be_visible()


def test_after_a_reset_a_source_can_be_seeded(airflow, page):
    frame = open_action(page, "Reset")
    frame.get_by_role("button", name="Show what will change").click()
    confirm(frame, "Reset")
    expect(frame.get_by_text("Written: the checkpoint")).to_be_visible()
    assert checkpoint(airflow).positions == ()

    frame = open_action(page, "Seed")
    frame.get_by_label("Source table").select_option("db.clicks")
    frame.get_by_label("Latest").check()
    frame.get_by_role("button", name="Show what will change").click()
    expect(frame.get_by_text("Nothing is written by it.")).to_be_visible()
    frame.get_by_label("To confirm, type").fill(CONSUMER)
    frame.get_by_role("button", name="Seed", exact=True).click()
    expect(frame.get_by_text("A run does it.")).to_be_visible()
    run_started(airflow, frame)

    (position,) = checkpoint(airflow).positions
    assert position.position.snapshot_id == airflow.lakes["lake"].head("db.clicks")
    assert [verb for _, verb in verbs(airflow)] == ["rewind", "abandon", "reset", "seed"]


def test_a_clean_up_asks_for_the_namespace(airflow, page):
    frame = open_page(page)
    frame.get_by_role("link", name="Clean up", exact=True).click()
    frame.get_by_role("button", name="Show what will change").click()
    expect(frame.get_by_text("Nothing is written by it.")).to_be_visible()
    confirm(frame, "Clean up", word="icdc")

    expect(frame.get_by_text("A run does it.")).to_be_visible()
    run_started(airflow, frame)


def test_a_look_is_a_run_of_the_watch(airflow, page):
    frame = open_page(page)
    frame.get_by_role("link", name="Look now", exact=True).click()
    frame.get_by_role("button", name="Look now").click()
    run_started(airflow, frame, "ips_watch")

    frame = open_page(page, f"/ips/tables/{DAG}?table=db.clicks")
    expect(frame.get_by_text("by ips_watch")).to_be_visible()
    expect(frame.locator("table.commits tbody tr")).to_have_count(3)


def test_what_was_done_is_in_airflows_audit_log(airflow):
    events = [entry["event"] for entry in airflow.rest.ask("GET", "/eventLogs?limit=200")["event_logs"]]

    assert {f"ips {name}" for name in (*BY_HAND, "gc", "look")} <= set(events)


def test_a_reader_has_no_action_and_no_address_of_one(airflow, chromium):
    with visit(airflow, chromium, None) as page:
        log_in_as_reader(airflow, page)
        frame = open_page(page, PAGE)
        expect(frame.get_by_text("What to do now:")).to_be_visible()
        expect(frame.get_by_role("group", name="Actions")).to_have_count(0)

        for address in (*(PAGE.replace("?", f"/{name}?") for name in BY_HAND), "/ips/gc", "/ips/look"):
            page.goto(address)
            expect(page.get_by_role("heading", name="You may not read this")).to_be_visible()
            refused = page.request.post(
                address, form={"step": "perform", "confirm": CONSUMER}, headers={"Sec-Fetch-Site": "same-origin"}
            )
            assert (address, refused.status) == (address, 403)
        expect(page.get_by_text(re.compile("clicks"))).to_have_count(0)
