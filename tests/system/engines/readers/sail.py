"""Sail, by the protocol of Spark Connect: its server within this process, and Spark's client."""

from __future__ import annotations

import logging
import os
from importlib.metadata import version
from typing import Any

from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

from tests.system.engines.protocol import serve, sql

os.environ["RUST_LOG"] = "off"
logging.disable()
SERVER = SparkConnectServer("127.0.0.1", 0)
SERVER.start(background=True)
SPARK = SparkSession.builder.remote("sc://{}:{}".format(*SERVER.listening_address)).getOrCreate()


def answer(question: dict[str, Any]) -> Any:
    """One statement over the newest metadata in the table's folder: it takes no other."""
    reader = SPARK.read.format("iceberg")
    for kind, place in question.get("way", {}).items():
        names = {"branch": ["branch"], "snapshot": ["snapshot-id"], "range": ["start-snapshot-id", "end-snapshot-id"]}
        places = place if isinstance(place, list) else [place]
        reader = reader.options(**{name: str(each) for name, each in zip(names[kind], places, strict=True)})
    reader.load(question["table"]["location"]).createOrReplaceTempView("t")
    return SPARK.sql(sql(question, "t")).collect()


serve(version("pysail"), answer, ways=("branch", "snapshot", "range"))
