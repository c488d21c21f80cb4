"""Servers of catalogs that ``make env`` and ``make jars`` do not bring: Iceberg's REST adapter, Hive, Glue."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.local_spark import BRIEF_JVM
from tests.kit.packages import jars, python_with
from tests.kit.processes import server
from tests.kit.servers import REGION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.servers import Storage

ICEBERG = "1.11.0"
HIVE = "3.1.3"
MOTO = "5.2.5"
PROGRAMS = Path(__file__).with_name("java_servers")
_AWS = {"AWS_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true"}


@contextlib.contextmanager
def rest_adapter(folder: Path, storage: Storage) -> Iterator[str]:
    """The REST catalog of Iceberg's own tests over a JDBC catalog; gives its address."""
    iceberg = jars(
        "rest-adapter",
        f"org.apache.iceberg:iceberg-core:{ICEBERG}",
        f"org.apache.iceberg:iceberg-core:{ICEBERG}:tests",
        "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.5",
        "org.xerial:sqlite-jdbc:3.51.0.0",
    )
    aws = jars(
        "iceberg-aws", f"org.apache.iceberg:iceberg-aws:{ICEBERG}", f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG}"
    )
    s3 = {key: value for key, value in storage.properties.items() if key != "s3.region"}
    properties = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:sqlite:file:{folder}/catalog.db",
        "jdbc.schema-version": "V1",
        "warehouse": "s3://lake/of-rest",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": REGION,
        **s3,
    }
    settings = [f"{key}={value}" for key, value in properties.items()]
    path = (f"{iceberg}/*", f"{aws}/*")
    with _java(folder, "RestAdapter", path, *settings) as address:
        yield address


@contextlib.contextmanager
def hive_metastore(folder: Path) -> Iterator[str]:
    """Hive's metastore over Derby; gives ``host:port``. Its main() would listen on every interface."""
    hive = jars(
        "hive-metastore",
        f"org.apache.hive:hive-standalone-metastore:{HIVE}",
        "org.apache.hadoop:hadoop-client-api:3.4.2",
        "org.apache.hadoop:hadoop-client-runtime:3.4.2",
        "commons-collections:commons-collections:3.2.2",
        without=("jdk.tools", "org.apache.hadoop"),
    )
    with _java(folder, "Metastore", (f"{hive}/*",), str(folder)) as address:
        yield address


@contextlib.contextmanager
def glue_service(folder: Path) -> Iterator[str]:
    """Glue; gives its address."""
    # -P: the folder of the program has an http.py, which must not stand in for Python's.
    python = python_with("moto", f"moto[server,glue]=={MOTO}")
    program = Path(__file__).with_name("moto_glue.py")
    with server(folder / "moto.log", str(python), "-P", str(program), environment={**os.environ, **_AWS}) as running:
        yield running.said(r"Listening on (http://\S+)")


@contextlib.contextmanager
def _java(folder: Path, program: str, class_path: tuple[str, ...], *arguments: str) -> Iterator[str]:
    """Compile and start one of our programs, and give the address that it says."""
    home = os.environ.get("JAVA_HOME")
    java = (f"{home}/bin/java" if home else "java", "-Xmx384m", *BRIEF_JVM, "-cp", os.pathsep.join(class_path))
    command = (*java, str(PROGRAMS / f"{program}.java"), *arguments)
    with server(folder / f"{program}.log", *command, environment={**os.environ, **_AWS}) as running:
        yield running.said(r"Listening on (\S+)")
