"""The settings of a capture: which are accepted, and which are refused at DAG parse."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.positions import InitialPosition
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable, parse_sources


def test_initial_has_four_forms() -> None:
    """``full``, ``latest``, a snapshot id as a string, an ISO timestamp with its zone."""
    assert InitialPosition.parse("full").kind == "full"
    assert InitialPosition.parse("latest").kind == "latest"
    assert InitialPosition.parse("8897906763682653274").snapshot_id == 8897906763682653274
    moment = InitialPosition.parse("2026-10-01T00:00:00+00:00")
    assert moment.time_ms == int(datetime(2026, 10, 1, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize("value", ["", "everything", "2026-10-01T00:00:00", "20261001", 7, None, "-5"])
def test_an_initial_that_could_mean_two_things_is_refused(value: object) -> None:
    """No zone, a number that may be a date, a typo: a guess would start the first run in the wrong place."""
    with pytest.raises(InputError) as refusal:
        InitialPosition.parse(value)
    assert repr(value) in str(refusal.value)
    assert refusal.value.remedy


@pytest.mark.parametrize("operations", [("append", "delete"), ("overwrite",), (), "merge", ("append", "replace"), 3])
def test_a_subset_of_operations_without_a_meaning_is_refused(operations: object) -> None:
    """A merge may commit under any of the three names, so a part of them captures a part of its rows."""
    with pytest.raises(InputError, match="data_operations"):
        CaptureSettings(data_operations=operations)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"on_other_operation": "ignore"}, "on_other_operation='ignore'"),
        ({"on_gap": "skip"}, "on_gap='skip'"),
        ({"on_superset": "yes"}, "on_superset='yes'"),
        ({"on_superset": "allow"}, "contradicts"),
        ({"data_operations": ("append", "overwrite", "delete"), "on_other_operation": "skip"}, "contradicts"),
        ({"max_files": 0}, "max_files=0"),
        ({"max_bytes": -1}, "max_bytes=-1"),
        ({"max_snapshots": True}, "max_snapshots=True"),
        ({"max_snapshots": "3"}, "max_snapshots='3'"),
        ({"range_columns": ["a", "a"]}, "'a' is there twice"),
        ({"range_columns": [1]}, "range_columns"),
    ],
)
def test_contradictions_and_unknown_values_are_refused(settings: dict[str, object], word: str) -> None:
    """The message names the parameter and its value."""
    with pytest.raises(InputError) as refusal:
        CaptureSettings(**settings)  # type: ignore[arg-type]
    assert word in str(refusal.value)


def test_sources_are_a_string_a_list_or_entries_with_settings() -> None:
    """An entry overrides the operator's settings for its table only."""
    defaults = CaptureSettings(on_gap="full")
    one, two = parse_sources(["db.a", SourceTable("db.b", initial="latest")], defaults)
    assert parse_sources("db.a", defaults) == (one,)
    assert (one.settings(defaults).initial, two.settings(defaults).initial) == ("full", "latest")
    assert two.settings(defaults).on_gap == "full"


@pytest.mark.parametrize(
    "sources",
    [[], ["db.a", "db.a"], ["playback"], ["db."], [".a"], ["db.a b "], [7], ["db.`a`"], [SourceTable("db.a"), "db.a"]],
)
def test_wrong_sources_are_refused(sources: list[object]) -> None:
    """Unknown form, duplicate, no namespace, quoting."""
    with pytest.raises(InputError):
        parse_sources(sources, CaptureSettings())


def test_a_source_name_that_airflow_would_alias_needs_a_key() -> None:
    """Airflow stores ``db.a#b`` under another XCom key, and a task that pulls it would get nothing."""
    with pytest.raises(InputError, match="'#'"):
        parse_sources(["db.a#b"], CaptureSettings())
    (source,) = parse_sources([SourceTable("db.a#b", key="a_b")], CaptureSettings())
    assert source.xcom_key == "a_b"


@pytest.mark.parametrize("key", ["capture", "capture_id", "return_value", "db.a.lower.ts"])
def test_keys_that_would_overwrite_one_another_are_refused(key: str) -> None:
    """Also a source with the name of another source's bounds."""
    with pytest.raises(InputError, match="there twice"):
        parse_sources([SourceTable("db.a", range_columns=["ts"]), SourceTable("db.b", key=key)], CaptureSettings())


def test_an_unknown_override_is_refused() -> None:
    """With a typo the default would silently apply."""
    with pytest.raises(InputError, match="max_fils"):
        SourceTable("db.a", max_fils=3)


@pytest.mark.parametrize("branch", ["", None, 3])
def test_a_branch_without_a_name_is_refused(branch: object) -> None:
    """None does not mean main: a template that renders to nothing would read the wrong branch."""
    with pytest.raises(InputError, match="has branch"):
        SourceTable("db.a", branch=branch)  # type: ignore[arg-type]
