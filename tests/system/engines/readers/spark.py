"""Spark, of whichever version this Python has."""

from __future__ import annotations

import json
import os

import pyspark
from pyspark.sql import SparkSession

from tests.system.engines.protocol import serve, sql, way

builder = SparkSession.builder.master("local[1]")
for key, value in json.loads(os.environ["SPARK_SETTINGS"]).items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
session.sparkContext.setLogLevel("OFF")


def answer(question: dict) -> list:
    """One statement; in Spark 3.5 over a view for a range, because SQL has no options of a table there."""
    name = f"lake.{question['table']['name']}"
    if "range" in question.get("way", {}) and pyspark.__version__.startswith("3."):
        start, end = map(str, question["way"]["range"])
        reader = session.read.format("iceberg").options(**{"start-snapshot-id": start, "end-snapshot-id": end})
        reader.load(name).createOrReplaceTempView("ranged")
        name = "ranged"
    else:
        options = " WITH (`start-snapshot-id` = '{}', `end-snapshot-id` = '{}')"
        name += way(question, branch=".branch_{}", snapshot=" VERSION AS OF {}", range=options)
    return session.sql(sql(question, name)).collect()


serve(pyspark.__version__, answer, ways=("branch", "snapshot", "range"))
session.stop()
