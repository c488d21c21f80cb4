"""Documents and records that are damaged: refused with one error that names the place, and never guessed."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ips.core.backfill.chunks import Chunk
from airflow_provider_ips.core.backfill.claims import Claim
from airflow_provider_ips.core.checkpoint import document
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.errors import CheckpointError, DamagedCheckpointError, InputError
from airflow_provider_ips.core.json_fields import PARSE_ERRORS, explain
from airflow_provider_ips.core.results.capture_record import CaptureRecord
from airflow_provider_ips.core.watching.monitor import ReportedSources
from tests.core.damage import NOT_NUMBERS, changed, damaged, nested, part_at, places
from tests.core.test_json_shapes import CHUNK, FILLED, SHAPES, WRITTEN

CHECKPOINT = json.loads(FILLED.to_text())
NUMBERS = [
    place for place in places(CHECKPOINT) if type(part_at(CHECKPOINT, place)) is int and place != ("schema_version",)
]
IDS = [place for place in places(CHECKPOINT) if place[-1] in ("snapshot_id", "writer")]


def sealed(raw) -> str:
    """The text of a document that was written as it is, and not changed later."""
    return json.dumps({**raw, "seal": document._seal_of({key: raw[key] for key in raw if key != "seal"})})


def parse(text: str) -> Checkpoint:
    return Checkpoint.parse(text, consumer="daily.capture", even_if_moved=True)


@given(damaged(CHECKPOINT))
def test_a_document_is_read_as_it_is_or_refused(raw):
    """Whatever is read can be written and read again."""
    text = json.dumps(raw) if not isinstance(raw, dict) else sealed(raw)
    with suppress(CheckpointError):
        found = parse(text)
        assert parse(found.to_text()).to_text() == found.to_text()


@pytest.mark.parametrize("path", NUMBERS, ids=str)
@pytest.mark.parametrize("value", [*NOT_NUMBERS, "5", 2**63], ids=repr)
def test_a_number_is_a_whole_number_of_64_bits(path, value):
    with pytest.raises(DamagedCheckpointError):
        parse(sealed(changed(CHECKPOINT, path, value)))


@pytest.mark.parametrize("path", IDS, ids=str)
@pytest.mark.parametrize("value", [*NOT_NUMBERS, 5, str(2**63), "9" * 5000, ""], ids=lambda value: repr(value)[:20])
def test_a_snapshot_id_is_a_text_of_digits_of_64_bits(path, value):
    with pytest.raises(DamagedCheckpointError, match="snapshot id"):
        parse(sealed(changed(CHECKPOINT, path, value)))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 10_000, '"\\ud800"', "\ufeff{}", "NaN"])
def test_a_text_that_is_hardly_json_is_damage(text):
    with pytest.raises(DamagedCheckpointError):
        parse(text)


def test_fields_of_a_later_release_survive_wherever_they_are():
    """A worker that was not upgraded yet reads the document, moves on, and writes it again."""
    later = CHECKPOINT
    objects = [(), *(place for place in places(CHECKPOINT) if isinstance(part_at(CHECKPOINT, place), dict))]
    for place in objects:
        later = changed(later, (*place, "later"), {"place": str(place)})

    assert json.loads(parse(sealed(later)).to_text()) == json.loads(sealed(later))
    assert len(objects) > 15


@pytest.mark.parametrize("name", ["consumer", "table", "run"])
def test_stars_in_a_name_are_a_name(name):
    """A mask is recognised by what it damages, because a consumer, a table or a run may have any name."""
    raw = {
        "consumer": changed(CHECKPOINT, ("consumer",), "daily.***"),
        "table": changed(CHECKPOINT, ("positions", 0, "source"), "db.***"),
        "run": changed(CHECKPOINT, ("pending", "run", "run_id"), "manual__***"),
    }[name]

    found = Checkpoint.parse(sealed(raw), consumer=raw["consumer"], even_if_moved=True)

    assert json.loads(found.to_text()) == json.loads(sealed(raw))


def test_a_mask_is_named_as_the_likely_cause_of_the_damage():
    with pytest.raises(DamagedCheckpointError, match="mask"):
        parse(json.dumps(changed(CHECKPOINT, ("positions", 0, "source"), "***")))


@pytest.mark.parametrize(
    ("kind", "name"),
    [(CaptureRecord, "record"), (CaptureRecord, "usual record"), (Claim, "claim"), (ReportedSources, "watermark")],
)
@given(data=st.data())
def test_a_record_is_read_or_refused_with_an_error_that_its_readers_expect(kind, name, data):
    raw = data.draw(damaged(SHAPES[name]))
    with suppress(*PARSE_ERRORS):
        kind.from_json(raw).to_json()


@given(damaged(SHAPES["chunk"]))
def test_a_damaged_chunk_is_a_wrong_argument(raw):
    with suppress(InputError):
        Chunk.from_json(raw)


@pytest.mark.parametrize("price", ["1_0", "\u0661\u0660", "NaN", " 1", "1e1", "x"])
def test_a_decimal_is_read_as_it_was_written(price):
    path = ("values", "spans", 1, 0, "decimal")
    with pytest.raises(InputError, match="values: spans\\[1\\]"):
        Chunk.from_json(changed(CHUNK.to_json(), path, price))


def test_a_bound_is_a_text_or_a_number():
    for value in ([1], {"a": 1}, nested(900), "\ud800"):
        with pytest.raises(PARSE_ERRORS):
            CaptureRecord.from_json(changed(WRITTEN["record"].to_json(), ("sources", 0, "ranges", 0, "lower"), value))


@pytest.mark.parametrize("name", ["record", "usual record"])
def test_what_is_wrong_with_a_record_can_be_shown(name):
    """Also where it is half a character, which no page and no log can be encoded with."""
    explained = []
    for path in places(SHAPES[name]):
        try:
            CaptureRecord.from_json(changed(SHAPES[name], path, "\ud800"))
        except PARSE_ERRORS as error:
            explained.append(explain(error))

    assert len(explained) > 10
    assert "".join(explained).encode()
