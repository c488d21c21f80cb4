"""S3 over a folder (S3Proxy), and an Iceberg REST catalog over that (Nessie)."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scripts.local_spark import BRIEF_JVM
from scripts.spark_jars import NESSIE, S3PROXY, jar_paths
from tests.kit.java import newest_java
from tests.kit.processes import server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUCKET = "lake"
REGION = "us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where a bucket is, and what opens it."""

    endpoint: str
    folder: Path
    access_key: str = "AKIALAKEOFTESTS"
    secret_key: str = "lake-secret-4711/xyz"  # noqa: S105 - of a server that lives for two minutes

    @property
    def properties(self) -> dict[str, str]:
        """As PyIceberg and Spark's catalogs take them."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "s3.region": REGION,
            "s3.path-style-access": "true",
        }


@contextlib.contextmanager
def s3_server(folder: Path) -> Iterator[Storage]:
    """S3 on a free port of loopback, with one bucket."""
    (jar,) = jar_paths((S3PROXY,))
    objects = folder / "objects"
    (objects / BUCKET).mkdir(parents=True)
    nowhere_yet = Storage(endpoint="http://127.0.0.1:0", folder=objects)
    settings = {
        "s3proxy.endpoint": nowhere_yet.endpoint,
        "s3proxy.authorization": "aws-v2-or-v4",
        # A session token is for whoever hands keys out to check: see keys.py.
        "s3proxy.ignore-unknown-headers": "true",
        "s3proxy.identity": nowhere_yet.access_key,
        "s3proxy.credential": nowhere_yet.secret_key,
        "jclouds.provider": "filesystem",
        "jclouds.filesystem.basedir": str(objects),
        "jclouds.identity": "unused",
        "jclouds.credential": "unused",
    }
    properties = folder / "s3proxy.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    java = (str(newest_java()), "-Xmx256m", *BRIEF_JVM)
    with server(folder / "s3proxy.log", *java, "-jar", str(jar), "--properties", str(properties)) as running:
        port = running.said(r"ServerConnector@.*\{127\.0\.0\.1:(\d+)\}")
        yield Storage(endpoint=f"http://127.0.0.1:{port}", folder=objects)


@contextlib.contextmanager
def nessie_server(folder: Path, storage: Storage, **settings: str) -> Iterator[str]:
    """An Iceberg REST catalog on a free port of loopback, over a bucket; gives its address."""
    (jar,) = jar_paths((NESSIE,))
    s3 = "nessie.catalog.service.s3.default-options"
    wanted = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": "0",
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": "0",
        "quarkus.http.access-log.enabled": "false",
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": BUCKET,
        f"nessie.catalog.warehouses.{BUCKET}.location": f"s3://{BUCKET}/",
        f"{s3}.endpoint": storage.endpoint,
        f"{s3}.path-style-access": "true",
        f"{s3}.region": REGION,
        f"{s3}.access-key": "urn:nessie-secret:quarkus:of-the-server.s3",
        "of-the-server.s3.name": storage.access_key,
        "of-the-server.s3.secret": storage.secret_key,
        **settings,
    }
    java = (str(newest_java()), "-Xmx512m", *BRIEF_JVM, *(f"-D{key}={value}" for key, value in wanted.items()))
    # Its own settings only: what this machine has for AWS must not decide what is tested.
    nothing_else = {"AWS_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true"}
    with server(folder / "nessie.log", *java, "-jar", str(jar), environment={**os.environ, **nothing_else}) as running:
        yield running.said(r"Listening on: (http://127\.0\.0\.1:\d+)\. Management") + "/iceberg"
