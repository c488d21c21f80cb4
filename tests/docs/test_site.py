"""The site has every page, in the order of its navigation, with links that are right where it is read."""

from collections import Counter

import pytest

import airflow_provider_ips
from scripts.docs_site import api, links, navigation, pages, versions
from tests.kit.pages import PAGES, ROOT, prose, relative, table, tables

FRONT = "README.md"  # what the home page of the site says as well


def test_every_page_is_in_the_navigation_once():
    """A new page gets its place in docs/navigation.toml."""
    listed = [page for each in navigation.sections() for page in each.pages[each.is_nested :]]
    assert Counter([navigation.HOME, *listed]) == Counter(set(map(relative, PAGES)) - {FRONT})


def test_sections_are_in_the_order_of_a_day():
    assert [each.title for each in navigation.sections() if not each.is_nested] == [
        *("Start", "Patterns", "Operate", "Reference", "Understand")
    ]


def test_two_pages_never_share_a_name():
    named = navigation.documents()
    assert len(set(named.values())) == len(named)


def rewritten(text, page="docs/patterns/append.md", **named):
    return pages.rewritten(page, text, {**navigation.documents(), **named})


def test_a_link_to_a_page_leads_to_it_on_the_site():
    assert rewritten("[c](../../CHANGELOG.md) [a](merge.md#the-dag)") == "[c](../changelog.md) [a](merge.md#the-dag)"
    assert rewritten("[d](docker/)", page="CONTRIBUTING.md") == "[d](docker.md)"


def test_a_link_to_an_example_leads_to_its_code():
    named = {"dags_examples/append.py": "examples/append.py"}
    assert rewritten("[a](../../dags_examples/append.py)", **named) == "[a](../examples/append.py.md)"


def test_a_link_to_any_other_file_leads_to_the_repository():
    assert rewritten("[t](../../tests/kit)") == f"[t]({pages.source_url()}/tree/main/tests/kit)"


def test_code_is_no_link():
    text = "````text\n```\n[a](../../Makefile)\n```\n````\n"
    assert rewritten(text) == text


def test_pages_that_are_removed_leave_nothing(tmp_path):
    """And what an example page shows is the example."""
    (tmp_path / "patterns").mkdir()
    (tmp_path / "patterns" / "old.md").write_text("# Old")
    pages.stage(tmp_path)
    assert not (tmp_path / "patterns" / "old.md").exists()
    assert (ROOT / "dags_examples" / "append.py").read_text() in (tmp_path / "examples" / "append.py.md").read_text()
    assert (tmp_path / "images" / "how-it-works.svg").is_file()


def test_every_public_name_has_its_docstring_on_the_site():
    names = api.public_names()
    assert set(names["airflow_provider_ips"]) == set(airflow_provider_ips.__all__) - {"__version__"}
    modules = {row[0].strip("`") for row in table("docs/reference/public-names.md", "Public names").rows}
    assert set(names) == modules
    assert all(f".. autoclass:: airflow_provider_ips.{name}" in api.reference() for name in ("AtLeast", "SourceTable"))


def built(site, **said):
    for name, text in said.items():
        (site / f"{name}.html").write_text(text)
    return links.broken(site)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="b.html">', "b.html is not there"),
        ('<a href="#there">', "#there is not a place on that page"),
        ('<img src="plot.png">', "plot.png is not there"),
        ('<script src="https://cdn.example/x.js">', "loads https://cdn.example/x.js, which needs a network"),
        ('<a href="https://example.com/"><p id="here"><a href="#here"><a href="a.html#here">', None),
    ],
)
def test_a_link_that_leads_nowhere_is_found(tmp_path, body, problem):
    found = built(tmp_path, a=body)
    assert problem in "".join(found) if problem else not found


def test_versions_are_offered_newest_first(tmp_path):
    """And the folder itself leads to the newest release; without one, to what is under development."""
    for name in ("dev", "0.9", "0.10"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text("")
        versions.list_versions(tmp_path)
        assert f"url={'dev' if name == 'dev' else name}/index.html" in (tmp_path / "index.html").read_text()
    assert 'DOCS_VERSIONS = ["0.10", "0.9", "dev"]' in (tmp_path / "versions.js").read_text()


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "patterns").glob("[!i]*.md")), ids=lambda page: page.stem)
def test_a_pattern_says_when_how_what_a_retry_does_and_how_to_check_it(page):
    """Readers find the same five things on each of its pages."""
    headings = [line.lstrip("# ") for line in prose(page) if line.startswith("##")]
    assert any(table.header[0] == "use it when" for table in tables(page))
    for wanted in ("The DAG", "The job", "On a retry", "How to check it"):
        assert any(heading.startswith(wanted) for heading in headings), wanted
