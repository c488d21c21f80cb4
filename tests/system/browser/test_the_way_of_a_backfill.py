"""A backfill in chunks on its way through two DAGs, as the page *Stages* follows it. It is last: others count rows."""

from playwright.sync_api import expect

from scripts.lake import create_events_table
from tests.system.browser.test_the_page_incremental import open_page

REFILL, NEXT = "playback_refill", "playback_yearly"


def words(frame):
    """What is said of each chunk, stage by stage, and of the last one."""
    rows = frame.locator("table.steps tbody tr").all()
    return [row.locator(".badge").all_inner_texts() for row in rows]


def test_each_chunk_is_followed_from_stage_to_stage(airflow, page, shoot):
    """Seven days a chunk: the next stage has them once a run of it has committed what the chunks wrote."""
    create_events_table(airflow.lakes["lake"].catalog, "db.playback_weekly")
    for dag_id in (REFILL, NEXT):
        airflow.rest.wait_for(lambda name=dag_id: airflow.rest.knows(name), f"{dag_id} to be read")
    days = {"ips_run": "partitions", "ips_partitions": "event_date < '2026-11-13'"}
    airflow.rest.finish(REFILL, airflow.rest.trigger(REFILL, "refill", conf=days))
    assert airflow.rest.run(REFILL, "refill")["state"] == "success"

    frame = open_page(page, "/ips/stages")
    expect(frame.get_by_role("link", name="refill", exact=True)).to_be_visible()
    assert words(frame) == [["committed", "waits"], ["committed", "waits"]]
    airflow.rest.finish(NEXT, airflow.rest.trigger(NEXT, "after_refill"))
    frame = open_page(page, "/ips/stages")

    expect(frame.get_by_text("last one done")).to_be_visible()
    assert words(frame) == [["committed", "committed"], ["committed", "committed"]]
    assert frame.locator("table.steps tfoot time").count() == 2
    shoot(page, "incremental-backfill")
