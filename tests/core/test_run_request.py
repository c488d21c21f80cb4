"""What one run may be requested to capture: contradictions are refused, from the form and from the API alike."""

import pytest

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.requests.request import RunKind, RunRequest
from airflow_provider_ips.core.settings import CaptureSettings

NOTHING = dict.fromkeys(
    [
        "ips_since_snapshot",
        "ips_since_time",
        "ips_until_snapshot",
        "ips_until_time",
        "ips_partitions",
        "ips_max_snapshots",
        "ips_max_files",
        "ips_max_bytes",
    ]
)
"""The params of a form with no field filled in."""


def test_an_untouched_form_is_the_usual_run():
    assert RunRequest.from_params({**NOTHING, "ips_run": "usual", "ips_dry_run": False, "mine": 1}) == RunRequest()
    assert not RunRequest().is_detached


def test_an_emptied_field_is_none():
    """Browsers send an empty text for it."""
    assert RunRequest.from_params({"ips_since_time": "", "ips_partitions": ""}) == RunRequest()


@pytest.mark.parametrize(
    ("requested", "is_detached"),
    [
        ({}, False),
        ({"max_files": 3}, False),
        ({"kind": RunKind.FULL}, True),
        ({"kind": RunKind.FULL, "move_checkpoint": True}, False),
        ({"move_checkpoint": True}, False),
        ({"dry_run": True}, True),
        ({"kind": RunKind.SNAPSHOT, "since_snapshot": "1"}, True),
        ({"kind": RunKind.TIME, "since_time": "2026-10-01T00:00:00Z"}, True),
        ({"kind": RunKind.PARTITIONS, "partitions": "day = '2026-10-01'"}, True),
    ],
    ids=str,
)
def test_all_but_the_usual_run_is_detached(requested, is_detached):
    """A full refresh that moves the checkpoint is pending and committed as any other capture."""
    assert RunRequest(**requested).is_detached is is_detached


@pytest.mark.parametrize(
    "requested",
    [
        {"kind": RunKind.SNAPSHOT},
        {"kind": RunKind.SNAPSHOT, "since_snapshot": "1", "since_time": "2026-10-01T00:00:00Z"},
        {"kind": RunKind.SNAPSHOT, "since_snapshot": "one"},
        {"kind": RunKind.SNAPSHOT, "since_snapshot": 1},
        {"kind": RunKind.SNAPSHOT, "since_snapshot": "1", "until_snapshot": "2", "until_time": "2026-10-01T00:00:00Z"},
        {"kind": RunKind.SNAPSHOT, "since_snapshot": "1", "until_snapshot": "2", "max_files": 5},
        {"kind": RunKind.TIME},
        {"kind": RunKind.TIME, "since_time": "yesterday"},
        {"kind": RunKind.TIME, "since_time": "2026-10-01T00:00:00"},
        {"kind": RunKind.PARTITIONS},
        {"kind": RunKind.PARTITIONS, "partitions": " "},
        {"kind": RunKind.PARTITIONS, "partitions": "day = '2026-10-01'", "move_checkpoint": True},
        {"kind": RunKind.PARTITIONS, "partitions": "day = '2026-10-01'", "until_snapshot": "1"},
        {"kind": RunKind.SNAPSHOT, "since_snapshot": "1", "move_checkpoint": True},
        {"kind": RunKind.FULL, "partitions": "day = '2026-10-01'"},
        {"kind": RunKind.FULL, "max_bytes": 5},
        {"kind": RunKind.FULL, "dry_run": True, "move_checkpoint": True},
        {"partitions": "day = '2026-10-01'"},
        {"since_snapshot": "1"},
        {"max_files": 0},
        {"max_files": True},
        {"dry_run": "false"},
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused(requested):
    """Every field that is filled in was meant to have an effect."""
    with pytest.raises(InputError) as refused:
        RunRequest(**requested)

    assert refused.value.remedy


def test_a_misspelt_param_is_refused():
    """It would be ignored, and a dry run would write."""
    with pytest.raises(InputError, match="param 'ips_dryrun' is unknown"):
        RunRequest.from_params({"ips_dryrun": True})


def test_limits_of_a_usual_run_override_those_of_the_capture():
    usual = CaptureSettings(max_files=5, max_bytes=7)

    assert RunRequest(max_files=2).settings(usual) == CaptureSettings(max_files=2, max_bytes=7)


def test_a_requested_range_has_no_limits_but_its_own():
    """No later run would take what a limit of the capture left out."""
    request = RunRequest(kind=RunKind.SNAPSHOT, since_snapshot="1", max_files=2)

    assert request.settings(CaptureSettings(max_files=5, max_bytes=7)) == CaptureSettings(max_files=2)


def test_the_record_has_the_fields_that_were_filled_in():
    request = RunRequest(kind=RunKind.SNAPSHOT, since_snapshot="9007199254740993", dry_run=True)

    assert request.to_json() == {"run": "snapshot", "since_snapshot": "9007199254740993", "dry_run": True}
    assert str(request) == "a range from a snapshot, since_snapshot 9007199254740993 (dry run)"
