"""Spark, of whichever version this Python has."""

from __future__ import annotations

import json
import os

import pyspark
from pyspark.sql import SparkSession

from tests.system.engines.protocol import serve, sql

builder = SparkSession.builder.master("local[1]")
for key, value in json.loads(os.environ["SPARK_SETTINGS"]).items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
session.sparkContext.setLogLevel("OFF")
serve(pyspark.__version__, lambda question: session.sql(sql(question, f"lake.{question['table']['name']}")).collect())
session.stop()
