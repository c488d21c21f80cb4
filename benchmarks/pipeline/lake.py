"""The lake of one shape: the raw table with what has just arrived, and every contender's targets as of the day before.

The raw files are shared: the lake has hard links to them, and the table's metadata is its own.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from benchmarks.pipeline import logic
from benchmarks.pipeline.generator import daily_folders
from benchmarks.pipeline.session import CATALOG
from benchmarks.pipeline.shape import SPLIT_BYTES, day

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame

    from benchmarks.pipeline.session import Session
    from benchmarks.pipeline.shape import Shape

MERGE_ON_READ: Final = {
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
    "write.delete.granularity": "file",
}
COPY_ON_WRITE: Final = {
    "write.merge.mode": "copy-on-write",
    "write.update.mode": "copy-on-write",
    "write.delete.mode": "copy-on-write",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """One contender's targets, as PyIceberg names them."""

    namespace: str

    @property
    def daily(self) -> str:
        """Stage 1's."""
        return f"{self.namespace}.playback_daily"

    @property
    def accounts(self) -> str:
        """Stage 2's."""
        return f"{self.namespace}.playback_daily_agg"

    @property
    def both(self) -> tuple[str, str]:
        """In the order in which they are made."""
        return self.daily, self.accounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The tables that a contender works with. A lake has two of them: the one that counts, and a small one before."""

    shape: Shape
    prefix: str = ""

    @property
    def raw(self) -> str:
        """The namespace of what stage 1 reads."""
        return f"{self.prefix}raw"

    @property
    def events(self) -> str:
        """What players send."""
        return f"{self.raw}.events"

    @property
    def devices(self) -> str:
        """What they play on."""
        return f"{self.raw}.devices"

    @property
    def arrived(self) -> str:
        """Events that have just arrived, and no others."""
        return f"{self.raw}.arrived"

    @property
    def changed(self) -> str:
        """Daily rows that are not what they were, and no others."""
        return f"{self.raw}.changed"

    def tables(self, turn: str) -> Tables:
        """The targets of a contender in one of its turns."""
        return Tables(namespace=f"{self.prefix}{turn}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What the consumers of the raw table know of it."""

    seen_snapshot: int
    seen_at_ms: int
    """When the last snapshot that they have seen was committed."""

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` gave."""
        return cls(**raw)

    def to_json(self) -> dict[str, int]:
        """For the processes of the contenders."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a stage has added to its target: rows, and the places of rows that it took out."""

    size_bytes: int
    rows: int


def turn_of(contender: str, number: int) -> str:
    """Name one of several times that a contender runs, each on targets of its own."""
    return contender if number == 1 else f"{contender}_{number}"


def contender_of(turn: str) -> str:
    """Tell whose turn it is."""
    return turn.partition("_")[0]


def in_spark(table: str) -> str:
    """Spark's name of a table."""
    return f"{CATALOG}.{table}"


def make_raw(session: Session, scene: Scene, cache: Path) -> Arrival:
    """The days before in one snapshot, and in a second one the new day with the late rows of the others."""
    shape, home = scene.shape, cache / scene.shape.base_name
    session.run(
        f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{scene.raw}",
        f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.icdc",
        f"CREATE TABLE {in_spark(scene.devices)} USING iceberg AS SELECT * FROM parquet.`{home}/devices`",
        f"CREATE TABLE {in_spark(scene.events)} (account_id BIGINT, title_id INT, device_id INT, event_at BIGINT, "
        "payload STRING, event_date DATE) USING iceberg PARTITIONED BY (event_date) "
        # A stream does not adapt its splits to the cores, as a batch does, and would parse a day in one task.
        f"TBLPROPERTIES ('read.split.target-size' = '{SPLIT_BYTES}')",
    )
    ages = range(1, shape.days + 1)
    raw = _Registered(session=session, table=scene.events, partition="event_date")
    raw.add(session.folder / scene.raw / "before", {age: home / "events" / f"age={age}" for age in ages})
    seen = session.catalog.load_table(scene.events).current_snapshot()
    if seen is None:
        raise RuntimeError("no event was generated for the days before")
    arriving = {0: home / "events" / "age=0"}
    if shape.late_views:
        arriving |= {age: home / f"late-{shape.late_views}" / f"age={age}" for age in ages}
    raw.add(session.folder / scene.raw / "arriving", arriving)
    return Arrival(seen_snapshot=seen.snapshot_id, seen_at_ms=seen.timestamp_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registered:
    """A table by days, whose files others have, too."""

    session: Session
    table: str
    partition: str

    def add(self, home: Path, folders: Mapping[int, Path]) -> None:
        """One snapshot that adds the files as they are."""
        for age, folder in folders.items():
            partition = home / f"{self.partition}={day(age)}"
            partition.mkdir(parents=True)
            for file in folder.glob("*.parquet"):
                os.link(file, partition / file.name)
        self.session.run(
            f"CALL {CATALOG}.system.add_files(table => '{self.table}', source_table => '`parquet`.`{home}`', "
            "check_duplicate_files => false)"
        )


def make_targets(session: Session, scene: Scene, cache: Path, layouts: Mapping[str, Mapping[str, str]]) -> None:
    """The same files for each; a layout says how merges write."""
    shape, home = scene.shape, session.folder / f"{scene.prefix}targets"
    daily = daily_folders(shape, cache)
    accounts: dict[int, Path] = {}
    for turn, properties in layouts.items():
        tables = scene.tables(turn)
        session.run(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{tables.namespace}")
        first = session.spark.read.parquet(str(daily[1]))
        _create(session, tables.daily, first, "event_date", properties).add(home / turn / "daily", daily)
        days = in_spark(tables.daily)
        windows = session.spark.sql(logic.windows(days, f"({logic.active(days, shape.first_day)})", shape.first_day))
        if not accounts:
            accounts = _by_day(windows, home / "accounts", shape)
        _create(session, tables.accounts, windows, "day", properties).add(home / turn / "accounts", accounts)


def _create(
    session: Session, table: str, like: DataFrame, partition: str, properties: Mapping[str, str]
) -> _Registered:
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in like.schema)
    stated = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    options = f"TBLPROPERTIES ({stated})" if stated else ""
    session.run(f"CREATE TABLE {in_spark(table)} ({columns}) USING iceberg PARTITIONED BY ({partition}) {options}")
    return _Registered(session=session, table=table, partition=partition)


def _by_day(windows: DataFrame, folder: Path, shape: Shape) -> dict[int, Path]:
    """One file a day."""
    ordered = windows.repartition("day").sortWithinPartitions("day", "account_id")
    ordered.write.partitionBy("day").option("compression", "zstd").parquet(str(folder))
    return {age: folder / f"day={day(age)}" for age in range(1, shape.days + 1)}


def make_exact(session: Session, scene: Scene, arrival: Arrival) -> None:
    """Plain tables of exactly what changed: the rows that arrived, and the daily rows that are not what they were.

    Both are copies, made when somebody has already found out; no contender could have them.
    """
    truth, before = scene.tables("lookback"), scene.tables("exact")
    events, since = in_spark(scene.events), f"WHERE event_date >= DATE'{scene.shape.first_day}'"
    columns = "account_id, title_id, device_id, event_at, payload, event_date"
    reader = session.spark.read.option("start-snapshot-id", str(arrival.seen_snapshot)).format("iceberg")
    reader.load(events).selectExpr(*columns.split(", ")).createOrReplaceTempView("arrived")
    # In pieces like those of the raw files: a day in one of them would be parsed by one core, and be no bound.
    options = (
        f"TBLPROPERTIES ('write.distribution-mode' = 'none', 'read.split.target-size' = '{SPLIT_BYTES}', "
        f"'write.parquet.row-group-size-bytes' = '{SPLIT_BYTES}', 'write.spark.fanout.enabled' = 'true')"
    )
    session.run(
        f"CREATE TABLE {in_spark(scene.arrived)} USING iceberg PARTITIONED BY (event_date) {options} "
        "AS SELECT * FROM arrived",
        f"CREATE TABLE {in_spark(scene.changed)} USING iceberg PARTITIONED BY (event_date) AS "
        f"SELECT * FROM {in_spark(truth.daily)} {since} EXCEPT SELECT * FROM {in_spark(before.daily)} {since}",
    )


def written(session: Session, table: str, since: int) -> Written:
    """What the snapshots after one have added. Spark's tasks do not report what a merge on read writes."""
    snapshots = session.catalog.load_table(table).snapshots()
    after = [one.snapshot_id for one in snapshots].index(since) + 1
    summaries = [one.summary for one in snapshots[after:] if one.summary is not None]

    def total(*keys: str) -> int:
        return sum(int(summary.get(key) or 0) for summary in summaries for key in keys)

    return Written(size_bytes=total("added-files-size"), rows=total("added-records", "added-position-deletes"))


def remove(folder: Path) -> None:
    """A lake is made for one round."""
    shutil.rmtree(folder, ignore_errors=True)
