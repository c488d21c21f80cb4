"""Five ways to bring two targets up to date. The business logic is the same; what it is handed is not."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from airflow_provider_ips.core.advice.target_evidence import STAMP
from airflow_provider_ips.iceberg import capture, drop_icdc
from benchmarks.compare.run import in_short
from benchmarks.pipeline import logic
from benchmarks.pipeline.lake import COPY_ON_WRITE, MERGE_ON_READ, Arrival, Scene, Tables, in_spark
from benchmarks.pipeline.session import CATALOG

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date

    from pyspark.sql import DataFrame

    from airflow_provider_ips.core.results.capture_record import SourceRecord
    from benchmarks.pipeline.session import Session

CHANGES: Final = ("append", "overwrite", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Where a contender stands when the new day has arrived."""

    session: Session
    scene: Scene
    arrival: Arrival
    tables: Tables
    seen_daily: int
    """The snapshot of its own daily table that stage 2 has seen."""


class Contender(Protocol):
    """Two stages, each a job that could run by itself; and what there is to say about them afterwards."""

    def daily(self) -> None:
        """Stage 1."""

    def accounts(self) -> None:
        """Stage 2."""

    def remarks(self) -> dict[str, Any]:
        """Not timed."""


@dataclass(slots=True)
class _Base:
    at: Situation

    def remarks(self) -> dict[str, Any]:
        return {}

    def _merge_daily(self, events: str, since: date) -> None:
        self.at.session.run(logic.merge_daily(in_spark(self.at.tables.daily), self._daily_of(events), since))

    def _first_day(self, table: str) -> date:
        """The oldest partition of a small table."""
        partitions = self.at.session.catalog.load_table(table).inspect.partitions()
        days: list[date] = [partition["event_date"] for partition in partitions["partition"].to_pylist()]
        return min(days)

    def _daily_of(self, events: str) -> str:
        return logic.daily(events, in_spark(self.at.scene.devices))

    def _merge_accounts(self, changed: DataFrame) -> None:
        """Days and accounts of changed daily rows, and what they touch, are wanted several times: found out once.

        A merge computes its source's plan again wherever it stands, whether it was persisted or not: hence checkpoints.
        """
        days, target = in_spark(self.at.tables.daily), in_spark(self.at.tables.accounts)
        spark = changed.sparkSession
        changed.select("event_date", "account_id").distinct().localCheckpoint().createOrReplaceTempView("changed")
        keys = spark.sql(logic.touched(days, "changed")).localCheckpoint()
        keys.createOrReplaceTempView("touched")
        since = keys.selectExpr("min(day)").collect()[0][0]
        spark.sql(logic.merge_accounts(target, days, "touched", since)).collect()


class Lookback(_Base):
    """Read the last days again and overwrite their partitions, in both stages."""

    def daily(self) -> None:
        scene = self.at.scene
        events = f"(SELECT * FROM {in_spark(scene.events)} WHERE event_date >= DATE'{scene.shape.first_day}')"
        self.at.session.run(logic.overwrite(in_spark(self.at.tables.daily), self._daily_of(events)))

    def accounts(self) -> None:
        days, since = in_spark(self.at.tables.daily), self.at.scene.shape.first_day
        rows = logic.windows(days, f"({logic.active(days, since)})", since)
        self.at.session.run(logic.overwrite(in_spark(self.at.tables.accounts), rows))


@dataclass(slots=True)
class Capture(_Base):
    """This package: capture, the job, commit."""

    at: Situation
    records: dict[str, SourceRecord] = field(default_factory=dict)

    def daily(self) -> None:
        record = self._capture(self.at.scene.events, since=self.at.arrival.seen_snapshot)
        (new,) = record.icdc_tables
        # Adding twice would be wrong. The merge's snapshot carries the capture's id, and a retry finds it there.
        stamp = f"{record.source}-{record.to_inclusive.snapshot_id}"
        if not self._holds(stamp):
            self.at.session.spark.conf.set(f"spark.sql.iceberg.snapshot-property.{STAMP}", stamp)
            self._merge_daily(in_spark(new), self._first_day(new))
        self._commit(record)

    def accounts(self) -> None:
        daily = self.at.tables.daily
        record = self._capture(daily, since=self.at.seen_daily, data_operations=CHANGES, on_superset="allow")
        new, before = f"{CATALOG}.{record.icdc_table}", f"{CATALOG}.{record.before_table}"
        # `before` has whole files. Stage 1 takes rows out of them by position deletes only, and these name the rows: to
        # look for rows of `before` whose keys no longer exist would read the keys of the whole daily table once more.
        changed = (
            f"SELECT event_date, account_id FROM {new} UNION ALL SELECT event_date, account_id FROM {before} AS b "
            f"LEFT SEMI JOIN {in_spark(daily)}.position_deletes AS p ON b._file = p.file_path AND b._pos = p.pos"
        )
        self._merge_accounts(self.at.session.spark.sql(changed))
        self._commit(record)

    def remarks(self) -> dict[str, Any]:
        return {
            name: {"files": one.captured.files, "records": one.captured.records, "superset": one.superset}
            for name, one in self.records.items()
        }

    def _capture(self, table: str, **settings: Any) -> SourceRecord:
        into = f"icdc.{table.replace('.', '_')}"
        record = capture(self.at.session.catalog, table, into=into, **settings)
        self.records[table] = record
        return record

    def _holds(self, stamp: str) -> bool:
        target = self.at.session.catalog.load_table(self.at.tables.daily)
        return any(one.summary is not None and one.summary.get(STAMP) == stamp for one in target.snapshots())

    def _commit(self, record: SourceRecord) -> None:
        """Remember how far, and let go of what was made for the way."""
        checkpoint = self.at.session.folder / f"{record.source}.checkpoint.json"
        checkpoint.write_text(json.dumps(record.to_inclusive.to_json()))
        for table in record.icdc_tables:
            drop_icdc(self.at.session.catalog, table)


class Streaming(_Base):
    """Structured Streaming, run like a batch.

    Stage 1's merges are overwrites, and Iceberg's streams read appends only. So stage 2 follows the raw table as well,
    for days and accounts of the rows that arrived: it must know what stage 1 reads, and that stage 1 is done with it.
    """

    def daily(self) -> None:
        self._stream(self.at.scene.events, "daily", self._merge_batch, {})

    def accounts(self) -> None:
        self._stream(self.at.scene.events, "accounts", self._touch_batch, {})

    def remarks(self) -> dict[str, Any]:
        """What a stream of stage 1's target gives."""
        return {
            "stage 1's target as a stream": self._changed_rows({}),
            "and with streaming-skip-overwrite-snapshots": self._changed_rows(
                {"streaming-skip-overwrite-snapshots": "true"}
            ),
        }

    def _merge_batch(self, batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView("batch")
        # Told it: to look for it in the batch would read all of the batch twice.
        since = self.at.scene.shape.first_day
        query = logic.merge_daily(in_spark(self.at.tables.daily), self._daily_of("batch"), since)
        batch.sparkSession.sql(query).collect()

    def _touch_batch(self, batch: DataFrame, _: int) -> None:
        self._merge_accounts(batch)

    def _stream(
        self,
        table: str,
        name: str,
        work: Callable[[DataFrame, int], None],
        options: Mapping[str, str],
        after_ms: int = 0,
    ) -> None:
        since = {"stream-from-timestamp": str((after_ms or self.at.arrival.seen_at_ms) + 1)}
        stream = self.at.session.spark.readStream.format("iceberg").options(**since, **options).load(in_spark(table))
        home = self.at.session.folder / "streams" / self.at.tables.namespace / name
        writer = stream.writeStream.foreachBatch(work).trigger(availableNow=True)
        query = writer.option("checkpointLocation", f"file://{home}").start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def _changed_rows(self, options: Mapping[str, str]) -> str:
        table = self.at.session.catalog.load_table(self.at.tables.daily)
        seen = table.snapshot_by_id(self.at.seen_daily)
        if seen is None:
            raise RuntimeError(f"{self.at.tables.daily} has lost the snapshot that it was made with")
        counts: list[int] = []
        try:
            self._stream(
                self.at.tables.daily,
                f"of-daily-{len(options)}",
                lambda batch, _: counts.append(batch.count()),
                options,
                after_ms=seen.timestamp_ms,
            )
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is what a user would see
            return in_short(failure)
        return f"{sum(counts):,} rows"


class Changelog(_Base):
    """Iceberg's ``create_changelog_view``. It refuses delete files, so that its stage 1 must copy on write."""

    def daily(self) -> None:
        view = self._view(self.at.scene.events, self.at.arrival.seen_snapshot)
        self._merge_daily(f"(SELECT * FROM {view} WHERE _change_type = 'INSERT')", self.at.scene.shape.first_day)

    def accounts(self) -> None:
        view = self._view(self.at.tables.daily, self.at.seen_daily)
        self._merge_accounts(self.at.session.spark.table(view))

    def _view(self, table: str, since: int) -> str:
        view = f"changes_of_{table.replace('.', '_')}"
        self.at.session.run(
            f"CALL {CATALOG}.system.create_changelog_view(table => '{table}', changelog_view => '{view}', "
            f"options => map('start-snapshot-id', '{since}'))"
        )
        return view


class Exact(_Base):
    """The lower bound: somebody has put exactly what changed into plain tables beforehand."""

    def daily(self) -> None:
        self._merge_daily(in_spark(self.at.scene.arrived), self._first_day(self.at.scene.arrived))

    def accounts(self) -> None:
        self._merge_accounts(self.at.session.spark.table(in_spark(self.at.scene.changed)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of the table."""

    name: str
    title: str
    make: Callable[[Situation], Contender]
    layout: Mapping[str, str] = field(default_factory=lambda: MERGE_ON_READ)


CONTENDERS: Final[Sequence[Entry]] = (
    Entry(name="lookback", title="(a) lookback, INSERT OVERWRITE", make=Lookback, layout={}),
    Entry(name="capture", title="(b) this package", make=Capture),
    Entry(name="streaming", title="(c) Structured Streaming", make=Streaming),
    Entry(name="changelog", title="(d) `create_changelog_view`", make=Changelog, layout=COPY_ON_WRITE),
    Entry(name="exact", title="(e) lower bound: handed exactly what changed", make=Exact),
)
BY_NAME: Final = {entry.name: entry for entry in CONTENDERS}
