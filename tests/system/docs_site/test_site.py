"""What readers do on the site, opened from the folder that `make docs` writes, without a network."""

import re

import pytest
from playwright.sync_api import expect

from scripts.docs_site.navigation import documents, sections

PAGES = sorted(f"{name}.html" for name in documents().values())
NARROW, WIDE = 420, 1280

# How bright a colour is, from 0 to 1, and how far two of them are apart as WCAG counts it.
CONTRAST = """selector => {
  const light = text => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!/rgba\\(.*, 0\\)|transparent/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return Math.min(...[...document.querySelectorAll(selector)].filter(e => e.textContent.trim()).map(e => {
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }));
}"""


def test_the_home_page_leads_to_every_section(reader):
    with reader("index.html") as page:
        for section in sections():
            if not section.is_nested:
                expect(page.locator("header").get_by_role("link", name=section.title).first).to_be_visible()
        assert page.locator("img[src$='how-it-works.svg']").evaluate("image => image.naturalWidth") > 0


@pytest.mark.parametrize(
    ("words", "wanted"), [("skip_retention", "reference/capture"), ("GapError", "troubleshooting")]
)
def test_the_search_works_from_the_folder(reader, words, wanted):
    """No server answers it."""
    with reader("index.html") as page:
        page.get_by_role("button", name="Search").first.click()
        field = page.locator("input[type=search]:visible")
        field.fill(words)
        field.press("Enter")
        # Results come one after the other: the one that is wanted is waited for.
        page.locator(f"#search-results li a[href*='{wanted}']").first.click()
        expect(page).to_have_url(re.compile(wanted))
        expect(page.get_by_text(words).first).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", ["index.html", "patterns/merge.html", "reference/cli.html", "reference/api.html"])
def test_text_can_be_read_in_both_themes(reader, path, theme):
    """It follows the system until the reader says otherwise; 4.5 is what WCAG wants of text."""
    with reader(path, theme=theme) as page:
        assert page.locator("html").get_attribute("data-theme") == theme
        for what in (
            "article p",
            "article td",
            "article a",
            "article code",
            "article pre span",
            ".bd-sidebar-primary a",
        ):
            if page.locator(what).count():
                assert page.evaluate(CONTRAST, what) >= 4.5, what


def test_the_reader_can_choose_a_theme_and_keeps_it(reader):
    with reader("tutorial.html", theme="light") as page:
        page.locator(".theme-switch-button:visible").click()
        page.locator("[data-mode=dark]:visible").click()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_no_page_is_wider_than_the_window(reader, site, width):
    """What is wide scrolls by itself."""
    with reader("index.html", width=width, theme="dark") as page:
        too_wide = []
        for path in PAGES:
            page.goto((site / path).as_uri(), wait_until="domcontentloaded")
            if page.evaluate("document.documentElement.scrollWidth") > width:
                too_wide.append(path)
    assert not too_wide


def test_the_navigation_is_there_in_a_narrow_window(reader):
    with reader("patterns/append.html", width=NARROW) as page:
        page.locator("button.primary-toggle").click()
        page.locator("dialog a:visible, .bd-sidebar-primary a:visible").filter(has_text="Row filter").first.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Row filter")


def test_the_versions_beside_this_one_are_offered(reader):
    with reader("reference/capture.html") as page:
        chosen = page.locator(".version-select:visible")
        assert chosen.input_value() == "dev"
        assert chosen.locator("option").all_text_contents().count("dev") == 1
