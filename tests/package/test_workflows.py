"""What GitHub runs is what people run, with pinned actions and no more rights than it needs."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = [each for each in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) if each.name != "config.yml"]
WRITES = {
    ("release.yml", "publish"): {"id-token": "write"},
    ("release.yml", "announce"): {"contents": "write"},
    ("release.yml", "docs"): {"contents": "write"},
}
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def jobs(path):
    return yaml.safe_load(path.read_text())["jobs"]


def steps(path):
    return [step for job in jobs(path).values() for step in job["steps"]]


def test_there_is_one_for_changes_and_one_for_releases():
    assert [path.name for path in WORKFLOWS] == ["release.yml", "tests.yml"]


@each_workflow
def test_actions_are_pinned_by_commit_and_say_their_version(path):
    """A tag can be moved to other code."""
    used = re.findall(r"^\s*- uses: (.+)$", path.read_text(), re.MULTILINE)
    assert used
    assert not [line for line in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)]


@each_workflow
def test_a_job_has_no_more_rights_than_it_needs(path):
    assert yaml.safe_load(path.read_text())["permissions"] in ({}, {"contents": "read"})
    for name, job in jobs(path).items():
        granted = job.get("permissions", {})
        assert granted == WRITES.get((path.name, name), {"contents": "read"} if granted else {}), name


@each_workflow
def test_a_checkout_leaves_no_credentials(path):
    checkouts = [step for step in steps(path) if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@each_workflow
def test_commands_are_those_that_people_run(path):
    """Targets and scripts that there are; what an event says comes by the environment, never as a part of a script."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    scripts = [step["run"] for step in steps(path) if "run" in step]
    assert not [script for script in scripts if "${{" in script]
    assert set(re.findall(r"\bmake ([a-z-]+)", "\n".join(scripts))) <= targets
    assert all((ROOT / name).is_file() for name in re.findall(r"(?<=\s)\.ci/\w+", "\n".join(scripts)))


@each_workflow
def test_every_job_ends(path):
    assert all(0 < job["timeout-minutes"] <= 120 for job in jobs(path).values())


def test_changes_pass_what_a_person_can_run():
    scripts = [step["run"] for step in steps(ROOT / ".github" / "workflows" / "tests.yml") if "run" in step]
    assert any(script.endswith(".ci/run --fast") for script in scripts)
    assert any(script.endswith(".ci/run") for script in scripts)


def test_nothing_is_published_that_was_not_checked():
    release = jobs(ROOT / ".github" / "workflows" / "release.yml")
    assert release["publish"]["needs"] == "check"
    assert any("make release-check" in step.get("run", "") for step in release["check"]["steps"])
    assert all(release[name]["needs"] == "publish" for name in ("announce", "docs"))


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_an_issue_form_is_one_that_github_takes(path):
    form = yaml.safe_load(path.read_text())
    assert {"name", "description", "body"} <= set(form)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in fields} <= {"textarea", "input", "dropdown", "checkboxes"}
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_the_form_for_bugs_wants_what_an_answer_needs():
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text())
    wanted = {field["id"] for field in form["body"] if field.get("validations", {}).get("required")}
    assert {"happened", "dag", "versions", "catalog"} <= wanted
