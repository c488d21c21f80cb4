"""The document of a checkpoint: what it holds, and which texts are refused."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

from airflow_provider_ips.core.checkpoint.document import Checkpoint, document_keys
from airflow_provider_ips.core.checkpoint.entries import CommittedCapture, PendingCapture, SourcePosition, SourceRange
from airflow_provider_ips.core.errors import CheckpointError, DamagedCheckpointError
from airflow_provider_ips.core.identifiers import Source, is_masked_name
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import Kind

BIG = 9_007_199_254_740_993
"""One more than a browser can count to."""


def at(snapshot_id: int | None, sequence_number: int = 1) -> Position:
    return Position(
        table_uuid="uuid-1", snapshot_id=snapshot_id, sequence_number=sequence_number, committed_at_ms=1_700_000_000_000
    )


def checkpoint(consumer: str = "daily.capture", **changes) -> Checkpoint:
    taken = SourceRange(
        source=Source("db.access_token"),
        kind=Kind.RANGE,
        from_exclusive=at(None, 0),
        to_inclusive=at(BIG),
        icdc_table="icdc.db_access_token_1",
    )
    first = SourceRange(
        source=Source("db.dsn", "audit"), kind=Kind.FULL, from_exclusive=None, to_inclusive=at(5), icdc_table=None
    )
    run = RunIdentity(dag_id="daily", run_id="manual__2", map_index=-1, run_after="2026-11-18T00:00:00+00:00")
    facts: dict = {
        "consumer": consumer,
        "revision": 7,
        "positions": (SourcePosition(source=Source("db.access_token"), position=at(None, 0)),),
        "pending": PendingCapture(capture_id="c2", run=run, started_at_ms=2, ranges=(taken, first), supersedes=("c1",)),
        "history": (
            CommittedCapture(capture_id="seed", run=None, committed_at_ms=1, ranges=(), released=("icdc.old",)),
        ),
        "retained": ("icdc.older",),
        **changes,
    }
    return Checkpoint(**facts)


def edited(**changes) -> str:
    return json.dumps({**json.loads(checkpoint().to_text()), **changes})


def refused(text: str) -> str:
    with pytest.raises(DamagedCheckpointError) as caught:
        Checkpoint.parse(text, consumer="daily.capture")
    assert caught.value.consequence
    assert caught.value.remedy
    return str(caught.value)


def test_what_is_written_is_what_is_read():
    """A document survives the round trip, with every optional part present or absent."""
    for document in (checkpoint(), checkpoint(pending=None, history=(), positions=(), retained=())):
        assert Checkpoint.parse(document.to_text(), consumer="daily.capture") == document


def test_the_same_document_has_the_same_bytes():
    """A store compares bytes after writing, so the text must not depend on how the document was made."""
    document = checkpoint()
    assert Checkpoint.parse(document.to_text(), consumer="daily.capture").to_text() == document.to_text()


def test_snapshot_ids_survive_a_browser():
    """In the document, a snapshot id is a string."""
    ranges = json.loads(checkpoint().to_text())["pending"]["ranges"]
    assert ranges[0]["to_inclusive"]["snapshot_id"] == str(BIG)


def test_no_key_of_the_document_looks_like_a_secret():
    """Airflow redacts values under keys that look like secrets; names of tables, which may look so, are values."""
    keys = document_keys(json.loads(checkpoint().to_text()))
    assert len(keys) > 20
    assert not [key for key in keys if is_masked_name(key)]


def test_a_masked_value_is_reported_as_a_mask():
    """Saving a redacted Variable through Airflow's form writes the mask back, inside JSON that still parses."""
    assert "mask" in refused(checkpoint().to_text().replace("db.access_token", "***"))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_document_is_damaged(share):
    """A column that is too short cuts the text; the rest of it is not a checkpoint."""
    text = checkpoint().to_text()
    assert "not JSON" in refused(text[: int(len(text) * share)])


@pytest.mark.parametrize("text", ["null", "[]", '"x"', "3"])
def test_a_document_is_an_object(text):
    """Any other JSON is damage, not an empty checkpoint."""
    assert "not an object" in refused(text)


@pytest.mark.parametrize("version", [None, "1", 0, True])
def test_a_schema_version_is_a_positive_number(version):
    """Without it nothing determines how to read the rest."""
    assert "schema_version" in refused(edited(schema_version=version))


def test_a_newer_schema_is_not_damage():
    """An older worker refuses a newer document and says what to install."""
    with pytest.raises(CheckpointError, match="schema version 2") as caught:
        Checkpoint.parse(edited(schema_version=2), consumer="daily.capture")
    assert not isinstance(caught.value, DamagedCheckpointError)
    assert "install" in caught.value.remedy


@pytest.mark.parametrize("key", ["consumer", "revision", "positions", "pending", "history", "retained"])
def test_every_field_is_required(key):
    """A missing field is damage: a default would be a guess at a position."""
    raw = json.loads(checkpoint().to_text())
    del raw[key]
    assert f"'{key}' is missing" in refused(json.dumps(raw))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("revision", "7"),
        ("revision", True),
        ("revision", -1),
        ("positions", {}),
        ("positions", [None]),
        ("pending", []),
        ("history", None),
        ("retained", "icdc.x"),
        ("retained", [1]),
    ],
)
def test_a_wrong_type_is_named(key, value):
    """The error names the field, because a person has to repair it."""
    assert key in refused(edited(**{key: value}))


def test_an_error_carries_the_path_to_what_is_wrong():
    """In a long document, the place matters more than the value."""
    raw = json.loads(checkpoint().to_text())
    raw["pending"]["ranges"][1]["to_inclusive"]["snapshot_id"] = 12
    assert "pending: ranges[1]: to_inclusive: snapshot_id is 12" in refused(json.dumps(raw))


def test_an_unknown_kind_is_damage():
    """A kind decides how a retry chooses its files."""
    raw = json.loads(checkpoint().to_text())
    raw["pending"]["ranges"][0]["kind"] = "partial"
    assert "partial" in refused(json.dumps(raw))


def test_a_source_has_one_position():
    """With two entries of one source and branch its position would not be known."""
    entry = json.loads(checkpoint().to_text())["positions"][0]
    assert "twice" in refused(edited(positions=[entry, entry]))
    apart = checkpoint(
        positions=(*checkpoint().positions, SourcePosition(source=Source("db.access_token", "b"), position=at(1)))
    )
    assert len(apart.positions) == 2


def test_another_consumers_document_is_refused():
    """A Variable copied under another key must not move the other consumer."""
    assert "'weekly.capture'" in refused(checkpoint(consumer="weekly.capture").to_text())


def test_fields_of_a_later_release_survive():
    """A worker that was not upgraded yet keeps what it does not know."""
    later = checkpoint(extra={"owner": "data platform"})
    document = Checkpoint.parse(later.to_text(), consumer="daily.capture")
    assert json.loads(document.to_text())["owner"] == "data platform"


def leaves(value, path=()):
    """Every place in a JSON document that holds a text, a number or nothing."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, (*path, key))
    else:
        yield path


def with_leaf(text, path, change):
    document = part = json.loads(text)
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = change(part[path[-1]])
    return json.dumps(document)


def another(value):
    """Another value of the same type, as a person who edits it would write."""
    if isinstance(value, int):
        return value + 1
    return "1" if value is None or value != "1" else "2"


@pytest.mark.parametrize("path", list(leaves(json.loads(checkpoint().to_text()))), ids=str)
def test_every_change_by_hand_is_noticed(path):
    """Also where the document stays well-formed: another position would skip rows, or take them twice."""
    changed = with_leaf(checkpoint().to_text(), path, another)
    with pytest.raises(CheckpointError) as caught:
        Checkpoint.parse(changed, consumer="daily.capture")
    assert caught.value.remedy


def test_a_well_formed_change_is_reported_as_one_by_hand():
    """Layout and order do not count, because the UI may show the document with its own."""
    raw = json.loads(checkpoint().to_text())
    assert Checkpoint.parse(json.dumps(raw), consumer="daily.capture") == checkpoint()
    raw["retained"] = []
    with pytest.raises(DamagedCheckpointError, match="changed by hand"):
        Checkpoint.parse(json.dumps(raw), consumer="daily.capture")
    del raw["seal"]
    with pytest.raises(DamagedCheckpointError, match="changed by hand"):
        Checkpoint.parse(json.dumps(raw), consumer="daily.capture")


def test_a_position_is_found_by_source_and_branch():
    """Branches of one table have positions of their own; an unknown branch has none."""
    document = checkpoint()
    assert document.position_of(Source("db.access_token")) == at(None, 0)
    assert document.position_of(Source("db.access_token", "audit")) is None
    assert document.position_of(Source("db.other")) is None


def test_a_damage_error_survives_pickling():
    """Airflow sends exceptions between processes."""
    with pytest.raises(DamagedCheckpointError) as caught:
        Checkpoint.parse("{", consumer="daily.capture")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - made one line above
    assert str(caught.value).splitlines()[-1].startswith("What to do: ")


def test_a_page_reads_the_newest_commits_only_and_finds_the_same_damage():
    written = checkpoint()
    text = written.to_text()

    short = Checkpoint.parse(text, consumer="daily.capture", newest=1)

    assert short == replace(written, history=written.history[-1:])
    with pytest.raises(DamagedCheckpointError, match="changed by hand"):
        Checkpoint.parse(text.replace('"revision": ', '"revision": 1'), consumer="daily.capture", newest=1)
