"""What OpenLineage gets: tables by its naming rules, and what captures and commits processed.

A job reads a table with a new name in every run. The symlink to its source, and the commit's edge from the source to
the targets, let a data catalog show one edge and not a table for each run.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_ips.assets.uris import SCHEME, TableUri
from airflow_provider_ips.core.identifiers import TableIdentifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.providers.openlineage.extractors.base import OperatorLineage
    from airflow.sdk import Asset
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import OutputDatasetFacet, RunFacet

    from airflow_provider_ips.core.record import Volume
    from airflow_provider_ips.core.results.capture_record import CaptureRecord, SourceRecord


log = logging.getLogger(__name__)

FACET = "ips_capture"
FACET_SCHEMA = (
    "https://raw.githubusercontent.com/airflow-provider-ips/airflow-provider-ips/main/docs/reference/"
    "ips-capture-run-facet.json"
)


def convert_asset(asset: Asset, lineage_context: object) -> Dataset:  # noqa: ARG001 - Airflow passes it
    """Translate an asset to a dataset. All branches of a table are one dataset."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    namespace, name = dataset_name(TableUri.parse(asset.uri))
    return Dataset(namespace=namespace, name=name)


def dataset_name(uri: TableUri) -> tuple[str, str]:
    """Return namespace and name of a table, by what its connection says of the catalog."""
    return naming(uri, _connection_facts(uri.iceberg_conn_id))


def naming(uri: TableUri, catalog: Mapping[str, Any]) -> tuple[str, str]:
    """Return namespace and name: as engines report them if OpenLineage has a rule for the catalog, else as the asset.

    :param catalog: The properties of the connection, ``type`` and ``uri`` among them.
    """
    kind, address = catalog.get("type"), _address(catalog.get("uri"))
    region, account = catalog.get("glue.region") or catalog.get("client.region"), catalog.get("glue.id")
    if kind == "glue" and region and account:
        return f"arn:aws:glue:{region}:{account}", "table/" + "/".join(uri.table.parts)
    if kind == "hive" and address:
        return f"hive://{address.partition('://')[2]}", str(uri.table)
    if kind == "rest" and address:
        return address, str(uri.table)
    return f"{SCHEME}://{uri.parts.netloc}", str(uri.table)


def _address(uri: object) -> str:
    """Return a service's address without user and password: lineage is read by others."""
    first = str(uri or "").split(",", maxsplit=1)[0]  # there may be several Hive metastores
    try:
        parts = urlsplit(first)
    except ValueError:
        return ""
    if not parts.hostname:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def _connection_facts(conn_id: str) -> dict[str, Any]:
    """Read the catalog's properties. Errors are ignored: lineage comes after the work and must not fail it."""
    from airflow.sdk import Connection

    try:
        conn = Connection.get(conn_id)
        facts = dict(conn.extra_dejson or {})
        return {"type": "rest", **facts, "uri": conn.host or facts.get("uri")}
    except Exception as error:  # noqa: BLE001 - whatever a secrets backend raises
        log.debug("Connection %s cannot be read for lineage: %s", conn_id, type(error).__name__)
        return {}


def capture_lineage(record: CaptureRecord) -> OperatorLineage:
    """Report the sources as they were captured, and the captured tables."""
    from airflow.providers.openlineage.extractors.base import OperatorLineage

    conn_id = record.context.iceberg_conn_id
    return OperatorLineage(
        inputs=[_input(conn_id, source) for source in record.sources],
        outputs=[
            _captured(conn_id, source, table)
            for source in record.sources
            if source.captured_range is None  # the job reads the source itself
            for table in source.icdc_tables
        ],
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
        "from": None if start is None else start.snapshot_text,
        "to": str(source.to_inclusive.snapshot_id),
        "capturedTable": source.icdc_table if source.captured_range is None else None,
        "beforeTable": source.before_table,
        "captured": _volume(source.captured),
        "wholeTable": _volume(source.table),
        "bytesAvoided": source.bytes_avoided,
        "partitions": [f"{each.column}: {each.shown}" for each in source.partitions if each.known],
    }


def _volume(volume: Volume) -> dict[str, int | None]:
    return {"files": volume.files, "rows": volume.records, "bytes": volume.size_bytes}
