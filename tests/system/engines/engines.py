"""Every engine: how its environment is had on this machine, and which reader it runs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.local_spark import BRIEF_JVM, session_settings, sqlite_properties_for_spark
from scripts.loopback import HOST, free_port
from scripts.spark_jars import JARS
from tests.kit.java import newest_java
from tests.kit.packages import FOLDER, file_of_maven, jars, python_with
from tests.kit.processes import server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

SQLITE_JDBC: Final = JARS[1]
PYICEBERG: Final = "pyiceberg[pyarrow]==0.12.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The Python that runs a reader, and what that reader is given by the environment."""

    python: Path
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A reader and what it needs; entering ``ready`` may start a server."""

    label: str
    reader: str
    ready: Callable[[Path], AbstractContextManager[Ready]]
    limit: str = ""
    """Why it reads less of an ICDC table than of most sources, where that is known and its own."""


def _spark(pyspark: str | None, runtime: str) -> Callable[[Path], AbstractContextManager[Ready]]:
    @contextlib.contextmanager
    def ready(lake: Path) -> Iterator[Ready]:
        settings = {
            **session_settings({"lake": sqlite_properties_for_spark(lake)}, jars=(SQLITE_JDBC,)),
            "spark.driver.extraJavaOptions": " ".join(BRIEF_JVM),
            "spark.driver.memory": "768m",
            "spark.sql.shuffle.partitions": "1",
        }
        settings["spark.jars"] += f",{file_of_maven(f'org.apache.iceberg:{runtime}') if pyspark else JARS[0].path}"
        python = python_with("spark", f"pyspark=={pyspark}") if pyspark else Path(sys.executable)
        yield Ready(python=python, environment={"SPARK_SETTINGS": json.dumps(settings), "PYSPARK_PYTHON": str(python)})

    return ready


def _packages(*requirements: str) -> Callable[[Path], AbstractContextManager[Ready]]:
    @contextlib.contextmanager
    def ready(_: Path) -> Iterator[Ready]:
        yield Ready(python=python_with("engine", *requirements))

    return ready


@contextlib.contextmanager
def _pyiceberg(_: Path) -> Iterator[Ready]:
    yield Ready(python=Path(sys.executable))


@contextlib.contextmanager
def _flink(lake: Path) -> Iterator[Ready]:
    python = python_with("flink", "apache-flink==2.1.3", "setuptools<81")
    (library,) = (python.parent.parent / "lib").glob("python*/site-packages/pyflink/lib")
    hadoop = jars(
        "hadoop-client",
        "org.apache.hadoop:hadoop-client-api:3.4.2",
        "org.apache.hadoop:hadoop-client-runtime:3.4.2",
    )
    # Flink looks for a catalog's classes where its own are.
    for jar in (file_of_maven("org.apache.iceberg:iceberg-flink-runtime-2.1:1.11.0"), SQLITE_JDBC.path):
        if not (library / jar.name).exists():
            shutil.copy(jar, library)
    properties = sqlite_properties_for_spark(lake)
    del properties["type"]
    catalog = {"type": "iceberg", "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog", **properties}
    environment = {"FLINK_CATALOG": json.dumps(catalog), "HADOOP_CLASSPATH": f"{hadoop}/*", "PATH": _path_of(python)}
    yield Ready(python=python, environment=environment)


def _path_of(python: Path) -> str:
    return f"{python.parent}{os.pathsep}{os.environ['PATH']}"


TRINO: Final = "476"
TRINO_SETTINGS: Final = {
    "config.properties": "coordinator=true\nnode-scheduler.include-coordinator=true\nhttp-server.http.port={port}\n"
    "http-server.log.enabled=false\n"
    "discovery.uri=http://127.0.0.1:{port}\nquery.max-memory=400MB\nquery.max-memory-per-node=300MB\n"
    "memory.heap-headroom-per-node=200MB\nplugin.dir={plugins}\n",
    "catalog/lake.properties": "connector.name=iceberg\niceberg.catalog.type=TESTING_FILE_METASTORE\n"
    "hive.metastore.catalog.dir=local://{data}/metastore\nfs.native-local.enabled=true\nlocal.location=/\n"
    "fs.hadoop.enabled=true\niceberg.register-table-procedure.enabled=true\n",
}


@contextlib.contextmanager
def _trino(lake: Path) -> Iterator[Ready]:
    archive = file_of_maven(f"io.trino:trino-server:{TRINO}", kind="tar.gz")
    home = FOLDER / f"trino-server-{TRINO}"
    if not home.exists():
        with tarfile.open(archive) as packed:
            packed.extractall(FOLDER, filter="data")
    folder, port = lake / "trino", free_port()
    (folder / "data").mkdir(parents=True)
    (folder / "catalog").mkdir()
    for name, text in TRINO_SETTINGS.items():
        (folder / name).write_text(text.format(data=folder / "data", port=port, plugins=folder / "plugin"))
    (folder / "plugin").mkdir()
    (folder / "plugin" / "iceberg").symlink_to(home / "plugin" / "iceberg")
    java = (str(newest_java()), "-Xmx1g", *BRIEF_JVM, "-Djdk.attach.allowAttachSelf=true")
    opened = ("--add-modules=jdk.incubator.vector", "--sun-misc-unsafe-memory-access=allow")
    node = ("-Dnode.environment=tests", f"-Dnode.data-dir={folder}/data", "-Dnode.bind-ip=127.0.0.1")
    config = (*node, "-Dnode.internal-address=127.0.0.1", f"-Dconfig={folder}/config.properties")
    classes = ("-cp", f"{home}/lib/*", "io.trino.server.TrinoServer")
    with server(folder / "log", *java, *opened, *config, f"-Dcatalog.config-dir={folder}/catalog", *classes):
        yield Ready(python=Path(sys.executable), environment={"TRINO": f"http://{HOST}:{port}"})


OWN_FOLDER: Final = (
    "it looks for data files below the table's own location, and those of an ICDC table are the source's: neither does "
    "it read a source with added files"
)

ENGINES: Final = {
    "spark-4.1": Engine(label="Spark 4.1, Iceberg 1.12.0", reader="spark", ready=_spark(None, "")),
    "spark-4.0": Engine(
        label="Spark 4.0, Iceberg 1.11.0",
        reader="spark",
        ready=_spark("4.0.5", "iceberg-spark-runtime-4.0_2.13:1.11.0"),
    ),
    "spark-3.5": Engine(
        label="Spark 3.5, Iceberg 1.12.0",
        reader="spark",
        ready=_spark("3.5.9", "iceberg-spark-runtime-3.5_2.12:1.12.0"),
    ),
    "iceberg-1.8": Engine(
        label="Spark 3.5, Iceberg 1.8.1",
        reader="spark",
        ready=_spark("3.5.9", "iceberg-spark-runtime-3.5_2.12:1.8.1"),
    ),
    "pyiceberg": Engine(label="PyIceberg", reader="pyiceberg", ready=_pyiceberg),
    "flink": Engine(label="Flink, Iceberg 1.11.0", reader="flink", ready=_flink),
    "trino": Engine(label="Trino", reader="trino", ready=_trino),
    "polars": Engine(label="Polars", reader="polars", ready=_packages("polars==2.1.0", PYICEBERG)),
    "daft": Engine(label="Daft", reader="daft", ready=_packages("daft==0.7.26", PYICEBERG)),
    "datafusion": Engine(
        label="DataFusion",
        reader="datafusion",
        ready=_packages("datafusion==54.1.0", "pyiceberg-core==0.11.0", PYICEBERG),
    ),
    "duckdb": Engine(
        label="DuckDB",
        reader="duckdb",
        ready=_packages("duckdb==1.5.5", "duckdb-extension-avro==1.5.5", "duckdb-extension-iceberg==1.5.5"),
    ),
    "sail": Engine(label="Sail", reader="sail", ready=_packages("pysail==0.7.2", "pyspark-client==4.1.1")),
    "clickhouse": Engine(label="ClickHouse", reader="clickhouse", ready=_packages("chdb==4.4.0"), limit=OWN_FOLDER),
}
