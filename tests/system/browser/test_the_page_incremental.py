"""What people see and do on the page *Incremental*, in Airflow's frame: themes, a narrow window, actions, links."""

import json
import re

import pytest
from playwright.sync_api import expect

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.identifiers import variable_key
from tests.system.browser.conftest import DAYS, events_of, visit

DAG = "playback_daily"
CONSUMER = f"{DAG}.capture"


@pytest.fixture(scope="module", autouse=True)
def committed(airflow):
    """Runs of the DAG have committed, whatever other stories have done before."""
    airflow.rest.finish(DAG, airflow.rest.trigger(DAG, "page_first"))
    airflow.lakes["lake"].catalog.load_table("db.playback").append(events_of(DAYS - 1))
    airflow.rest.finish(DAG, airflow.rest.trigger(DAG, "page_second"))
    for dag_id in ("playback_weekly", "playback_yearly", "clicks_hourly", "playback_refill"):
        airflow.rest.wait_for(lambda name=dag_id: airflow.rest.knows(name), f"{dag_id} to be read")


PAGES = {
    "overview": "",
    "consumer": f"/ips/consumers/{DAG}?consumer={CONSUMER}",
    "tables": "/ips/tables",
    "table": f"/ips/tables/{DAG}?table=db.playback",
    "stages": "/ips/stages",
    "record": f"/ips/captures/{DAG}/page_second/capture",
    "rewind": f"/ips/consumers/{DAG}/rewind?consumer={CONSUMER}",
    "gc": "/ips/gc",
}
READABLE = 4.5
"""The least contrast between text and its background that WCAG calls readable."""

CONTRAST = """root => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data; };
  const light = (c) => [...c].slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (element) => { for (let e = element; e; e = e.parentElement) {
    const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return rgba("white"); };
  const texts = [...root.querySelectorAll("main *")].filter((e) => !e.closest("svg") && e.checkVisibility()
    && [...e.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()) && !e.disabled);
  return Math.min(...texts.map((e) => { const [a, b] = [light(rgba(getComputedStyle(e).color)), light(ground(e))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }));
}"""


def least_contrast(frame):
    """The contrast of the text on a page that is hardest to read."""
    return frame.locator("html").evaluate(CONTRAST)


def overflow(frame):
    """By how much a page is wider than its window."""
    return frame.locator("html").evaluate("root => root.scrollWidth - root.clientWidth")


def frame_of(page):
    return page.frame_locator("iframe[title=Incremental]")


def open_page(page, path=""):
    page.goto(f"/plugin/incremental{path}")
    return frame_of(page)


def rows_of(frame):
    return frame.locator("table[data-list] tbody tr:visible")


def is_dark(frame):
    return frame.locator("html").evaluate("root => root.classList.contains('dark')")


def switch_to(page, mode):
    """Turn Airflow's own switch."""
    page.get_by_role("button", name="User").click()
    page.get_by_role("menuitem", name="Appearance").click()
    page.get_by_role("menuitemradio", name=mode).click()
    page.keyboard.press("Escape")


def test_the_entry_in_the_navigation_leads_to_all_consumers(page, shoot):
    page.goto("/")
    page.get_by_role("link", name="Incremental").click()
    frame = frame_of(page)

    expect(frame.get_by_role("heading", name="Incremental")).to_be_visible()
    expect(rows_of(frame)).to_have_count(5)
    expect(frame.locator("tr", has_text=DAG).get_by_text("idle")).to_be_visible()
    shoot(page, "incremental-overview")


def test_rows_are_sorted_searched_and_filtered_and_the_address_keeps_it(page):
    frame = open_page(page)
    expect(rows_of(frame)).to_have_count(5)

    frame.get_by_role("button", name="Consumer").click()
    expect(rows_of(frame).first).to_contain_text("clicks_hourly")
    frame.get_by_role("button", name="Consumer").click()
    expect(rows_of(frame).first).to_contain_text("playback_yearly")
    frame.get_by_role("button", name="Last commit").click()
    frame.get_by_role("button", name="Last commit").click()
    expect(frame.locator("th[data-sort=commit]")).to_have_attribute("aria-sort", "descending")
    times = [int(each.get_attribute("data-value") or 0) for each in frame.locator("td[data-label='Last commit']").all()]
    assert times == sorted(times, reverse=True)
    assert times[0] > 0 == times[-1]
    frame.get_by_role("searchbox").fill("playback")
    frame.get_by_role("button", name="never ran").click()
    expect(rows_of(frame)).to_have_count(2)
    frame.get_by_role("searchbox").fill("yearly")
    expect(rows_of(frame)).to_have_count(1)
    frame.get_by_role("button", name="Refresh").click()

    expect(rows_of(frame)).to_have_count(1)
    expect(frame.get_by_role("searchbox")).to_have_value("yearly")


def test_names_of_eighty_characters_fit_into_the_overview(page):
    """Those of DAGs, tasks and tables, in a window of usual width."""
    frame = open_page(page)
    expect(rows_of(frame)).to_have_count(5)
    frame.locator("td.names :is(a, span)").evaluate_all(
        "all => all.forEach(e => e.textContent = 'long_name_'.repeat(8))"
    )
    assert overflow(frame) == 0


def test_the_page_follows_airflows_own_switch_while_it_is_open(page, shoot):
    frame = open_page(page)
    expect(rows_of(frame)).to_have_count(5)
    switch_to(page, "Light Mode")
    light = frame.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    assert not is_dark(frame)
    assert least_contrast(frame) >= READABLE

    switch_to(page, "Dark Mode")
    expect(frame.locator("html.dark")).to_be_attached()
    assert frame.locator("body").evaluate("body => getComputedStyle(body).backgroundColor") != light
    shoot(page, "incremental-overview-dark")
    for name, path in PAGES.items():
        open_page(page, path)
        expect(frame.locator("html.dark")).to_be_attached()
        expect(frame.get_by_role("heading").first).to_be_visible()
        assert least_contrast(frame) >= READABLE, name
        assert (name, overflow(frame)) == (name, 0)
        shoot(page, f"incremental-{name}-dark")


def test_times_are_in_the_time_zone_of_airflow(page):
    page.add_init_script("localStorage.setItem('timezone', JSON.stringify('Asia/Kolkata'))")
    frame = open_page(page)
    moment = frame.locator("tbody time").first
    expect(moment).not_to_contain_text("UTC")

    shown, utc = moment.inner_text(), moment.get_attribute("datetime")
    hours = (int(shown[11:13]) * 60 + int(shown[14:16]) - int(utc[11:13]) * 60 - int(utc[14:16])) % (24 * 60)
    assert hours == 5 * 60 + 30


def test_a_narrow_window_shows_a_card_for_each_consumer(page, shoot):
    page.set_viewport_size({"width": 420, "height": 900})
    for name, path in PAGES.items():
        frame = open_page(page, path)
        expect(frame.get_by_role("heading").first).to_be_visible()
        assert (name, overflow(frame)) == (name, 0)
        shoot(page, f"incremental-{name}-narrow")


def test_a_consumer_leads_to_its_captures_its_table_and_into_the_grid(page, shoot):
    frame = open_page(page)
    frame.get_by_role("link", name=DAG, exact=True).click()
    expect(frame.get_by_text("What to do now:")).to_be_visible()
    chart = frame.get_by_role("img", name="Bytes captured, and of the whole table")
    expect(chart).to_be_visible()
    assert chart.locator("rect.fill").count() > 1
    heights = [float(each.get_attribute("height")) for each in chart.locator("g:last-of-type rect").all()]
    assert heights[0] > heights[1]  # the whole table, and what was captured of it last
    shoot(page, "incremental-consumer", full_page=True)

    frame.get_by_role("link", name="db.playback").click()
    expect(frame.get_by_text("processed").first).to_be_visible()
    shoot(page, "incremental-table")
    frame.get_by_role("link", name="Stages").click()
    expect(frame.get_by_role("heading", name="Stages")).to_be_visible()
    expect(frame.get_by_role("img", name="DAGs that feed each other")).to_contain_text("playback_yearly")
    shoot(page, "incremental-stages")
    open_page(page, f"/ips/consumers/{DAG}?consumer={CONSUMER}")
    frame.get_by_role("link", name="DAG", exact=True).click()

    page.wait_for_url(re.compile(rf"/dags/{DAG}"))
    expect(page.locator("iframe")).to_have_count(0)


def test_the_tab_of_a_dag_shows_its_consumers(page, shoot):
    page.goto(f"/dags/{DAG}")
    page.get_by_role("link", name="Incremental").last.click()

    expect(frame_of(page).get_by_role("heading", name=f"Consumers of {DAG}")).to_be_visible()
    shoot(page, "incremental-tab")


def test_an_action_is_previewed_confirmed_and_noted(page, airflow, shoot):
    """A wrong word changes nothing; the right one does it, and says who did it."""
    frame = open_page(page, f"/ips/consumers/{DAG}?consumer={CONSUMER}")
    frame.get_by_role("link", name="Reset", exact=True).click()
    frame.get_by_role("button", name="Show what will change").click()
    expect(frame.get_by_text("What will change", exact=True)).to_be_visible()
    shoot(page, "incremental-reset")

    frame.get_by_label("To confirm, type").fill("something else")
    frame.get_by_role("button", name="Reset").click()
    expect(frame.get_by_role("alert")).to_contain_text("Not confirmed")
    assert checkpoint(airflow).positions
    frame.get_by_role("button", name="Show what will change").click()
    frame.get_by_label("To confirm, type").fill(CONSUMER)
    frame.get_by_role("button", name="Reset").click()

    expect(frame.get_by_text("Written: the checkpoint")).to_be_visible()
    (noted,) = checkpoint(airflow).interventions
    assert (checkpoint(airflow).positions, noted.who, noted.verb) == ((), "admin", "reset")
    frame.get_by_role("link", name="Back to the consumer").click()
    expect(frame.get_by_role("heading", name="Changed by hand")).to_be_visible()


def checkpoint(airflow):
    return Checkpoint.parse(airflow.rest.variable(variable_key(CONSUMER)), consumer=CONSUMER)


def test_a_reader_sees_the_page_and_may_change_nothing(airflow, chromium):
    with visit(airflow, chromium, None) as page:
        log_in_as_reader(airflow, page)
        frame = open_page(page, f"/ips/consumers/{DAG}?consumer={CONSUMER}")

        expect(frame.get_by_text("What to do now:")).to_be_visible()
        expect(frame.get_by_role("link", name="Reset", exact=True)).to_have_count(0)
        refused = open_page(page, f"/ips/consumers/{DAG}/reset?consumer={CONSUMER}")
        expect(refused.get_by_role("heading", name="You may not read this")).to_be_visible()


def log_in_as_reader(airflow, page):
    """Log in as somebody who may see DAGs and change nothing."""
    password = json.loads((airflow.folder / "airflow" / "passwords.json").read_text())["reader"]
    page.goto("/")
    page.locator("input[name=username]").fill("reader")
    page.locator("input[type=password]").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Dags", exact=True).first.wait_for()
