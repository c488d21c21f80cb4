"""Wide events, as players send them: those of the lake with a payload of JSON, and the reading of it without Spark.

The payload of a day is put together from a few thousand pieces, so that it takes a second and is the same every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyarrow import json as arrow_json
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from scripts.lake import BY_DAY, EVENTS, day_of_events

if TYPE_CHECKING:
    from datetime import date

    from numpy.random import Generator
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

pc: Any = compute  # its functions are made when it is imported, and types do not know them

WIDE_EVENTS: Final = Schema(*EVENTS.fields, NestedField(9, "payload", StringType(), required=True))
SEGMENTS: Final = 80
"""In an event: what the player loaded since the last one, piece by piece."""
PIECES: Final = 4096
AV1_SHARE: Final = 0.3

EVENT_COLUMNS: Final = (
    "event_id", "event_date", "account_id", "title_id", "watched_seconds", "received_at", "device",
)  # fmt: skip
"""What the job takes from an event as it is."""

_SEGMENT = pa.struct([("kbps", pa.int64()), ("ms", pa.int64()), ("dropped", pa.int64())])
_READ = pa.schema(
    [("network", pa.struct([("type", pa.string()), ("kbps", pa.int64())])), ("segments", pa.list_(_SEGMENT))]
)


def create_wide_table(catalog: Catalog, name: str) -> Table:
    """Make an empty table of events with payloads, partitioned by the day of the event."""
    catalog.create_namespace_if_not_exists(name.partition(".")[0])
    # Zstandard as Iceberg's default, and row groups small enough that two cores share a day.
    properties = {"write.parquet.row-group-limit": "5000", "read.split.target-size": str(8 * 2**20)}
    return catalog.create_table(name, WIDE_EVENTS, partition_spec=BY_DAY, properties=properties)


def day_of_wide_events(day: date, *, number: int, rows: int, earliest: date, seed: int) -> pa.Table:
    """Return what arrives on one day; the number decides its contents, so that they do not depend on the calendar."""
    events = day_of_events(day, rows=rows, earliest=earliest, seed=seed, number=number)
    return with_payload(events, np.random.default_rng([seed, number, 1]))


def with_payload(events: pa.Table, random: Generator) -> pa.Table:
    """Add what the player says about each event."""
    field = pa.field("payload", pa.string(), nullable=False)
    return events.append_column(field, _payloads(len(events), random))


def _payloads(count: int, random: Generator) -> pa.Array:
    segments = _pieces(
        [
            f'{{"kbps":{kbps},"ms":{ms},"dropped":{dropped},"codec":"{codec}"}}'
            for kbps, ms, dropped, codec in zip(
                random.integers(8, 160, PIECES) * 100,
                random.integers(1500, 4000, PIECES),
                np.maximum(random.integers(-40, 6, PIECES), 0),
                np.where(random.random(PIECES) < AV1_SHARE, "av1", "hevc"),
                strict=True,
            )
        ]
    ).take(pa.array(random.integers(0, PIECES, count * SEGMENTS)))
    lists = pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32) * SEGMENTS), segments)
    clients = _pieces(
        [
            f'{{"app":"8.{n % 60}.2","os":"tvos 17.{n % 9}","locale":"{("de-DE", "en-US", "pt-BR", "ja-JP")[n % 4]}",'
            f'"agent":"Player/8.{n % 60} (living room; {n:04x}) Engine/605.1.15 like Gecko",'
            f'"experiments":["exp-{n % 900}:b","exp-{n % 611}:a","exp-{n % 313}:c"]}}'
            for n in range(PIECES)
        ]
    )
    networks = _pieces(
        [f'{{"type":"{("wifi", "cable")[n % 2]}","rtt_ms":{8 + n % 190},"kbps":{3000 + 7 * n}}}' for n in range(PIECES)]
    )
    return pc.binary_join_element_wise(
        '{"view_id":"',
        _pieces([f"{n:016x}" for n in random.integers(0, 2**62, count)]),
        '","client":',
        clients.take(pa.array(random.integers(0, PIECES, count))),
        ',"network":',
        networks.take(pa.array(random.integers(0, PIECES, count))),
        ',"segments":[',
        pc.binary_join(lists, ","),
        "]}",
        "",
    )


def _pieces(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.string())


def measured(events: pa.Table) -> pa.Table:
    """Compute from events what the job computes, by other means: Arrow's parser of JSON, and NumPy."""
    payloads = events["payload"].combine_chunks()
    (lines,) = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(payloads)], pa.int32()), payloads), "\n")
    options = arrow_json.ParseOptions(explicit_schema=_READ, unexpected_field_behavior="ignore")
    read = arrow_json.read_json(pa.BufferReader(lines.as_buffer()), arrow_json.ReadOptions(block_size=2**24), options)
    network, segments = (read[name].combine_chunks() for name in ("network", "segments"))
    kbps, ms, dropped = (_numbers(segments, name) for name in ("kbps", "ms", "dropped"))
    rates, line = np.sort(kbps, axis=1), pc.struct_field(network, "kbps").to_numpy()
    return pa.table(
        {
            **{name: events[name] for name in EVENT_COLUMNS},
            "network": pc.struct_field(network, "type"),
            "loaded_ms": ms.sum(axis=1),
            "kilobits": (kbps * ms // 1000).sum(axis=1),
            "median_kbps": rates[:, SEGMENTS // 2],
            "low_kbps": rates[:, SEGMENTS // 20],
            "switches": (kbps[:, 1:] != kbps[:, :-1]).sum(axis=1),
            "dropped": dropped.sum(axis=1),
            "slow_segments": (kbps > line[:, None]).sum(axis=1),
        }
    )


def _numbers(segments: pa.ListArray, name: str) -> np.ndarray:
    """A row for each event, a column for each of its segments."""
    return np.asarray(pc.struct_field(segments.flatten(), name)).reshape(-1, SEGMENTS)
