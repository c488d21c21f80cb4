"""The built site, opened from its folder in the machine's own browser, which can reach nothing else."""

import os
import shutil
from contextlib import contextmanager

import pytest
from playwright.sync_api import sync_playwright

from scripts.docs_site.__main__ import SITE
from scripts.docs_site.versions import DEVELOPMENT

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SHOTS = SITE.parent / "docs-site"


@pytest.fixture(scope="session")
def chromium():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise RuntimeError(f"none of {BROWSERS} is installed; install one (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, chromium_sandbox=os.geteuid() != 0)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site():
    """What `make docs` has built."""
    home = SITE / DEVELOPMENT
    assert (home / "index.html").is_file(), "there is no built site: run `make docs` first"
    return home


@pytest.fixture
def reader(chromium, site):
    """Open a page as somebody with this theme and width of window would; an error of the page is one of the test."""

    @contextmanager
    def open_page(path, *, theme="light", width=1280):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        context.set_default_timeout(30_000)
        wrong = []
        page = context.new_page()
        page.on("request", lambda request: wrong.append(request.url) if request.url.startswith("http") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto((site / path).as_uri())
        yield page
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SHOTS / f"{path.replace('/', '-')}-{theme}-{width}.png")
        context.close()
        assert not wrong

    return open_page
