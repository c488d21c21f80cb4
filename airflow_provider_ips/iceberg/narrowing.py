"""A plan narrowed to the partitions that a condition selects: exactly its rows, or an error that says why not.

Manifest lists tell for most manifests that all of their partitions are selected, or none: those are taken as the plan
has them, or left out, unread. Of the others the entries decide.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyiceberg.transforms import DayTransform, IdentityTransform, VoidTransform
from pyiceberg.types import DateType, PrimitiveType, TimestampNanoType, TimestampType

from airflow_provider_ips.core.asked import PREFIX
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.files import Status
from airflow_provider_ips.core.history import DATA
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.selection import Selection, Take
from airflow_provider_ips.iceberg.conditions import Comparison, Every, comparisons_in, parse_condition, resolve
from airflow_provider_ips.iceberg.faults import mapped
from airflow_provider_ips.iceberg.intervals import EVERYTHING, NOTHING, PART, Presence, Share, share_of
from airflow_provider_ips.iceberg.members import Members
from airflow_provider_ips.iceberg.values import decode_bound, to_json_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionField, PartitionSpec

    from airflow_provider_ips.core.backfill import Chunk
    from airflow_provider_ips.core.files import FileFacts, Partition
    from airflow_provider_ips.core.selection import CapturePlan
    from airflow_provider_ips.iceberg.conditions import Node
    from airflow_provider_ips.iceberg.source import IcebergSource

ALL: Node = Every(parts=())
"""No condition at all."""


def narrow(source: IcebergSource, plan: CapturePlan, condition: str) -> CapturePlan:
    """Leave of a plan what the condition selects. What it selects in part is refused, never rounded."""
    return _left(source, plan, _Narrowing(source, condition), told=condition)


def narrow_to_chunk(source: IcebergSource, plan: CapturePlan, chunk: Chunk) -> CapturePlan:
    """Leave of a plan what holds the values of a chunk, of what its backfill's filter selects."""
    narrowing = _Narrowing(source, chunk.asked.partitions, chunk)
    narrowed = _left(source, plan, narrowing, told=chunk.asked.partitions or chunk.label)
    if not narrowed.is_empty or not chunk.files:
        return narrowed
    note = (
        f"the plan has counted {chunk.files:,} files of {chunk}, and no live file has its values any more: they were "
        "deleted since, and what the target has of them stays"
    )
    return replace(narrowed, warnings=(*narrowed.warnings, note))


def passes_over_nothing(plan: CapturePlan, narrowed: CapturePlan) -> bool:
    """Tell whether a filter left all data there is."""
    return _data_of(plan) == _data_of(narrowed)


def _data_of(plan: CapturePlan) -> list[Selection]:
    return [s for s in (*plan.selections, *plan.before) if s.manifest.content == DATA]


def _left(source: IcebergSource, plan: CapturePlan, narrowing: _Narrowing, *, told: str) -> CapturePlan:
    with mapped(f"selecting partitions of {source.name}"):
        selections = narrowing.of(plan.selections)
        before = narrowing.of(plan.before)
    narrowed = replace(
        plan, selections=selections, before=before, size_bytes=None, before_bytes=None, only_partitions=told
    )
    return narrowed if selections or before else replace(narrowed, kind=Kind.EMPTY, before_bytes=0)


def selects_nothing(source: IcebergSource, plan: CapturePlan, condition: str) -> InputError:
    """Ask back, with where the files lie that the condition passes over."""
    from airflow_provider_ips.iceberg.partitions import partition_ranges

    listed = [source.listed(s.manifest) for s in (*plan.selections, *plan.before) if s.manifest.content == DATA]
    lie = [f"{r.column} from {r.lower} to {r.upper}" for r in partition_ranges(source.metadata, listed) if r.known]
    return InputError(
        f"the filter {condition!r} selects none of the partitions of {source.name} that would be captured",
        consequence="There is nothing to process, which is hardly what was meant",
        remedy=f"check its values; those files lie in {', '.join(lie) or 'partitions whose range is not known'}",
    )


def selects_everything(source: IcebergSource, narrowed: CapturePlan, condition: str) -> InputError:
    """Ask back, with how much that is."""
    from airflow_provider_ips.iceberg.partitions import partition_ranges

    listed = [source.listed(s.manifest) for s in _data_of(narrowed)]
    files = sum((m.added_files_count or 0) + (m.existing_files_count or 0) for m in listed)
    lie = [f"{r.column} from {r.lower} to {r.upper}" for r in partition_ranges(source.metadata, listed) if r.known]
    return InputError(
        f"the filter {condition!r} selects everything that {source.name} has: {files:,} files, "
        f"{', '.join(lie) or 'in partitions whose range is not known'}",
        consequence="A filter that passes over nothing is hardly what was meant, and everything would be processed",
        remedy=f"narrow it; or say that everything is meant: {PREFIX}everything=True, or everything=True on an "
        "IpBackfillOperator",
    )


class _Narrowing:
    def __init__(self, source: IcebergSource, text: str | None, chunk: Chunk | None = None) -> None:
        self._source = source
        self._text = text
        self._specs = source.metadata.specs()
        self._node = (
            ALL if text is None else resolve(parse_condition(text), source.metadata.schema(), table=source.name)
        )
        self._decided: dict[tuple[int, Partition], Share] = {}
        self._members = _members(source, chunk)
        self._hull = ALL if self._members is None else self._members.hull
        tests = [*comparisons_in(self._node), *comparisons_in(self._hull)]
        self._types = {test.field_id: self._type_of(test) for test in tests}
        for test in tests:
            self._refuse_unpartitioned(test)

    def of(self, selections: Sequence[Selection]) -> tuple[Selection, ...]:
        """Deletes whose data files are left out do no harm, so theirs are left out by the manifest only."""
        kept = [n for s in selections if (n := self._narrowed(s)) is not None]
        return tuple(kept) if any(s.manifest.content == DATA for s in kept) else ()

    def _narrowed(self, selection: Selection) -> Selection | None:
        listed = self._source.listed(selection.manifest)
        share = self._of_manifest(listed)
        if selection.manifest.content != DATA:
            return None if share == NOTHING and not _has_nulls(listed) else selection
        if share.all:
            return selection
        if not share.some:
            return None
        wanted = self._wanted(selection)
        chosen = frozenset(file.key for file in wanted if self._is_selected(file))
        if not chosen:
            return None
        if len(chosen) == len(wanted):
            return selection  # copied as it is, where it would have been
        return Selection(manifest=selection.manifest, take=Take.CHOSEN, chosen=chosen)

    def _wanted(self, selection: Selection) -> list[FileFacts]:
        return [
            file
            for file in self._source.reads_entries(selection.manifest)
            if file.is_live and is_taken(selection, file)
        ]

    def _is_selected(self, file: FileFacts) -> bool:
        place = (file.spec_id, file.partition)
        if place not in self._decided:
            self._decided[place] = self._of_place(*place)
        share = self._decided[place]
        if share == PART:
            raise self._in_part(self._specs[file.spec_id], file.partition)
        return share.all

    def _of_place(self, spec_id: int, partition: Partition) -> Share:
        there = [Presence.of(value) for value in partition]
        share = self._decide(self._specs[spec_id], there.__getitem__)
        if self._members is None or not share.some or self._members.has(spec_id, partition):
            return share
        return NOTHING

    def _of_manifest(self, manifest: ManifestFile) -> Share:
        spec = self._specs[manifest.partition_spec_id]
        summaries = manifest.partitions
        if not summaries or len(summaries) != len(spec.fields):
            return PART
        told = [s for s, field in zip(summaries, spec.fields, strict=True) if field.source_id in self._types]
        if any(s.lower_bound is None or s.upper_bound is None for s in told):
            return PART  # all null, or not told: the entries know

        def there(place: int) -> Presence:
            summary, field = summaries[place], spec.fields[place]
            result_type: Any = field.transform.result_type(self._types[field.source_id])
            bounds = [summary.lower_bound, summary.upper_bound]
            lower, upper = (None if raw is None else decode_bound(result_type, raw) for raw in bounds)
            return Presence(lower=lower, upper=upper, has_null=summary.contains_null)

        if not self._decide(spec, there, self._hull).some:
            return NOTHING
        share = self._decide(spec, there)
        return share if self._members is None or not share.some else PART

    def _decide(self, spec: PartitionSpec, there: Callable[[int], Presence], node: Node | None = None) -> Share:
        return _combined(node or self._node, lambda test: self._of_test(test, spec, there))

    def _of_test(self, test: Comparison, spec: PartitionSpec, there: Callable[[int], Presence]) -> Share:
        """Fields of the same column each say something; what one is sure of is sure."""
        shares = [
            share_of(test, field, self._types[test.field_id], there(place))
            for place, field in enumerate(spec.fields)
            if _divides(field, test.field_id)
        ]
        if any(not share.some for share in shares):
            return NOTHING
        return EVERYTHING if any(share.all for share in shares) else PART

    def _type_of(self, test: Comparison) -> PrimitiveType:
        kinds = {
            type(column.field_type): column.field_type
            for schema in self._source.metadata.schemas
            if (column := schema._lazy_id_to_field.get(test.field_id)) is not None  # noqa: SLF001 - as in partitions
        }
        found = self._source.metadata.schema().find_field(test.field_id).field_type
        if not isinstance(found, PrimitiveType) or (
            DateType in kinds and isinstance(found, TimestampType | TimestampNanoType)
        ):
            raise InputError(
                f"the filter compares {test.column!r}, which was {' and '.join(str(kind) for kind in kinds.values())}",
                consequence="Partition values of both kinds cannot be told apart",
                remedy="filter by another partition column",
            )
        return found

    def _refuse_unpartitioned(self, test: Comparison) -> None:
        if any(_divides(field, test.field_id) for spec in self._specs.values() for field in spec.fields):
            return
        schema = self._source.metadata.schema()
        named = {
            schema.find_column_name(f.source_id): f"{schema.find_column_name(f.source_id)} ({f.transform})"
            for f in self._source.metadata.spec().fields
            if not isinstance(f.transform, VoidTransform)
        }
        raise InputError(
            f"the filter compares {test.column!r}, and {self._source.name} is not partitioned by it",
            consequence="Without opening data files it cannot be told where its rows are",
            remedy=f"filter by {', '.join(told for name, told in named.items() if name)}"
            if named
            else "capture the whole table: it has no partitions",
        )

    def _in_part(self, spec: PartitionSpec, partition: Partition) -> InputError:
        undivided = next(
            (t for t in comparisons_in(self._node) if not any(_divides(f, t.field_id) for f in spec.fields)), None
        )
        if undivided is not None:
            return InputError(
                f"{self._source.name} has files of partition spec {spec.spec_id}, which does not divide by "
                f"{undivided.column!r}",
                consequence=f"Whether their rows meet {self._text!r} cannot be told without opening them",
                remedy="rewrite these files into the current partitioning (CALL rewrite_data_files with "
                "rewrite-all), or ask for a range that has none of them",
            )
        shown = "/".join(f"{f.name}={_shown(f, v, self._types)}" for f, v in zip(spec.fields, partition, strict=True))
        return InputError(
            f"the filter {self._text!r} selects only part of partition {shown} of {self._source.name}",
            consequence="Files are captured whole, so rows would come that were not asked for",
            remedy="let it begin and end where partitions do: at whole days for day(…), at whole multiples for "
            "truncate(…); buckets hold many values, and cannot be selected by one",
        )


def _members(source: IcebergSource, chunk: Chunk | None) -> Members | None:
    """None where nothing is left out."""
    values = None if chunk is None else chunk.values
    if chunk is None or values is None or values.is_everything:
        return None
    return Members(source, chunk, values)


def _divides(field: PartitionField, field_id: int) -> bool:
    return field.source_id == field_id and not isinstance(field.transform, VoidTransform)


def _combined(node: Node, of_test: Callable[[Comparison], Share]) -> Share:
    if isinstance(node, Comparison):
        return of_test(node)
    shares = [_combined(part, of_test) for part in node.parts]
    over = all if isinstance(node, Every) else any
    return Share(some=over(s.some for s in shares), all=over(s.all for s in shares))


def is_taken(selection: Selection, file: FileFacts) -> bool:
    """Tell whether an entry is among those that a selection takes."""
    match selection.take:
        case Take.ADDED:
            return file.status is Status.ADDED
        case Take.NEWER:
            return file.sequence_number > (selection.newer_than or 0)
        case Take.CHOSEN:
            return file.key in selection.chosen
        case _:
            return True


def _has_nulls(manifest: ManifestFile) -> bool:
    """An equality delete that belongs to no value may reach everywhere."""
    return any(summary.contains_null for summary in manifest.partitions or ())


def _shown(field: PartitionField, value: Any, types: dict[int, PrimitiveType]) -> Any:  # noqa: ANN401 - for people
    source_type = types.get(field.source_id)
    if isinstance(field.transform, DayTransform):
        return to_json_value(DateType(), value)
    if isinstance(field.transform, IdentityTransform) and source_type is not None:
        return to_json_value(source_type, value)
    return value if source_type is None else field.transform.to_human_string(source_type, value)
