"""Airflow as a deployment runs it, a lake with two weeks of playback, and a browser that is logged in.

Screenshots go to a folder that git ignores: of each story as it goes along, and of the page where a test failed.
"""

import os
import shutil
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from scripts.lake import create_events_table, day_of_events
from tests.kit.deployment import PASSWORD, USER, deployed

HERE = Path(__file__).parent
ARTEFACTS = HERE.parents[2] / ".artefacts" / "browser"
FIRST_DAY, DAYS = date(2026, 11, 1), 14
MILLISECONDS = 60_000
"""How long anything on a page may take to come: two cores also run Airflow."""

# Debian's name first. A browser that Playwright downloads is not needed, and would be hundreds of megabytes.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def airflow(tmp_path_factory):
    """The four parts on PostgreSQL, the DAG of this folder, and its table."""
    users = {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin,reader:viewer"}
    with deployed(tmp_path_factory.mktemp("airflow"), dags=HERE / "dags", settings=users) as deployment:
        table = create_events_table(deployment.lakes["lake"].catalog, "db.playback")
        for day in range(DAYS - 1):
            table.append(events_of(day))
        deployment.rest.wait_for(lambda: deployment.rest.knows("playback_daily"), "the DAG file to be read")
        yield deployment


def events_of(day):
    """What arrives on one day: its events, and late ones of the days before."""
    return day_of_events(FIRST_DAY + timedelta(days=day), rows=10_000, earliest=FIRST_DAY)


@pytest.fixture
def append_a_day(airflow):
    """Let the last day arrive once more, or the next one."""

    def append():
        airflow.lakes["lake"].catalog.load_table("db.playback").append(events_of(DAYS - 1))

    return append


@pytest.fixture(scope="session")
def chromium():
    """The machine's own browser."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise RuntimeError(f"none of {BROWSERS} is installed; install one (Debian: apt-get install chromium)")
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        # The browser's own sandbox cannot be had by root, as whom containers build.
        browser = playwright.chromium.launch(executable_path=found, chromium_sandbox=os.geteuid() != 0)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def login(airflow, chromium):
    """Log in as a person does, once; what the browser keeps of it is all that a later visit needs."""
    with visit(airflow, chromium, None) as page:
        page.goto("/")
        page.locator("input[name=username]").fill(USER)
        page.locator("input[type=password]").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Dags", exact=True).first.wait_for()
        return page.context.storage_state()


@contextmanager
def visit(airflow, chromium, login):
    """Open a window of the size of a screenshot that one can read in a page of documentation."""
    context = chromium.new_context(
        base_url=airflow.url,
        storage_state=login,
        viewport={"width": 1200, "height": 800},
        locale="en-US",
        timezone_id="UTC",
    )
    context.set_default_timeout(MILLISECONDS)
    expect.set_options(timeout=MILLISECONDS)  # it has a default of its own, of five seconds
    try:
        yield context.new_page()
    finally:
        context.close()


@pytest.fixture
def page(airflow, chromium, login, request):
    """A window of somebody who is logged in."""
    with visit(airflow, chromium, login) as page:
        yield page
        if request.node.stash.get(_FAILED, None):
            page.screenshot(path=ARTEFACTS / f"failed-{request.node.name}.png", full_page=True)


@pytest.fixture
def stranger(airflow, chromium):
    """A window of somebody who is not."""
    with visit(airflow, chromium, None) as page:
        yield page


@pytest.fixture
def shoot():
    """Keep a picture of a page under a name."""

    def shoot(page, name, **options):
        page.screenshot(path=ARTEFACTS / f"{name}.png", **options)

    return shoot


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report
