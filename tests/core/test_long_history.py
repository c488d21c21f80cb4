"""The document of a consumer of 100 sources after 50 captures: small enough to be stored, with all that it had."""

from __future__ import annotations

import json
import lzma
import random
import uuid
from base64 import b64encode
from functools import cache

import pytest

from airflow_provider_ips.core.checkpoint.document import Checkpoint, _seal_of
from airflow_provider_ips.core.checkpoint.entries import CommittedCapture, PendingCapture, SourcePosition, SourceRange
from airflow_provider_ips.core.checkpoint.manual_changes import rewind
from airflow_provider_ips.core.checkpoint.resolution import Replay, resolve_capture
from airflow_provider_ips.core.errors import DamagedCheckpointError
from airflow_provider_ips.core.identifiers import Source, digest, icdc_table_name
from airflow_provider_ips.core.positions import HeadEvidence, Position, RunIdentity
from airflow_provider_ips.core.record import Kind

CONSUMER = "warehouse_daily.capture"
CAPTURES, SOURCES = 50, [Source(f"warehouse.playback.events_{number:03}") for number in range(100)]


def run(day: int) -> RunIdentity:
    at = f"2026-{1 + day // 28:02}-{1 + day % 28:02}T00:00:00+00:00"
    return RunIdentity(dag_id="warehouse_daily", run_id=f"scheduled__{at}", map_index=-1, run_after=at)


def positions(seed: int) -> list[list[Position]]:
    """The position of each source after each capture: the ids and digests have no pattern, as in a catalog."""
    source = random.Random(seed)  # noqa: S311 - data of a test
    uuids = [str(uuid.UUID(int=source.getrandbits(128))) for _ in SOURCES]

    def position(table_uuid: str, number: int) -> Position:
        snapshot_id = source.getrandbits(62)
        evidence = HeadEvidence(
            live_manifests=f"{source.getrandbits(128):032x}",
            writer=snapshot_id,
            writer_number=number,
            has_deletes=False,
        )
        return Position(
            table_uuid=table_uuid,
            snapshot_id=snapshot_id,
            sequence_number=number,
            committed_at_ms=1_790_000_000_000 + number * 3_600_000 + source.randrange(600_000),
            evidence=evidence,
        )

    return [[position(each, number) for each in uuids] for number in range(1, CAPTURES + 3)]


@cache
def long_checkpoint(*, seed: int = 1, changes: bool = True, later: str = "") -> Checkpoint:
    after = positions(seed)
    ids = [digest("capture", str(seed), str(number), length=32) for number in range(CAPTURES + 1)]

    def ranges(number: int) -> tuple[SourceRange, ...]:
        def table(source: Source, role: str = "") -> str:
            return f"lake_icdc.{icdc_table_name(source, ids[number], role)}"

        return tuple(
            SourceRange(
                source=source,
                kind=Kind.RANGE,
                from_exclusive=after[number][index],
                to_inclusive=after[number + 1][index],
                icdc_table=table(source),
                before_table=table(source, "before") if changes else None,
                selection=f'{source.full_label} {{"data_operations": ["append"], "on_other_operation": "fail"}} {{}}',
                extra={"later": later} if later else {},
            )
            for index, source in enumerate(SOURCES)
        )

    history = tuple(
        CommittedCapture(
            capture_id=ids[number], run=run(number), committed_at_ms=1_790_000_000_000 + number, ranges=ranges(number)
        )
        for number in range(CAPTURES)
    )
    return Checkpoint(
        consumer=CONSUMER,
        revision=2 * CAPTURES + 1,
        positions=tuple(
            SourcePosition(source=source, position=after[CAPTURES][index]) for index, source in enumerate(SOURCES)
        ),
        pending=PendingCapture(capture_id=ids[-1], run=run(CAPTURES), started_at_ms=1, ranges=ranges(CAPTURES)),
        history=history,
        retained=history[-1].icdc_tables,
    )


@pytest.mark.parametrize("changes", [True, False])
def test_it_is_small_and_nothing_is_lost(changes):
    document = long_checkpoint(changes=changes)

    text = document.to_text()

    assert len(text.encode()) < 500_000
    assert Checkpoint.parse(text, consumer=CONSUMER).to_json() == document.to_json()


def test_a_text_shows_whose_document_it_is():
    raw = json.loads(long_checkpoint().to_text())

    assert sorted(raw) == ["consumer", "packed", "revision", "schema_version", "seal"]
    assert (raw["consumer"], raw["revision"]) == (CONSUMER, 2 * CAPTURES + 1)


def test_it_is_read_from_the_form_without_packing_too():
    """Nothing says that a document was packed when it was written, only that it is long now."""
    document = long_checkpoint()
    plain = document.to_json()
    assert Checkpoint.parse(json.dumps({**plain, "seal": _seal_of(plain)}), consumer=CONSUMER) == document


def test_fields_of_a_later_release_survive():
    document = long_checkpoint(later="a")

    assert Checkpoint.parse(document.to_text(), consumer=CONSUMER).to_json() == document.to_json()


def test_tables_and_starts_that_do_not_follow_from_the_rest_survive():
    """After a rewind, and where a release names its tables in another way."""
    document = long_checkpoint()
    first, second, *others = document.history
    odd = [*second.ranges]
    odd[0] = SourceRange(
        source=SOURCES[0], kind=Kind.FULL, from_exclusive=None, to_inclusive=odd[0].to_inclusive, icdc_table="x.odd"
    )
    odd[1] = SourceRange(
        source=SOURCES[1],
        kind=Kind.EMPTY,
        from_exclusive=first.ranges[1].from_exclusive,
        to_inclusive=odd[1].to_inclusive,
        icdc_table=None,
    )
    changed = CommittedCapture(capture_id="c", run=None, committed_at_ms=1, ranges=tuple(odd))
    document = Checkpoint(consumer=CONSUMER, revision=1, history=(first, changed, *others))

    assert Checkpoint.parse(document.to_text(), consumer=CONSUMER).to_json() == document.to_json()


def test_what_commands_and_cleared_runs_need_is_there():
    document = long_checkpoint()
    read = Checkpoint.parse(document.to_text(), consumer=CONSUMER)
    newest = document.history[-1]

    assert resolve_capture(read, run(CAPTURES - 1)) == Replay(newest)
    rewound = rewind(read, capture_id=document.history[10].capture_id)
    assert rewound == rewind(document, capture_id=document.history[10].capture_id)
    for source, position in zip(SOURCES, (r.from_exclusive for r in document.history[10].ranges), strict=True):
        found = rewound.position_of(source)
        assert found is not None
        assert position is not None
        assert (found, found.evidence) == (position, position.evidence)


@pytest.mark.parametrize("key", ["consumer", "revision", "schema_version", "packed", "seal"])
def test_a_change_by_hand_is_noticed(key):
    raw = json.loads(long_checkpoint().to_text())
    other = {"revision": 3, "schema_version": 0, "packed": raw["packed"][:5000] + raw["packed"][5004:]}.get(key, "x")

    with pytest.raises(DamagedCheckpointError):
        Checkpoint.parse(json.dumps({**raw, key: other}), consumer=CONSUMER)


@pytest.mark.parametrize("packed", [1, None, "", "x", "====", "/Td6WFoAAATm1rRGAgAhAQ==", "ü"])
def test_a_damaged_rest_is_damage(packed):
    raw = json.loads(long_checkpoint().to_text())

    with pytest.raises(DamagedCheckpointError):
        Checkpoint.parse(json.dumps({**raw, "packed": packed}), consumer=CONSUMER)


def test_a_rest_that_would_fill_the_memory_is_refused():
    bomb = b64encode(lzma.compress(b" " * 2**28, preset=1)).decode()
    raw = json.loads(long_checkpoint().to_text())

    with pytest.raises(DamagedCheckpointError, match="larger than any document"):
        Checkpoint.parse(json.dumps({**raw, "packed": bomb}), consumer=CONSUMER)
