"""Readers reach every page, and every link leads somewhere."""

import pytest

from tests.kit.pages import PAGES, ROOT, anchors, links, relative


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_relative_links_resolve(page):
    """Files and headings alike."""
    for target in links(page):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{relative(page)} links to {target}, which is not there"
        assert linked.is_relative_to(ROOT), f"{relative(page)} links out of the repository"
        if anchor:
            assert anchor in anchors(linked), f"{relative(page)} links to {target}, which is no heading"


def test_every_page_can_be_reached_from_the_readme():
    """A page that nothing links to is not read."""
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page.is_dir():
            todo += page.glob("*.md")
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        todo += [(page.parent / t.partition("#")[0]).resolve() for t in links(page) if "://" not in t]
    assert {relative(page) for page in PAGES} <= {relative(page) for page in seen}
