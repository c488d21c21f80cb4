"""What a filter or a chunk leaves of a plan: exactly the rows that it selects, or an error that says why not.

For most manifests the summaries in the manifest list show that a filter selects all of their partitions, or none. Those
manifests are taken as the plan has them, or left out, and are not read. For the others their entries decide:

    day >= '2026-10-02'    manifest of 2026-10-03           taken whole, without reading it
                           manifest of 2026-10-01           left out, without reading it
                           manifest of both                 read; the files of 2026-10-03 are chosen
                           files of the month 2026-10       refused: only some of their rows meet it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.types import DateType, PrimitiveType

from airflow_provider_ips.core.backfill.chunks import Chunk
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.history.files import DATA, FileFacts, Partition
from airflow_provider_ips.core.history.selections import CapturePlan, Selection, Take
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.requests.request import PREFIX, RunKind, RunRequest
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.iceberg.foreign_errors import translate_errors
from airflow_provider_ips.iceberg.partitions.backfill_units import ChunkPartitions
from airflow_provider_ips.iceberg.partitions.bounds import partition_ranges
from airflow_provider_ips.iceberg.partitions.filters import (
    AllOf,
    Comparison,
    Condition,
    comparisons_in,
    parse_filter,
    resolve_filter,
)
from airflow_provider_ips.iceberg.partitions.partition_fields import (
    WITHOUT_ZONE,
    column_types,
    decode_bound,
    is_in_use,
    partition_path,
)
from airflow_provider_ips.iceberg.partitions.transform_ranges import (
    EVERYTHING,
    NOTHING,
    PART,
    FieldValues,
    Share,
    matching_share,
)
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionField, PartitionSpec


NO_CONDITION: Final = AllOf(parts=())


def narrow(source: IcebergSource, plan: CapturePlan, condition: str) -> CapturePlan:
    """Narrow a plan to the partitions that a filter selects. Refuse a filter that selects part of a partition."""
    return _narrowed_plan(source, plan, _Narrowing(source, condition), label=condition)


def refuse_moved_rows(name: str, plan: CapturePlan, settings: CaptureSettings, condition: str) -> None:
    """Refuse a filter where the job deletes all captured keys and inserts the captured rows.

    A row that moved from a selected partition to another one is captured as it was before, and not as it is now.
    """
    if plan.kind is Kind.RANGE and settings.captures_changes and settings.on_superset == "complete":
        raise InputError(
            f"the filter {condition!r} narrows a range of {name} that is captured with on_superset='complete'",
            consequence="A row that moved to a partition that is not selected would be deleted and not inserted",
            remedy="leave the filter out, or capture all live rows of the partitions (ips_run='partitions')",
        )


def narrow_to_chunk(source: IcebergSource, plan: CapturePlan, chunk: Chunk) -> CapturePlan:
    """Narrow a plan to the values of a chunk, within what the backfill's filter selects."""
    narrowing = _Narrowing(source, chunk.request.partitions, chunk)
    narrowed = _narrowed_plan(source, plan, narrowing, label=chunk.request.partitions or chunk.label)
    if not narrowed.is_empty or not chunk.volume.files:
        return narrowed
    note = (
        f"the plan has counted {chunk.volume.files:,} files of {chunk}, and no live file has its values any more: they "
        "were deleted since, and the target keeps what it has of them"
    )
    return replace(narrowed, warnings=(*narrowed.warnings, note))


def refuse_likely_mistake(plans: Sequence[tuple[IcebergSource, CapturePlan, CapturePlan]], request: RunRequest) -> None:
    """Refuse a filter that matches nothing, and one that matches the whole table unless that is confirmed.

    :param plans: every source with its plan, before and after it was narrowed
    """
    condition = str(request.partitions)
    first = next(((source, plan) for source, plan, _ in plans if not plan.is_empty), None)
    if first is None:
        return
    if all(narrowed.is_empty for _, _, narrowed in plans):
        raise nothing_selected(*first, condition)
    is_confirmed = request.everything or request.kind is not RunKind.PARTITIONS
    if not is_confirmed and all(_data_selections(plan) == _data_selections(narrowed) for _, plan, narrowed in plans):
        raise _everything_selected(plans[0][0], plans[0][2], condition)


def nothing_selected(source: IcebergSource, plan: CapturePlan, condition: str) -> InputError:
    """The error for a filter that selects none of a plan's partitions, with the ranges that they have."""
    return InputError(
        f"the filter {condition!r} selects none of the partitions of {source.name} that would be captured",
        consequence="There is nothing to process, which is likely a mistake",
        remedy=f"check its values; the files have {_shown_ranges(source, plan) or 'partitions of unknown range'}",
    )


def _everything_selected(source: IcebergSource, narrowed: CapturePlan, condition: str) -> InputError:
    """The error for a filter that selects all of a plan's partitions, with the ranges that they have."""
    files = sum(s.manifest.live_files or 0 for s in _data_selections(narrowed))
    return InputError(
        f"the filter {condition!r} selects everything that {source.name} has: {files:,} files, "
        f"{_shown_ranges(source, narrowed) or 'in partitions of unknown range'}",
        consequence="A filter that matches the whole table is likely a mistake, and everything would be processed",
        remedy=f"narrow it; or confirm that everything is meant: {PREFIX}everything=True, or everything=True on an "
        "IpBackfillOperator",
    )


def _shown_ranges(source: IcebergSource, plan: CapturePlan) -> str:
    ranges = partition_ranges(source.metadata, [source.listed(s.manifest) for s in _data_selections(plan)])
    return ", ".join(f"{r.column} from {r.lower} to {r.upper}" for r in ranges if r.known)


def _data_selections(plan: CapturePlan) -> list[Selection]:
    return [s for s in (*plan.selections, *plan.before) if s.manifest.content == DATA]


def _narrowed_plan(source: IcebergSource, plan: CapturePlan, narrowing: _Narrowing, *, label: str) -> CapturePlan:
    with translate_errors(f"selecting partitions of {source.name}"):
        selections = narrowing.narrowed(plan.selections)
        before = narrowing.narrowed(plan.before)
    narrowed = replace(
        plan, selections=selections, before=before, size_bytes=None, before_bytes=None, only_partitions=label
    )
    return narrowed if selections or before else replace(narrowed, kind=Kind.EMPTY, before_bytes=0)


class _Narrowing:
    """The condition of a filter, and of a chunk if there is one, decided once for each partition."""

    def __init__(self, source: IcebergSource, text: str | None, chunk: Chunk | None = None) -> None:
        self._source = source
        self._text = text
        self._specs = source.metadata.specs()
        self._condition: Condition = NO_CONDITION
        if text is not None:
            self._condition = resolve_filter(parse_filter(text), source.metadata.schema(), table=source.name)
        self._chunk = _chunk_partitions(source, chunk)
        self._enclosing = NO_CONDITION if self._chunk is None else self._chunk.enclosing_condition
        self._decided: dict[tuple[int, Partition], Share] = {}
        comparisons = [*comparisons_in(self._condition), *comparisons_in(self._enclosing)]
        self._types = {comparison.field_id: self._type_of(comparison) for comparison in comparisons}
        for comparison in comparisons:
            self._refuse_unpartitioned(comparison)

    def narrowed(self, selections: Sequence[Selection]) -> tuple[Selection, ...]:
        """Narrow selections; delete manifests are kept or left out whole, as deletes without their data do no harm."""
        kept = [narrowed for s in selections if (narrowed := self._narrowed_selection(s)) is not None]
        return tuple(kept) if any(s.manifest.content == DATA for s in kept) else ()

    def _narrowed_selection(self, selection: Selection) -> Selection | None:
        listed = self._source.listed(selection.manifest)
        share = self._share_of_manifest(listed)
        if selection.manifest.content != DATA:
            return None if share == NOTHING and not _has_nulls(listed) else selection
        if share.all:
            return selection
        if not share.some:
            return None
        files = list(self._source.reads_selected(selection))
        chosen = frozenset(file.key for file in files if self._is_selected(file))
        if not chosen:
            return None
        if len(chosen) == len(files):
            return selection  # so that a manifest that can be copied still is
        return Selection(manifest=selection.manifest, take=Take.CHOSEN, chosen=chosen)

    def _is_selected(self, file: FileFacts) -> bool:
        key = (file.spec_id, file.partition)
        if key not in self._decided:
            self._decided[key] = self._share_of_partition(*key)
        share = self._decided[key]
        if share == PART:
            raise self._partly_selected(self._specs[file.spec_id], file.partition)
        return share.all

    def _share_of_partition(self, spec_id: int, partition: Partition) -> Share:
        values = [FieldValues.of(value) for value in partition]
        share = self._share(self._condition, self._specs[spec_id], values.__getitem__)
        if self._chunk is None or not share.some or self._chunk.has(spec_id, partition):
            return share
        return NOTHING

    def _share_of_manifest(self, manifest: ManifestFile) -> Share:
        spec = self._specs[manifest.partition_spec_id]
        summaries = manifest.partitions
        if not summaries or len(summaries) != len(spec.fields):
            return PART
        compared = [s for s, field in zip(summaries, spec.fields, strict=True) if field.source_id in self._types]
        if any(s.lower_bound is None or s.upper_bound is None for s in compared):
            return PART  # all values are null, or the list does not say: the entries do

        def values_of(index: int) -> FieldValues:
            summary, field = summaries[index], spec.fields[index]
            result_type: Any = field.transform.result_type(self._types[field.source_id])
            bounds = [summary.lower_bound, summary.upper_bound]
            lower, upper = (None if raw is None else decode_bound(result_type, raw) for raw in bounds)
            return FieldValues(lower=lower, upper=upper, has_null=summary.contains_null)

        if not self._share(self._enclosing, spec, values_of).some:
            return NOTHING
        share = self._share(self._condition, spec, values_of)
        return share if self._chunk is None or not share.some else PART

    def _share(self, condition: Condition, spec: PartitionSpec, values_of: Callable[[int], FieldValues]) -> Share:
        if isinstance(condition, Comparison):
            return self._share_of_comparison(condition, spec, values_of)
        shares = [self._share(part, spec, values_of) for part in condition.parts]
        over = all if isinstance(condition, AllOf) else any
        return Share(some=over(s.some for s in shares), all=over(s.all for s in shares))

    def _share_of_comparison(
        self, comparison: Comparison, spec: PartitionSpec, values_of: Callable[[int], FieldValues]
    ) -> Share:
        """Of several fields of the column, one that is sure decides: an hour, where its day is met only in part."""
        shares = [
            matching_share(comparison, field, self._types[comparison.field_id], values_of(index))
            for index, field in enumerate(spec.fields)
            if _is_of_column(field, comparison.field_id)
        ]
        if any(not share.some for share in shares):
            return NOTHING
        return EVERYTHING if any(share.all for share in shares) else PART

    def _type_of(self, comparison: Comparison) -> PrimitiveType:
        types = {type(found): found for found in column_types(self._source.metadata, comparison.field_id)}
        current = self._source.metadata.schema().find_field(comparison.field_id).field_type
        if not isinstance(current, PrimitiveType) or (DateType in types and isinstance(current, WITHOUT_ZONE)):
            names = " and ".join(str(found) for found in reversed(types.values()))
            raise InputError(
                f"the filter compares {comparison.column!r}, which was {names}",
                consequence="Partition values of the two types cannot be compared",
                remedy="filter by another partition column",
            )
        return current

    def _refuse_unpartitioned(self, comparison: Comparison) -> None:
        if any(_is_of_column(field, comparison.field_id) for spec in self._specs.values() for field in spec.fields):
            return
        schema = self._source.metadata.schema()
        columns = {schema.find_column_name(f.source_id): f for f in self._source.metadata.spec().fields if is_in_use(f)}
        shown = ", ".join(f"{name} ({field.transform})" for name, field in columns.items() if name)
        raise InputError(
            f"the filter compares {comparison.column!r}, and {self._source.name} is not partitioned by it",
            consequence="It is not known where its rows are without opening data files",
            remedy=f"filter by {shown}" if columns else "capture the whole table: it has no partitions",
        )

    def _partly_selected(self, spec: PartitionSpec, partition: Partition) -> InputError:
        for comparison in comparisons_in(self._condition):
            if not any(_is_of_column(field, comparison.field_id) for field in spec.fields):
                return InputError(
                    f"{self._source.name} has files of partition spec {spec.spec_id}, which does not divide by "
                    f"{comparison.column!r}",
                    consequence=f"It is not known whether their rows meet {self._text!r} without opening them",
                    remedy="rewrite these files into the current partitioning (CALL rewrite_data_files with "
                    "rewrite-all), or request a range that has none of them",
                )
        shown = partition_path(self._source.metadata, spec.spec_id, partition)
        return InputError(
            f"the filter {self._text!r} selects only part of partition {shown} of {self._source.name}",
            consequence="Files are captured whole, so the capture would have rows that do not meet the filter",
            remedy="let it begin and end where partitions do: at whole days for day(…), at whole multiples for "
            "truncate(…); buckets hold many values, and cannot be selected by one",
        )


def _chunk_partitions(source: IcebergSource, chunk: Chunk | None) -> ChunkPartitions | None:
    values = None if chunk is None else chunk.values
    if chunk is None or values is None or values.is_everything:
        return None
    return ChunkPartitions(source, chunk, values)


def _is_of_column(field: PartitionField, column_id: int) -> bool:
    return field.source_id == column_id and is_in_use(field)


def _has_nulls(manifest: ManifestFile) -> bool:
    """An equality delete in the partition of nulls may apply to every partition."""
    return any(summary.contains_null for summary in manifest.partitions or ())
