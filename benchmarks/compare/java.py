"""Iceberg's Java API, in the process of the Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession


class JavaTable:
    """A table as a Java program has it."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - py4j's entrance has no other name
        self._jvm, self._iceberg = jvm, jvm.org.apache.iceberg
        self._session = spark._jsparkSession  # noqa: SLF001
        self._table = self._iceberg.spark.Spark3Util.loadIcebergTable(self._session, name)

    def append_added_files_to(self, catalog: str, name: str, *, after: int, to: int) -> None:
        """What Netflix has shown of its capture: the files that appends added, appended to a new table."""
        target = self._iceberg.catalog.TableIdentifier.parse(name)
        made = self._iceberg.spark.Spark3Util.loadIcebergCatalog(self._session, catalog).createTable(
            target, self._table.schema(), self._table.spec()
        )
        update = made.newAppend()
        for snapshot in each(self._iceberg.util.SnapshotUtil.ancestorsBetween(self._table, to, after)):
            if snapshot.operation() == "append":
                for file in each(snapshot.addedDataFiles(self._table.io())):
                    update.appendFile(file)
        update.commit()

    def delete_by_equality(self, column: str, values: Iterable[str]) -> None:
        """Commit an equality delete file to a table without partitions."""
        schema = self._table.schema().select([column])
        by = self._jvm.java.util.ArrayList()
        by.add(schema.findField(column).fieldId())
        # py4j makes no int[] of a list.
        ids = self._iceberg.relocated.com.google.common.primitives.Ints.toArray(by)
        builder = self._iceberg.data.GenericFileWriterFactory.Builder(self._table)
        factory = builder.equalityFieldIds(ids).equalityDeleteRowSchema(schema).build()
        path = f"{self._table.location()}/data/{uuid4()}.parquet"
        file = self._iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(self._table.io().newOutputFile(path))
        writer = factory.newEqualityDeleteWriter(file, self._table.spec(), None)
        for value in values:
            record = self._iceberg.data.GenericRecord.create(schema)
            record.setField(column, value)
            writer.write(record)
        writer.close()
        self._table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def each(iterable: JavaObject) -> Iterator[JavaObject]:
    """A Java Iterable's elements."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()
