"""Iceberg's Java API on files written here: commits that Spark's statements and PyIceberg do not make.

The files are written by pyarrow with Iceberg's field ids in them, for numbers lose their types on the way to Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.utils.datetime import date_to_days

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.partitioning import PartitionSpec

    from tests.system.histories.ledger import Row
    from tests.system.histories.world import World

FIELD_ID: Final = b"PARQUET:field_id"
# Reserved by the format for the two columns of a position delete file.
PATH_ID, POSITION_ID = b"2147483546", b"2147483545"


def append_with(world: World, operation: str, rows: Sequence[Row], *, method: str = "appendFile") -> None:
    """Commit rows, a file for each partition, by an operation such as ``newFastAppend``."""
    with world.engine():
        table = world.lake.java_table(world.name)
        update = getattr(table, operation)()
        for file in data_files(world, table, rows):
            update = getattr(update, method)(file)
        update.commit()


def data_files(world: World, java_table: Any, rows: Sequence[Row]) -> list[Any]:
    """Write rows to one new file for each partition they fall into, under the table's spec of today."""
    table = world.load()
    spec = table.spec()
    schema = table.schema().as_arrow()
    files = []
    for path, members in by_partition(world, spec, rows).items():
        content = pa.Table.from_pylist(_records(world, members), schema=schema)
        files.append(_described(world, java_table, _write(world, content), path, kind="data"))
    return files


def by_partition(world: World, spec: PartitionSpec, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by the path of their partition, as Hive would spell it; "" where there is none."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(partition_path(world, spec, row), []).append(row)
    return groups


def partition_path(world: World, spec: PartitionSpec, row: Row) -> str:
    """Compute the partition by the spec's own transforms."""
    if all(str(field.transform) == "void" for field in spec.fields):
        return ""
    schema = world.load().schema()
    by_name = {column.name: column.uid for column in world.columns}
    parts = []
    for field in spec.fields:
        source = schema.find_field(field.source_id)
        raw = row.get(by_name[source.name])
        value = date_to_days(raw) if raw is not None and str(source.field_type) == "date" else raw
        moved = field.transform.transform(source.field_type)(value)
        parts.append(f"{field.name}={'__HIVE_DEFAULT_PARTITION__' if moved is None else moved}")
    return "/".join(parts)


def _records(world: World, rows: Sequence[Row]) -> list[dict[str, Any]]:
    names = [column.name for column in world.columns]
    return [dict(zip(names, row, strict=True)) for row in world.spelled(rows)]


def _write(world: World, content: pa.Table) -> str:
    folder = world.lake.folder / "java" / world.name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{world.number()}.parquet"
    pq.write_table(content, path)
    return f"file://{path}"


def _described(world: World, java_table: Any, path: str, partition: str, *, kind: str, ids: Sequence[int] = ()) -> Any:
    """A DataFile or DeleteFile with the metrics that Java reads from the footer."""
    iceberg = world.lake.jvm.org.apache.iceberg
    spec = java_table.spec()
    file = java_table.io().newInputFile(path)
    builder = iceberg.DataFiles.builder(spec) if kind == "data" else iceberg.FileMetadata.deleteFileBuilder(spec)
    if kind == "position":
        builder = builder.ofPositionDeletes()
    if kind == "equality":
        builder = builder.ofEqualityDeletes(_ints(world, ids))
    config = iceberg.MetricsConfig.getDefault()
    metrics = iceberg.parquet.ParquetUtil.fileMetrics(file, config)
    builder = builder.withPath(path).withFormat("PARQUET").withFileSizeInBytes(file.getLength()).withMetrics(metrics)
    return builder.withPartitionPath(partition).build() if partition else builder.build()


def _ints(world: World, numbers: Sequence[int]) -> Any:
    gateway: Any = world.lake.spark.sparkContext._gateway
    array = gateway.new_array(world.lake.jvm.int, len(numbers))
    for i, number in enumerate(numbers):
        array[i] = number
    return array


def equality_delete(world: World, java_table: Any, ids: Sequence[int], partition: str) -> Any:
    """A delete file that names rows by their id, as streaming writers make it without reading the table."""
    schema = world.load().schema()
    field = schema.find_field("id")
    arrow = pa.schema([pa.field("id", pa.int64(), metadata={FIELD_ID: str(field.field_id).encode()})])
    content = pa.Table.from_pylist([{"id": i} for i in ids], schema=arrow)
    path = _write(world, content)
    return _described(world, java_table, path, partition, kind="equality", ids=[field.field_id])


def position_delete(world: World, java_table: Any, places: Mapping[str, Sequence[int]], partition: str) -> Any:
    """A delete file that names rows by file and place; with several files in it, no file is named in the metadata."""
    arrow = pa.schema(
        [
            pa.field("file_path", pa.string(), nullable=False, metadata={FIELD_ID: PATH_ID}),
            pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: POSITION_ID}),
        ]
    )
    records = [{"file_path": path, "pos": pos} for path in sorted(places) for pos in sorted(places[path])]
    path = _write(world, pa.Table.from_pylist(records, schema=arrow))
    return _described(world, java_table, path, partition, kind="position")
