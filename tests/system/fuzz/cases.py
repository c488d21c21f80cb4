"""What is read, and how it is damaged."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from pyiceberg.transforms import IdentityTransform

import tests.kit.airflow  # noqa: F401 - an environment for Airflow, before it is imported
from airflow_provider_ips.core.checkpoint.capture_status import CaptureState, CaptureStatus
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.json_fields import PARSE_ERRORS, explain
from airflow_provider_ips.core.requests.request import PARAM_NAMES, PREFIX, RunRequest
from airflow_provider_ips.core.results.capture_record import CaptureRecord
from airflow_provider_ips.iceberg import capture
from airflow_provider_ips.iceberg.avro.container import SYNC_BYTES, Header, encode_long
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from tests.core.damage import ODD, changed, part_at, places, without
from tests.core.test_json_shapes import SHAPES
from tests.core.test_sightings import of_consumer, of_table
from tests.kit.local_tables import append, new_catalog, new_table

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

    from airflow_provider_ips.core.sightings.consumer_sighting import ConsumerSighting
    from airflow_provider_ips.core.sightings.table_sighting import TableSighting

Read = Callable[[Random], object]
NUMBERS = (0, 1, -1, 2, 63, 64, 127, 128, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63))


def cases(folder: Path) -> dict[str, Read]:
    """The readers by name, each of which damages something by chance and then reads it."""
    catalog = _catalog(folder)
    paths = _files(catalog)
    return {
        "documents": _read_document,
        "sightings": _read_sighting,
        "filters": lambda rng: capture(catalog, "db.t", into="icdc.x", dry_run=True, partitions=_filter(rng)),
        "params": _read_params,
        "pages": _render_record,
        "metadata": lambda rng: _read_metadata(catalog, paths["metadata"], rng),
        "lists": lambda rng: _read_avro(catalog, paths["list"], rng),
        "manifests": lambda rng: _read_avro(catalog, paths["manifest"], rng),
    }


def _catalog(folder: Path) -> SqlCatalog:
    """With a partitioned table of some files."""
    catalog = new_catalog(folder)
    table = new_table(catalog)
    with table.update_spec() as spec:
        spec.add_field("day", IdentityTransform(), "by_day").add_field("note", IdentityTransform(), "by_note")
    append(table, 1, 2)
    append(table, 3)
    return catalog


def _files(catalog: SqlCatalog) -> dict[str, tuple[Path, bytes]]:
    table = catalog.load_table("db.t")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifest = snapshot.manifests(table.io)[0].manifest_path
    found = {"metadata": table.metadata_location, "list": snapshot.manifest_list, "manifest": manifest}
    paths = {role: Path(path.removeprefix("file://")) for role, path in found.items()}
    return {role: (path, path.read_bytes()) for role, path in paths.items()}


def _odd(document: Any, rng: Random) -> Any:
    """One to three places are missing, or hold something else: odd values, or what is elsewhere in the document."""
    found = places(document)
    for path, other in [(rng.choice(found), rng.choice(found)) for _ in range(rng.randint(1, 3))]:
        try:
            value = rng.choice((*ODD, part_at(document, other)))
            document = without(document, path) if rng.random() < 0.3 else changed(document, path, value)
        except (LookupError, TypeError, RecursionError):  # an earlier change has left nothing there
            continue
    return document


def _garbled(data: bytes, rng: Random) -> bytes:
    """Some bytes are cut off, changed, doubled or put in."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(result) + 1)
        match rng.randrange(5):
            case 0:
                del result[at:]
            case 1:
                result[at : at + 1] = rng.randbytes(1)
            case 2:
                result[at:at] = result[at : at + rng.randrange(64)]
            case 3:
                result[at:at] = rng.randbytes(rng.randrange(16))
            case _:
                result[at : at + rng.randrange(4)] = encode_long(rng.choice(NUMBERS))
    return bytes(result)


def _read_document(rng: Random) -> object:
    document = SHAPES["checkpoint"]
    if rng.random() < 0.3:
        text = _garbled(json.dumps(document).encode(), rng).decode(errors=rng.choice(("replace", "surrogateescape")))
    else:
        text = json.dumps(_odd(document, rng))
    read = Checkpoint.parse(text, consumer=document["consumer"])
    return Checkpoint.parse(read.to_text(), consumer=read.consumer)  # what could be read can be written


def _read_sighting(rng: Random) -> object:
    whole: ConsumerSighting | TableSighting = rng.choice((of_consumer(), of_table()))
    text = json.dumps(_odd(whole.to_json(), rng))
    if rng.random() < 0.3:
        text = _garbled(text.encode(), rng).decode(errors=rng.choice(("replace", "surrogateescape")))
    try:
        read = whole.parse(text)
    except PARSE_ERRORS:  # it is as good as none
        return None
    return read.parse(read.to_text())


WORDS = (
    *("day", "id", "note", "by_day", "nothing", "a.b", "and", "or", "not", "in", "like", "is", "null", "true"),
    *("=", "!=", "<", ">=", "(", ")", "((", ",", "'", '"', "--", ";", "%", "\\", "1", "-1", "1e400", str(10**30)),
    *("'2026-10-01'", "'x%'", "'_'", "''", "'9999-12-31'", "'0001-01-01'", "nan", "'\x00'", "'\ud800'", "0x1", "día"),
    *("day = '2026-10-01'", "id in (1, 2)", "note is not null", "id > 0", "note like 'n%'"),
)


def _filter(rng: Random) -> str:
    return rng.choice((" ", " ", "")).join(rng.choice(WORDS) for _ in range(rng.choice((1, 2, 3, 5, 9, 30))))


def _read_params(rng: Random) -> object:
    names = [PREFIX + name for name in (*PARAM_NAMES, "unknown")]
    texts = ("usual", "full", "range", "partitions", "snapshot", "2026-10-01", "2026-10-01T00:00:00Z", "7", "day > 1")
    given = {rng.choice(names): rng.choice((*texts, *ODD)) for _ in range(rng.randint(1, 4))}
    return RunRequest.from_params(given).to_json()


def _render_record(rng: Random) -> object:
    from airflow_provider_ips.ui.capture_page import CapturePage, status_word, with_html

    raw = _odd(SHAPES[rng.choice(("record", "usual record"))], rng)
    try:
        record = CaptureRecord.from_json(raw)
    except PARSE_ERRORS as error:  # what the page shows then
        return with_html(CapturePage(map_index=-1, record=None, unreadable=explain(error), task_url="/"))
    status = CaptureStatus(state=rng.choice(list(CaptureState)))
    word = status_word(record, None, rng.choice((None, "advanced", "superseded")), "success")
    return with_html(CapturePage(map_index=-1, record=record, word=word, status=status, task_url="/")).html.encode()


def _read_metadata(catalog: SqlCatalog, file: tuple[Path, bytes], rng: Random) -> object:
    path, written = file
    damaged = _garbled(written, rng) if rng.random() < 0.3 else json.dumps(_odd(json.loads(written), rng)).encode()
    return _read_damaged(catalog, path, written, damaged)


def _read_avro(catalog: SqlCatalog, file: tuple[Path, bytes], rng: Random) -> object:
    """Damage the file, its schema alone, or its records before they are compressed."""
    path, written = file
    stream = io.BytesIO(written)
    header = Header.read(stream)
    blocks = list(header.blocks(stream))
    meta = header.meta
    match rng.randrange(4):
        case 0:
            return _read_damaged(catalog, path, written, _garbled(written, rng))
        case 1:
            meta = {**meta, "avro.schema": json.dumps(_odd(json.loads(meta["avro.schema"]), rng)).encode()}
        case 2:
            meta = {**meta, "avro.codec": rng.choice((b"null", b"snappy", b"zstandard", b"bzip2", b"lzma", b"\xff"))}
        case _:
            blocks = [(rng.choice((count, *NUMBERS)), _garbled(data, rng)) for count, data in blocks]
    sync = rng.randbytes(SYNC_BYTES)
    packed = [zlib.compress(data, 1, wbits=-zlib.MAX_WBITS) for _, data in blocks]
    counted = zip(blocks, packed, strict=True)
    body = b"".join(encode_long(count) + encode_long(len(data)) + data + sync for (count, _), data in counted)
    return _read_damaged(catalog, path, written, Header(meta=meta, sync=sync).to_bytes() + body)


def _read_damaged(catalog: SqlCatalog, path: Path, written: bytes, damaged: bytes) -> object:
    path.write_bytes(damaged)
    try:
        source = open_source(catalog, Source("db.t"))
        for manifest in source.reads_manifests(source.position.snapshot_id or 0) if source.head else ():
            list(source.reads_entries(manifest))
        return capture(catalog, "db.t", into="icdc.x", dry_run=True, range_columns=["id"])
    finally:
        path.write_bytes(written)
