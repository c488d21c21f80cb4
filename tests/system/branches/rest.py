"""Format version 3 by a REST catalog, which writes the metadata itself: row ids and numbers stay the source's."""

from __future__ import annotations

import subprocess
import sysconfig
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import load_catalog

from airflow_provider_ips.core.settings import ALL_OPERATIONS
from airflow_provider_ips.iceberg import capture, drop_icdc
from scripts.local_spark import BRIEF_JVM, session_settings, start_spark
from tests.kit.catalog_servers import ICEBERG, PROGRAMS
from tests.kit.packages import jars

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = "id, a, _row_id, _last_updated_sequence_number"
MERGE_ON_READ = ", ".join(f"'write.{what}.mode'='merge-on-read'" for what in ("delete", "update"))


@contextmanager
def rest_catalog(folder: Path) -> Iterator[str]:
    """Iceberg's own REST adapter over files in a folder; gives its address."""
    iceberg = jars(
        "rest-adapter",
        f"org.apache.iceberg:iceberg-core:{ICEBERG}",
        f"org.apache.iceberg:iceberg-core:{ICEBERG}:tests",
        "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.5",
        "org.xerial:sqlite-jdbc:3.51.0.0",
    )
    hadoop = Path(sysconfig.get_path("purelib")) / "pyspark" / "jars"
    path = ":".join(
        [f"{iceberg}/*", *map(str, hadoop.glob("hadoop-client*.jar")), *map(str, hadoop.glob("commons-lo*"))]
    )
    settings = (
        "catalog-impl=org.apache.iceberg.jdbc.JdbcCatalog",
        f"uri=jdbc:sqlite:file:{folder}/rest.db",
        "jdbc.schema-version=V1",
        f"warehouse=file://{folder}/rest",
        "io-impl=org.apache.iceberg.hadoop.HadoopFileIO",
    )
    command = ["java", *BRIEF_JVM, "-Xmx256m", "-cp", path, str(PROGRAMS / "RestAdapter.java"), *settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield next(line.split()[-1] for line in process.stdout if "Listening" in line)
        finally:
            process.kill()


def check_format_version_3(folder: Path) -> None:
    """Read a capture of changes and one of appends with their row ids, and let another commit race with one."""
    with rest_catalog(folder) as address:
        settings = session_settings({"lake": {"type": "rest", "uri": address}})
        spark = start_spark({**settings, "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "700m"})
        try:
            _check(spark, load_catalog("lake", type="rest", uri=address))
        finally:
            spark.stop()


def _check(spark: Any, catalog: Any) -> None:
    def read(name: str) -> set[tuple[object, ...]]:
        return {tuple(row) for row in spark.sql(f"select {COLUMNS} from lake.{name}").collect()}

    spark.sql("create namespace lake.db")
    spark.sql(
        f"create table lake.db.t (id int, a string) using iceberg tblproperties('format-version'='3', {MERGE_ON_READ})"
    )
    spark.sql("insert into lake.db.t values (1, 'a'), (2, 'b')")
    since = catalog.load_table("db.t").current_snapshot().snapshot_id
    spark.sql("insert into lake.db.t select /*+ COALESCE(1) */ * from values (3, 'c'), (4, 'd')")
    log_of = catalog.load_table("db.t").current_snapshot().snapshot_id
    appended = {row for row in read("db.t") if row[0] in (3, 4)}
    spark.sql("update lake.db.t set a = 'x' where id in (1, 3)")
    there, next_row_id = read("db.t"), catalog.load_table("db.t").metadata.next_row_id

    changes = capture(catalog, "db.t", since=since, mode="BRANCH", data_operations=ALL_OPERATIONS, on_superset="allow")
    log = capture(catalog, "db.t", since=since, until=log_of, mode="BRANCH")
    spark.sql("refresh table lake.db.t")
    captured = read(str(changes.icdc_table))
    assert captured <= there, (captured, there)
    assert {row[0] for row in captured} >= {1, 3, 4}
    assert read(str(log.icdc_table)) == appended
    assert catalog.load_table("db.t").metadata.next_row_id == next_row_id

    commit, raced = catalog.commit_table, iter(["insert into lake.db.t values (8, 'h')"])

    def commit_after_another(*given: Any) -> Any:
        for statement in raced:
            spark.sql(statement)
        return commit(*given)

    catalog.commit_table = commit_after_another
    capture(catalog, "db.t", since=since, until=log_of, mode="BRANCH", into="raced")
    numbers = [snapshot.sequence_number for snapshot in catalog.load_table("db.t").metadata.snapshots]
    assert sorted(numbers) == sorted(set(numbers)), f"two commits have one number: {numbers}"
    for name in (*changes.icdc_tables, *log.icdc_tables):
        assert drop_icdc(catalog, name)
    spark.sql("refresh table lake.db.t")
    assert {row[:2] for row in read("db.t")} == {(1, "x"), (2, "b"), (3, "x"), (4, "d"), (8, "h")}
