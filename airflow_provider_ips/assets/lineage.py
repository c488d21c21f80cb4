"""What captures and commits report by OpenLineage: the source, the captured table as another name of it, the targets.

A job reads a table with a new name in every run. The symlink to its source, and the commit's edge from the source to
the targets, let a data catalog show one edge and not a table for each run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ips.assets.openlineage import dataset_name
from airflow_provider_ips.assets.uris import TableUri
from airflow_provider_ips.core.identifiers import TableIdentifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.providers.openlineage.extractors.base import OperatorLineage
    from airflow.sdk import Asset
    from openlineage.client.event_v2 import Dataset, InputDataset
    from openlineage.client.facet_v2 import OutputDatasetFacet, RunFacet

    from airflow_provider_ips.core.record import Volume
    from airflow_provider_ips.core.results.capture_record import CaptureRecord, SourceRecord


FACET = "ips_capture"
FACET_SCHEMA = (
    "https://raw.githubusercontent.com/airflow-provider-ips/airflow-provider-ips/main/docs/reference/"
    "ips-capture-run-facet.json"
)


def capture_lineage(record: CaptureRecord) -> OperatorLineage:
    """Report the sources as they were captured, and the captured tables."""
    from airflow.providers.openlineage.extractors.base import OperatorLineage

    conn_id = record.context.iceberg_conn_id
    return OperatorLineage(
        inputs=[_input(conn_id, source) for source in record.sources],
        outputs=[_captured(conn_id, source, table) for source in record.sources for table in source.icdc_tables],
        run_facets={FACET: _run_facet(record)},
    )


def commit_lineage(record: CaptureRecord, targets: Sequence[Asset], verified: str | None) -> OperatorLineage:
    """Report what has reached the targets: the edge that remains once the captured tables are dropped."""
    from airflow.providers.openlineage.extractors.base import OperatorLineage
    from airflow.providers.openlineage.utils.utils import translate_airflow_asset

    conn_id = record.context.iceberg_conn_id
    written = [_dataset(conn_id, verified)] if verified else []
    written += [each for target in targets if (each := translate_airflow_asset(target, None)) is not None]
    return OperatorLineage(
        inputs=[_input(conn_id, source) for source in record.sources if source.icdc_tables],
        outputs=list({(each.namespace, each.name): each for each in written}.values()) if record.icdc_tables else [],
        run_facets={FACET: _run_facet(record)},
    )


def _dataset(conn_id: str, table: str) -> Dataset:
    from openlineage.client.event_v2 import Dataset

    namespace, name = dataset_name(TableUri(iceberg_conn_id=conn_id, table=TableIdentifier.parse(table)))
    return Dataset(namespace=namespace, name=name)


def _input(conn_id: str, source: SourceRecord) -> InputDataset:
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import dataset_version_dataset, input_statistics_input_dataset

    named = _dataset(conn_id, source.source.table)
    version = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(source.to_inclusive.snapshot_id))
    read = source.captured
    statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
        rowCount=read.records, size=read.size_bytes, fileCount=read.files
    )
    return InputDataset(
        namespace=named.namespace,
        name=named.name,
        facets={"version": version},
        inputFacets={"inputStatistics": statistics},
    )


def _captured(conn_id: str, source: SourceRecord, table: str) -> Dataset:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import output_statistics_output_dataset, symlinks_dataset

    of_source, named = _dataset(conn_id, source.source.table), _dataset(conn_id, table)
    link = symlinks_dataset.Identifier(namespace=of_source.namespace, name=of_source.name, type="TABLE")
    held = source.captured if table == source.icdc_table else source.before
    outputs: dict[str, OutputDatasetFacet] = {}
    if held is not None:
        outputs["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=held.records, size=held.size_bytes, fileCount=held.files
        )
    return OutputDataset(
        namespace=named.namespace,
        name=named.name,
        facets={"symlinks": symlinks_dataset.SymlinksDatasetFacet(identifiers=[link])},
        outputFacets=outputs,
    )


def _run_facet(record: CaptureRecord) -> RunFacet:
    import attr
    from openlineage.client.facet_v2 import RunFacet

    @attr.define
    class IpsCaptureRunFacet(RunFacet):
        consumer: str
        captureId: str  # noqa: N815 - OpenLineage's facets have such names
        mode: str
        replay: bool
        sources: list[dict[str, Any]]

        @staticmethod
        def _get_schema() -> str:
            return FACET_SCHEMA

    return IpsCaptureRunFacet(
        consumer=record.consumer,
        captureId=record.capture_id,
        mode=record.mode,
        replay=record.context.replayed or record.context.is_detached,
        sources=[_source_facts(source) for source in record.sources],
    )


def _source_facts(source: SourceRecord) -> dict[str, Any]:
    """Snapshot ids are text: many readers of JSON round long numbers."""
    start = source.from_exclusive
    return {
        "table": source.source.table,
        "branch": source.source.branch,
        "kind": source.kind.value,
        "from": None if start is None or start.snapshot_id is None else str(start.snapshot_id),
        "to": str(source.to_inclusive.snapshot_id),
        "capturedTable": source.icdc_table,
        "beforeTable": source.before_table,
        "captured": _volume(source.captured),
        "wholeTable": _volume(source.table),
        "bytesAvoided": source.bytes_avoided,
        "partitions": [f"{each.column}: {each.shown}" for each in source.partitions if each.known],
    }


def _volume(volume: Volume) -> dict[str, int | None]:
    return {"files": volume.files, "rows": volume.records, "bytes": volume.size_bytes}
