"""What a release is checked for is found where it is missing, and what an index shows leads somewhere."""

import re
import tomllib
from email.message import Message
from pathlib import Path

import pytest

import airflow_provider_ips
from hatch_build import absolute
from scripts.release import distributions, environments, sources

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SOURCE = PROJECT["urls"]["Source"]
CHANGELOG = (
    "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-11-20\n\n- All of it.\n\n[0.1.0]: https://example.com/\n"
)


def test_the_version_is_the_one_that_the_package_says():
    assert sources.version() == airflow_provider_ips.__version__


def test_a_changelog_with_the_version_and_nothing_waiting_is_right():
    assert not list(sources.of_changelog(CHANGELOG, "0.1.0"))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("0.1.0] - 2026-11-20", "0.0.9] - 2026-11-20", "does not begin with"),
        ("0.1.0] - 2026-11-20", "0.1.0]", "and a date"),
        ("- All of it.\n\n", "", "says nothing about 0.1.0"),
        ("[Unreleased]\n", "[Unreleased]\n\n- More.\n", "has unreleased changes"),
        ("[0.1.0]: https://example.com/\n", "", "where 0.1.0 can be seen"),
    ],
)
def test_what_a_changelog_lacks_is_found(old, new, problem):
    assert problem in "".join(sources.of_changelog(CHANGELOG.replace(old, new), "0.1.0"))


def test_a_tag_of_another_version_is_found():
    assert "the tag is v9.9.9" in "".join(sources.problems("v9.9.9"))


def metadata(**changed):
    said = {"Version": "0.1.0", "License-Expression": "Apache-2.0", **changed}
    message = Message()
    for name, value in said.items():
        message[name] = value
    for name in distributions.LICENCES:
        message["License-File"] = name
    message.set_payload(changed.get("text", "[a](https://example.com/) [b](#here)"))
    return message


def test_metadata_of_the_release_is_right():
    assert not list(distributions.of_metadata(metadata(), "0.1.0"))


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"Version": "0.2.0"}, "its version is 0.2.0"),
        ({"License-Expression": "MIT"}, "its licence is MIT"),
        ({"text": "[a](docs/index.md)"}, "leads nowhere on a package index: ](docs/index.md)"),
    ],
)
def test_wrong_metadata_is_found(changed, problem):
    assert problem in "".join(distributions.of_metadata(metadata(**changed), "0.1.0"))


def test_a_bill_of_something_else_is_found():
    bill = {"metadata": {"component": {"name": "root"}}, "components": [{"name": "pyarrow", "version": "26.0.1"}]}
    assert list(environments.of_bill(bill)) == [
        "the bill of materials is one of root",
        "the bill of materials lists no apache-airflow-core with its version",
        "the bill of materials lists no pyiceberg with its version",
    ]


def test_links_of_the_readme_lead_to_the_release_on_a_package_index():
    """Pictures are loaded, so they lead to the file itself."""
    text = "![p](docs/p.svg) [d](docs/a.md#b) [h](#here) [o](https://example.com/)"
    assert absolute(text, source="https://github.com/o/r", ref="v1") == (
        "![p](https://raw.githubusercontent.com/o/r/v1/docs/p.svg) [d](https://github.com/o/r/blob/v1/docs/a.md#b) "
        "[h](#here) [o](https://example.com/)"
    )


def test_the_project_has_the_links_that_an_index_shows():
    assert set(PROJECT["urls"]) == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert all(PROJECT["urls"][name].startswith(SOURCE) for name in ("Homepage", "Issues", "Changelog"))


def test_the_repository_is_hosted_in_one_place():
    """A person who moves it finds every mention by that of pyproject.toml."""
    owner = re.escape(SOURCE.split("/")[-2])
    mentions = {
        (path.relative_to(ROOT).as_posix(), mention)
        for pattern in ("*.md", ".github/**/*.yml", "docs/**/*.md", "scripts/**/*.py", "airflow_provider_ips/**/*.py")
        for path in ROOT.glob(pattern)
        for mention in re.findall(rf"https://github\.com/{owner}/[\w-]+", path.read_text())
    }
    assert {mention for _, mention in mentions} == {SOURCE}
    assert {path for path, _ in mentions} <= {"CHANGELOG.md", "CONTRIBUTING.md", ".github/ISSUE_TEMPLATE/config.yml"}
