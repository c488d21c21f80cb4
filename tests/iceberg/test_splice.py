"""Moving entries keeps what readers make of them: the numbers that they inherit, their row ids, all of a file."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent, ManifestFile

from airflow_provider_ips.core.history.selections import Selection, Take
from airflow_provider_ips.iceberg.avro.container import Header, encode_long
from airflow_provider_ips.iceberg.icdc.transfer import splice_manifest
from airflow_provider_ips.iceberg.manifests.entries import (
    ADDED,
    CONTENT_OFFSET,
    DATA_FILE,
    DELETED,
    EXISTING,
    FILE_PATH,
    FILE_SEQUENCE_NUMBER,
    FILE_SIZE,
    FIRST_ROW_ID,
    RECORD_COUNT,
    SEQUENCE_NUMBER,
    SNAPSHOT_ID,
    STATUS,
)
from airflow_provider_ips.iceberg.manifests.lists import READ_SCHEMA, manifest_facts, with_fields
from tests.iceberg.avro_bytes import file_fields, plain, random_header, random_record, rng_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from random import Random

    from pyiceberg.typedef import TableVersion

NUMBER = 50
"""The manifest's own sequence number."""
OWN_SNAPSHOT = 4242


class Read(NamedTuple):
    """An entry as a reader resolves it, by the specification."""

    status: int
    path: str
    offset: int
    snapshot_id: int
    number: int
    file_number: int
    row_id: int | None
    records: int
    size: int
    rest: str


def optional(value: int | None) -> bytes:
    """A number that may be null."""
    return b"\x00" if value is None else b"\x02" + encode_long(value)


def random_entry(rng: Random, header: Header, version: int, place: int) -> bytes:
    """Added by the manifest's snapshot with numbers left to inherit, or carried over with all of them."""
    status = rng.choice([EXISTING, ADDED, ADDED, DELETED])
    inherits = status == ADDED and rng.randrange(4)
    number = None if inherits else rng.randrange(1, NUMBER)
    path = b"s3://bucket/%d.parquet" % place
    snapshot = rng.choice([None, OWN_SNAPSHOT]) if status == ADDED else rng.randrange(1, 5)
    given = {
        STATUS: encode_long(status),
        SNAPSHOT_ID: optional(snapshot) if version > 1 else encode_long(snapshot or OWN_SNAPSHOT),
        SEQUENCE_NUMBER: optional(number),
        FILE_SEQUENCE_NUMBER: optional(number),
        FILE_PATH: encode_long(len(path)) + path,
        RECORD_COUNT: encode_long(rng.randrange(1, 1000)),
        FILE_SIZE: encode_long(rng.randrange(1, 10**9)),
        FIRST_ROW_ID: optional(rng.choice([None, None, 10**6 + 1000 * place])),
        CONTENT_OFFSET: optional(rng.choice([None, 4])),
    }
    return random_record(rng, header.avro_schema, given)


def write(rng: Random, path: Path, header: Header, entries: Sequence[bytes], codec: str) -> Header:
    """In blocks of any size."""
    whole = Header(meta={**header.meta, "avro.codec": codec.encode()}, sync=rng.randbytes(16))
    parts, rest = [whole.to_bytes()], list(entries)
    while rest:
        count = rng.randrange(1, 5)
        block, rest = rest[:count], rest[count:]
        packed = b"".join(block) if whole.codec is None else whole.codec.compress(b"".join(block))[0]
        parts += [encode_long(len(block)), encode_long(len(packed)), packed, whole.sync]
    path.write_bytes(b"".join(parts))
    return whole


def read(manifest: ManifestFile, path: Path) -> list[Read]:
    """Live entries with what they inherit, decoded whole by PyIceberg."""
    stream = io.BytesIO(path.read_bytes())
    header = Header.read(stream)
    reader, ids = construct_reader(header.schema), [f.field_id for f in header.schema.fields]
    file_ids = [f.field_id for f in file_fields(header)]
    found, next_row_id = [], manifest[-1]
    for count, data in header.blocks(stream):
        decoder = new_decoder(data)
        for _ in range(count):
            own = dict(zip(ids, reader.read(decoder)._data, strict=True))
            file = dict(zip(file_ids, own[DATA_FILE]._data, strict=True))
            if own[STATUS] == DELETED:
                continue
            row_id = None if manifest[-1] is None else file.get(FIRST_ROW_ID)
            if manifest[-1] is not None and row_id is None:
                row_id, next_row_id = next_row_id, next_row_id + file[RECORD_COUNT]
            found.append(resolved(manifest, own, file, row_id))
    return found


def resolved(manifest: ManifestFile, own: dict[int, Any], file: dict[int, Any], row_id: int | None) -> Read:
    """By the specification's rules of inheritance."""

    def number(field_id: int) -> int:
        value = own.get(field_id)
        return int((manifest.sequence_number or 0) if value is None else value)

    return Read(
        status=own[STATUS],
        path=file[FILE_PATH],
        offset=file.get(CONTENT_OFFSET) or 0,
        snapshot_id=own[SNAPSHOT_ID] or manifest.added_snapshot_id or 0,
        number=number(SEQUENCE_NUMBER),
        file_number=number(FILE_SEQUENCE_NUMBER),
        row_id=row_id,
        records=file[RECORD_COUNT],
        size=file[FILE_SIZE],
        rest=repr([plain(value) for field_id, value in file.items() if field_id != FIRST_ROW_ID]),
    )


def listed(
    path: Path, version: int, first_row_id: int | None, *, added: int = 0, existing: int = 0, deleted: int = 0
) -> ManifestFile:
    """What a manifest list says of a manifest."""
    return with_fields(
        ManifestFile(*[None] * len(READ_SCHEMA.fields)),
        manifest_path=str(path),
        manifest_length=path.stat().st_size,
        partition_spec_id=0,
        content=ManifestContent.DATA,
        sequence_number=NUMBER if version > 1 else 0,
        min_sequence_number=1,
        added_snapshot_id=OWN_SNAPSHOT,
        added_files_count=added,
        existing_files_count=existing,
        deleted_files_count=deleted,
        first_row_id=first_row_id,
    )


TAKES = {
    Take.ADDED: lambda entry: entry.status == ADDED,
    Take.WHOLE: lambda _: True,
    Take.NEWER: lambda entry: entry.number > NUMBER // 2,
    Take.CHOSEN: lambda entry: len(entry.path) % 2 == 0 or entry.offset,
}


@settings(
    max_examples=100,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    seed=st.integers(min_value=0, max_value=2**32),
    version=st.sampled_from([1, 2, 3]),
    take=st.sampled_from(sorted(TAKES)),
    codec=st.sampled_from(["null", "deflate", "zstandard"]),
    assigns=st.booleans(),
    all_existing=st.booleans(),
)
def test_a_moved_entry_reads_as_it_did(
    tmp_path: Path, *, seed: int, version: TableVersion, take: Take, codec: str, assigns: bool, all_existing: bool
) -> None:
    """
    For every format version, selection and codec: the same entries, and the counts that the new list gives.

    In a branch of the source only the status differs: all are EXISTING.
    """
    rng = rng_of(seed)
    # A table upgraded to v3 hands out row ids to manifests that were written before it had any.
    manifest_version: TableVersion = rng.choice([2, 3]) if version == 3 else version
    header = random_header(rng, manifest_version)
    source, target = tmp_path / "source.avro", tmp_path / "target.avro"
    target.unlink(missing_ok=True)
    entries = [random_entry(rng, header, manifest_version, place) for place in range(rng.randrange(1, 12))]
    write(rng, source, header, entries, codec)
    before = listed(source, version, 7 if version == 3 and assigns else None)
    there = read(before, source)
    live = [sum(entry.status == status for entry in there) for status in (ADDED, EXISTING)]
    names = ("added_files_count", "existing_files_count", "deleted_files_count")
    before = with_fields(before, **dict(zip(names, (*live, len(entries) - sum(live)), strict=True)))
    wanted = [entry for entry in there if TAKES[take](entry)]
    selection = Selection(
        manifest=manifest_facts(before),
        take=take,
        newer_than=NUMBER // 2,
        chosen=frozenset((entry.path, entry.offset, entry.number if version > 1 else 0) for entry in wanted),
    )
    io_ = PyArrowFileIO()
    moved = splice_manifest(io_, io_, before, selection, str(target), all_existing=all_existing)
    if all_existing:
        wanted = [entry._replace(status=EXISTING) for entry in wanted]
    if not wanted:
        assert (moved.manifest, target.exists()) == (None, False)
        return
    assert moved.manifest is not None
    assert read(moved.manifest, target) == wanted
    assert (moved.files, moved.records) == (len(wanted), sum(entry.records for entry in wanted))
    assert moved.size_bytes == sum(entry.size for entry in wanted)
    assert moved.manifest.manifest_length == target.stat().st_size
    assert moved.manifest.min_sequence_number == (min(e.number for e in wanted) if version > 1 else 0)
    counts = {s: [e.records for e in wanted if e.status == s] for s in (ADDED, EXISTING)}
    new = moved.manifest
    assert (new.added_files_count, new.added_rows_count) == (len(counts[ADDED]), sum(counts[ADDED]))
    assert (new.existing_files_count, new.existing_rows_count) == (len(counts[EXISTING]), sum(counts[EXISTING]))
    assert (new.deleted_files_count, new.deleted_rows_count) == (0, 0)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_blocks_of_which_all_is_wanted_are_not_compressed_again(tmp_path: Path, codec: str) -> None:
    """They are in the new manifest as they were in the old one."""
    rng = rng_of(3)
    header = random_header(rng, 2)
    head = {STATUS: encode_long(ADDED), SNAPSHOT_ID: b"\x00", SEQUENCE_NUMBER: b"\x00", FILE_SEQUENCE_NUMBER: b"\x00"}
    numbers = {RECORD_COUNT: encode_long(1), FILE_SIZE: encode_long(1)}
    entries = [random_record(rng, header.avro_schema, head | numbers) for _ in range(9)]
    source, target = tmp_path / "source.avro", tmp_path / "target.avro"
    write(rng, source, header, entries, codec)
    manifest = listed(source, 2, None, added=9)
    io_ = PyArrowFileIO()
    splice_manifest(io_, io_, manifest, Selection(manifest=manifest_facts(manifest), take=Take.ADDED), str(target))
    blocks = []
    for path in (source, target):
        with path.open("rb") as stream:
            blocks.append(list(Header.read(stream).packed_blocks(stream)))
    assert blocks[0] == blocks[1]
