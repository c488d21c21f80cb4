"""What one run may be asked for: what contradicts itself is refused, whoever asks."""

import pytest

from airflow_provider_ips.core.asked import Asked, Run
from airflow_provider_ips.core.errors import InputError
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
"""A form that nobody has filled in."""


def test_an_untouched_form_is_the_usual_run():
    assert Asked.from_params({**NOTHING, "ips_run": "usual", "ips_dry_run": False, "mine": 1}) == Asked()
    assert Asked().is_usual
    assert not Asked().is_detached


def test_an_emptied_field_is_none():
    """Browsers send an empty text for it."""
    assert Asked.from_params({"ips_since_time": "", "ips_partitions": ""}) == Asked()


@pytest.mark.parametrize(
    ("asked", "is_detached"),
    [
        ({}, False),
        ({"max_files": 3}, False),
        ({"run": Run.FULL}, True),
        ({"run": Run.FULL, "move_checkpoint": True}, False),
        ({"move_checkpoint": True}, False),
        ({"dry_run": True}, True),
        ({"run": Run.SNAPSHOT, "since_snapshot": "1"}, True),
        ({"run": Run.TIME, "since_time": "2026-10-01T00:00:00Z"}, True),
        ({"run": Run.PARTITIONS, "partitions": "day = '2026-10-01'"}, True),
    ],
    ids=str,
)
def test_all_but_the_usual_run_is_detached(asked, is_detached):
    """And a full refresh that is told to move the checkpoint is pending and committed as any."""
    assert Asked(**asked).is_detached is is_detached


@pytest.mark.parametrize(
    "asked",
    [
        {"run": Run.SNAPSHOT},
        {"run": Run.SNAPSHOT, "since_snapshot": "1", "since_time": "2026-10-01T00:00:00Z"},
        {"run": Run.SNAPSHOT, "since_snapshot": "one"},
        {"run": Run.SNAPSHOT, "since_snapshot": 1},
        {"run": Run.SNAPSHOT, "since_snapshot": "1", "until_snapshot": "2", "until_time": "2026-10-01T00:00:00Z"},
        {"run": Run.SNAPSHOT, "since_snapshot": "1", "until_snapshot": "2", "max_files": 5},
        {"run": Run.TIME},
        {"run": Run.TIME, "since_time": "yesterday"},
        {"run": Run.TIME, "since_time": "2026-10-01T00:00:00"},
        {"run": Run.PARTITIONS},
        {"run": Run.PARTITIONS, "partitions": " "},
        {"run": Run.PARTITIONS, "partitions": "day = '2026-10-01'", "move_checkpoint": True},
        {"run": Run.PARTITIONS, "partitions": "day = '2026-10-01'", "until_snapshot": "1"},
        {"run": Run.SNAPSHOT, "since_snapshot": "1", "move_checkpoint": True},
        {"run": Run.FULL, "partitions": "day = '2026-10-01'"},
        {"run": Run.FULL, "max_bytes": 5},
        {"run": Run.FULL, "dry_run": True, "move_checkpoint": True},
        {"partitions": "day = '2026-10-01'"},
        {"since_snapshot": "1"},
        {"max_files": 0},
        {"max_files": True},
        {"dry_run": "false"},
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused(asked):
    """A field that would be ignored is one that somebody meant."""
    with pytest.raises(InputError) as refused:
        Asked(**asked)

    assert refused.value.remedy


def test_a_misspelt_wish_is_refused():
    """It would be passed over, and a dry run would write."""
    with pytest.raises(InputError, match="param 'ips_dryrun' is unknown"):
        Asked.from_params({"ips_dryrun": True})


def test_limits_of_a_usual_run_stand_over_those_of_the_capture():
    usual = CaptureSettings(max_files=5, max_bytes=7)

    assert Asked(max_files=2).settings(usual) == CaptureSettings(max_files=2, max_bytes=7)


def test_a_range_of_ones_own_has_limits_of_its_own():
    """What the capture's limits left out of it, no later run would take up."""
    asked = Asked(run=Run.SNAPSHOT, since_snapshot="1", max_files=2)

    assert asked.settings(CaptureSettings(max_files=5, max_bytes=7)) == CaptureSettings(max_files=2)


def test_the_record_tells_what_was_filled_in():
    asked = Asked(run=Run.SNAPSHOT, since_snapshot="9007199254740993", dry_run=True)

    assert asked.to_json() == {"run": "snapshot", "since_snapshot": "9007199254740993", "dry_run": True}
    assert str(asked) == "a range from a snapshot, since_snapshot 9007199254740993 (dry run)"
