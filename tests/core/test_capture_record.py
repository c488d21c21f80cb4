"""The record of a capture: a reader gets what was written, or the path to what is wrong in it."""

import copy
import json

import pytest

from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.json_fields import PARSE_ERRORS
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import ColumnRange, Decision, Kind, Verdict, Volume
from airflow_provider_ips.core.requests.request import RunKind, RunRequest
from airflow_provider_ips.core.results.capture_record import (
    MAX_LISTED_VERDICTS,
    CaptureContext,
    CaptureRecord,
    ChunkReference,
    FirstRun,
    SourceRecord,
    TargetHead,
)

RUN = RunIdentity(dag_id="daily", run_id="manual__1", map_index=3, run_after="2026-10-01T00:00:00+00:00")


def at(snapshot_id):
    return Position(table_uuid="u", snapshot_id=snapshot_id, sequence_number=4, committed_at_ms=1_790_856_000_000)


def verdicts(count):
    kinds = [Decision.CAPTURED, Decision.IGNORED]
    return tuple(
        Verdict(snapshot_id=n, operation="append", decision=kinds[n % 2], reason="", files=n, records=None)
        for n in range(1, count + 1)
    )


def source(**changes):
    """Every field that may be left out is there."""
    facts = {
        "source": Source("db.t", "audit"),
        "key": "t",
        "kind": Kind.RANGE,
        "icdc_table": "icdc.t",
        "before_table": "icdc.t_before",
        "from_exclusive": at(1),
        "to_inclusive": at(2**60),
        "captured": Volume(files=1, records=None, size_bytes=10),
        "table": Volume(files=9, records=90, size_bytes=900),
        "before": Volume(files=0, records=0, size_bytes=0),
        "superset": True,
        "predicate": "_last_updated_sequence_number > 3",
        "verdicts": verdicts(2),
        "ranges": (ColumnRange(column="id", lower=1, upper=9.5, known=True),),
        "partitions": (ColumnRange(column="day", lower=None, upper=None, known=False, reason="1 file has none"),),
        "warnings": ("late",),
    }
    return SourceRecord(**{**facts, **changes})


def record(*sources, **context):
    facts = {
        "engine_catalog": "lake",
        "request": RunRequest(kind=RunKind.PARTITIONS, partitions="day = '2026-10-01'"),
        "chunk": ChunkReference(number=2, of=3, label="2026-10-01"),
        "first_runs": (FirstRun(source="db.t", initial="full"),),
        "target_heads": (TargetHead(table="db.out", snapshot_id=2**60), TargetHead(table="db.new", snapshot_id=None)),
        "replayed": True,
        "settled": True,
        **context,
    }
    return CaptureRecord(
        capture_id="c",
        consumer="daily.capture",
        mode="ICDC",
        sources=sources or (source(),),
        context=CaptureContext(run=RUN, iceberg_conn_id="lake", **facts),
    )


def usual(*sources):
    return record(*sources, request=RunRequest(), chunk=None, first_runs=(), target_heads=(), engine_catalog=None)


def bare():
    return source(
        icdc_table=None, before_table=None, from_exclusive=None, before=None, predicate=None, superset=False,
        verdicts=(), ranges=(), partitions=(), warnings=(),
    )  # fmt: skip


def sent(record):
    """As a task finds it: XComs are JSON."""
    return json.loads(json.dumps(record.to_json()))


@pytest.mark.parametrize("written", [record(), usual(), usual(bare()), record(source(), bare())])
def test_what_is_written_is_what_is_read(written):
    assert CaptureRecord.from_json(sent(written)) == written


def test_a_long_range_keeps_its_counts_though_only_the_newest_verdicts_are_listed():
    written = usual(source(verdicts=verdicts(3 * MAX_LISTED_VERDICTS)))

    read = CaptureRecord.from_json(sent(written))

    assert len(read.sources[0].verdicts) == MAX_LISTED_VERDICTS
    assert read.sources[0].verdict_counts == written.sources[0].verdict_counts
    assert read.to_json() == written.to_json()


def test_the_keys_of_what_was_requested_stay_as_they_are():
    """Other programs read them; a part that a run does not have has no key."""
    common = ["run", "iceberg_conn_id", "engine_catalog", "target_heads", "started", "asked"]

    assert list(record().to_json()["requested"]) == [*common, "chunk", "detached", "replayed", "settled"]
    assert list(usual().to_json()["requested"]) == [*common, "detached", "replayed", "settled"]
    assert record().to_json()["requested"]["target_heads"] == [
        {"table": "db.out", "head": str(2**60)},
        {"table": "db.new", "head": None},
    ]


def test_a_record_of_a_release_before_the_trigger_form_is_read():
    raw = sent(usual())
    for later in ("asked", "detached", "started", "target_heads"):
        raw["requested"].pop(later)

    assert CaptureRecord.from_json(raw) == usual()


def paths(value, path=()):
    """Every place in a document."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield (*path, key)
            yield from paths(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from paths(part, (*path, index))


def spelt(path):
    return "".join(f"[{part}]" if isinstance(part, int) else f": {part}" for part in path).removeprefix(": ")


DERIVED = ("bytes_avoided",)
FREE = ("lower", "upper")
YOUNGER = ("requested", "asked"), ("requested", "started"), ("requested", "target_heads"), ("requested", "chunk")
REQUIRED = [
    path
    for path in paths(sent(record()))
    if path[:2] != ("requested", "asked") and path not in YOUNGER and path[-1] not in (*DERIVED, "detached")
]


@pytest.mark.parametrize("path", REQUIRED, ids=spelt)
def test_a_part_that_is_missing_is_named_with_its_place(path):
    raw = sent(record())
    *place, key = path
    part = raw
    for step in place:
        part = part[step]
    del part[key]

    with pytest.raises(PARSE_ERRORS) as caught:
        CaptureRecord.from_json(raw)

    assert str(caught.value) in (f"{spelt(place)}: {key!r} is missing", repr(key))


@pytest.mark.parametrize("path", [path for path in REQUIRED if path[-1] not in FREE], ids=spelt)
def test_a_part_of_another_type_is_refused(path):
    raw = sent(record())
    *place, key = path
    part = raw
    for step in place:
        part = part[step]
    part[key] = {"of": "another type"} if not isinstance(part[key], dict) else ["another type"]

    with pytest.raises(PARSE_ERRORS):
        CaptureRecord.from_json(raw)


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("schema_version",), 2, "it has schema_version 2, of another release of this package"),
        (("requested", "asked"), {"run": "half"}, "requested: asked: ips_run='half' is unknown"),
        (("requested", "detached"), False, "requested: detached is False, which contradicts asked"),
        (("sources", 0, "kind"), "odd", "sources[0]: 'odd' is not a valid Kind"),
        (("sources", 0, "files"), True, "sources[0]: files is True, not a whole number"),
        (("sources", 0, "snapshots", "captured"), 0, "fewer snapshots are counted as captured than verdicts"),
    ],
)
def test_what_cannot_be_is_refused(path, value, why):
    raw = copy.deepcopy(sent(record()))
    *place, key = path
    part = raw
    for step in place:
        part = part[step]
    part[key] = value

    with pytest.raises(PARSE_ERRORS) as caught:
        CaptureRecord.from_json(raw)

    assert why in str(caught.value)
