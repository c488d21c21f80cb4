"""Spark in a process of its own, and how to ask it: the other side of ``sql_server``."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from scripts.local_spark import BRIEF_JVM, session_settings
from scripts.spark_jars import JARS, S3_FOR_SPARK
from tests.kit.processes import stop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SECONDS_FOR_AN_ANSWER = 300


class Spark:
    """One Spark for all catalogs. Starting it returns at once; the first question waits until it is up."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        self._answers: SimpleQueue[bytes] = SimpleQueue()
        self._greeted = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement and give its rows as sorted tuples."""
        if not self._greeted:
            self._receive()
            self._greeted = True
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(statement).encode() + b"\n")
        self._process.stdin.flush()
        return sorted((tuple(row) for row in self._receive()), key=repr)

    def _receive(self) -> list[list[Any]]:
        try:
            answer = json.loads(self._answers.get(timeout=SECONDS_FOR_AN_ANSWER))
        except Empty:
            raise TimeoutError(f"Spark did not answer:\n{self._log.read_text()[-4000:]}") from None
        if "error" in answer:
            raise RuntimeError(answer["error"])
        rows: list[list[Any]] = answer["rows"]
        return rows


@contextlib.contextmanager
def spark(
    folder: Path,
    catalogs: Mapping[str, Mapping[str, str]],
    *,
    python: Path | str = sys.executable,
    more: Mapping[str, str] = MappingProxyType({}),
    **environment: str,
) -> Iterator[Spark]:
    """Start Spark with these catalogs, each by its name.

    :param python: which has pyspark
    :param more: more of Spark's settings; what it lists as ``spark.jars`` is added
    """
    settings = {
        **session_settings(catalogs, jars=(*JARS, S3_FOR_SPARK)),
        "spark.driver.memory": "768m",
        "spark.driver.extraJavaOptions": " ".join(BRIEF_JVM),
        "spark.sql.shuffle.partitions": "1",
    }
    jars = [each["spark.jars"] for each in (settings, more) if "spark.jars" in each]
    settings = {**settings, **more, "spark.jars": ",".join(jars)}
    log = folder / "spark.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(python), "-m", "tests.kit.sql_server", json.dumps(settings)],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield Spark(process, log)
    finally:
        stop(process)
