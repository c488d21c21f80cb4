"""Entries are walked without being decoded, and PyIceberg's decoder is the judge of where their fields are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.resolver import construct_reader

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.iceberg.avro.container import encode_long
from airflow_provider_ips.iceberg.avro.skips import decode_long
from airflow_provider_ips.iceberg.manifests.entries import (
    CONTENT,
    DATA_FILE,
    FILE_PATH,
    FILE_SIZE,
    FIRST_ROW_ID,
    LOWER_BOUNDS,
    PARTITION,
    RECORD_COUNT,
    UPPER_BOUNDS,
    EntryLayout,
)
from tests.iceberg.avro_bytes import file_fields, plain, random_header, random_record, rng_of

if TYPE_CHECKING:
    from pyiceberg.typedef import TableVersion

    from airflow_provider_ips.iceberg.avro.container import Header

WANTED = (CONTENT, FILE_PATH, PARTITION, RECORD_COUNT, FILE_SIZE, LOWER_BOUNDS, UPPER_BOUNDS, FIRST_ROW_ID)
ENTRIES = 6
SEEDS = st.integers(min_value=0, max_value=2**32)
VERSIONS = st.sampled_from([1, 2, 3])


def decoded_by_pyiceberg(header: Header, data: bytes, count: int) -> list[tuple[int, int, dict[int, Any], Any]]:
    """Where each entry starts and ends, the fields of its file by id, and the entry itself."""
    decoder, reader = new_decoder(data), construct_reader(header.schema)
    ids = [f.field_id for f in header.schema.fields]
    file_ids = [f.field_id for f in file_fields(header)]
    entries = []
    for _ in range(count):
        start = decoder.tell()
        entry = reader.read(decoder)
        file = entry[ids.index(DATA_FILE)]
        entries.append((start, decoder.tell(), {i: file[n] for n, i in enumerate(file_ids)}, entry))
    return entries


@settings(max_examples=80, deadline=None, phases=[Phase.generate])
@given(seed=SEEDS, version=VERSIONS)
def test_every_field_lies_where_pyicebergs_decoder_finds_it(seed: int, version: TableVersion) -> None:
    """Whatever the partition types, the blocks of maps and unknown fields; at first sight and later."""
    rng = rng_of(seed)
    header = random_header(rng, version)
    data = b"".join(random_record(rng, header.avro_schema) for _ in range(ENTRIES))
    expected = decoded_by_pyiceberg(header, data, ENTRIES)
    layout = EntryLayout(header, WANTED)
    for _ in range(2):  # what the first walk saw is part of the pattern of the second
        walked = list(layout.walk(ENTRIES, data))
        assert [(start, end) for start, end, _ in walked] == [(start, end) for start, end, _, _ in expected]
        for (_, _, found), (_, _, file, entry) in zip(walked, expected, strict=True):
            fields = {i: plain(layout.value(i, found)) for i in WANTED}
            assert repr(fields) == repr({i: plain(file.get(i)) for i in WANTED})  # NaN equals itself by name only
            own = layout.numbers(found)
            numbers = [own.status, own.snapshot_id, own.sequence_number, own.file_sequence_number]
            assert numbers == [*(entry[n] for n in range(2 if version == 1 else 4)), None, None][:4]


@settings(max_examples=40, deadline=None, phases=[Phase.generate])
@given(seed=SEEDS, version=VERSIONS)
def test_whatever_is_cut_off_is_missed(seed: int, version: TableVersion) -> None:
    """A block that ends inside an entry is damaged, wherever that is; and so is one that continues after the last."""
    rng = rng_of(seed)
    header = random_header(rng, version)
    data = b"".join(random_record(rng, header.avro_schema) for _ in range(3))
    layout = EntryLayout(header, WANTED)
    assert len(list(layout.walk(3, data))) == 3
    for damaged in (data[: rng.randrange(len(data))], data[:-1], data + b"\x00"):
        with pytest.raises(UnsupportedTableError, match="middle of a record"):
            list(layout.walk(3, damaged))


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_numbers_survive_the_round_trip(number: int) -> None:
    """Of any size and sign."""
    assert decode_long(encode_long(number)) == number


def test_more_lengths_than_a_pattern_tells_apart_are_walked_all_the_same() -> None:
    """Paths of a thousand lengths, as partitions by name make them."""
    rng = rng_of(1)
    header = random_header(rng, 2)
    paths = [encode_long(length) + b"p" * length for length in range(1100)]
    records = [random_record(rng, header.avro_schema, {FILE_PATH: path}) for path in paths]
    layout = EntryLayout(header, WANTED)
    for _ in range(2):
        walked = [layout.value(FILE_PATH, found) for _, _, found in layout.walk(len(records), b"".join(records))]
        assert [len(path) for path in walked] == list(range(1100))


def test_a_type_is_known_by_its_name_once_it_was_spelled_out() -> None:
    """Two partition fields of one decimal type: Java writes the type once and then calls it by its name."""
    rng = rng_of(2)
    decimal = {"type": "fixed", "name": "decimal_9_2", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
    header = random_header(rng, 2)
    files = next(f["type"]["fields"] for f in header.avro_schema["fields"] if f["field-id"] == DATA_FILE)
    partition = next(f["type"] for f in files if f["field-id"] == PARTITION)
    partition["fields"] = [
        {"name": "a", "type": ["null", decimal], "default": None, "field-id": 1000},
        {"name": "b", "type": ["null", "decimal_9_2"], "default": None, "field-id": 1001},
    ]
    named = type(header)(meta={"avro.schema": json.dumps(header.avro_schema).encode()}, sync=header.sync)
    values = b"\x02\x00\x00\x00\x01" + b"\x02\x00\x00\x00\x02"
    data = b"".join(random_record(rng, header.avro_schema, {PARTITION: values}) for _ in range(5))
    layout = EntryLayout(named, {PARTITION})
    assert [found[layout.index[PARTITION]] for _, _, found in layout.walk(5, data)] == [values] * 5
