"""Ways to read what is new in a table, each by what it promises and with its options at their defaults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from airflow_provider_ips.iceberg import capture
from benchmarks.compare.java import JavaTable
from benchmarks.compare.lake import CATALOG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from benchmarks.compare.lake import Lake


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What a consumer that has read up to ``after`` is to read."""

    table: str
    after: int
    to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inserts:
    """To be inserted, as they are."""

    rows: DataFrame | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacements:
    """The rows with a key of either are removed, and others come in their place.

    Those of ``source`` with such a key, if it is given, else ``rows``. ``superset`` is how it says that ``rows`` has
    unchanged ones.
    """

    rows: DataFrame | None
    before: DataFrame | None
    source: DataFrame | None = None
    superset: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """A log with ``_change_type`` and ``_change_ordinal``, to be applied in order."""

    log: DataFrame


class Contender(Protocol):
    """One consumer of one table."""

    def catch_up(self, table: str) -> None:
        """Take note of the checkpoint: everything in the table is consumed."""

    def decide(self, wanted: Range) -> None:
        """Do what is done before the job reads."""

    def read(self) -> Inserts | Replacements | Changes:
        """Give the job its rows."""


class Stateless:
    """The checkpoint is a snapshot id in somebody's hands."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def catch_up(self, table: str) -> None:
        """Nothing to do."""


class AppendCapture(Stateless):
    """This package as it comes: a snapshot that changes rows is an error."""

    mode = "ICDC"

    def decide(self, wanted: Range) -> None:
        """Capture."""
        into = f"compared_icdc.{self.lake.unused('append')}"
        self.icdc = capture(self.lake.catalog, wanted.table, since=wanted.after, into=into, mode=self.mode).icdc_table

    def read(self) -> Inserts:
        """As Spark reads it."""
        return Inserts(rows=None if self.icdc is None else self.lake.spark.table(f"{CATALOG}.{self.icdc}"))


class BranchCapture(AppendCapture):
    """The same as a branch of the source."""

    mode = "BRANCH"


class RangeCapture(Stateless):
    """The same as a range that Spark reads by itself, refused where it would read it otherwise."""

    def decide(self, wanted: Range) -> None:
        """Prove the range."""
        self.record = capture(self.lake.catalog, wanted.table, since=wanted.after, mode="RANGE")

    def read(self) -> Inserts:
        """By the options that the record has; nothing where it has none."""
        options = self.record.read_options
        if options is None:
            return Inserts(rows=None)
        reader = self.lake.spark.read.format("iceberg").options(**options)
        return Inserts(rows=reader.load(f"{CATALOG}.{self.record.source}"))


class ChangeCapture(Stateless):
    """This package over all three operations; its user takes the rows of all touched keys from the source.

    Where the record has a predicate, the user applies it.
    """

    on_superset = "allow"
    mode = "ICDC"

    def decide(self, wanted: Range) -> None:
        """Capture."""
        self.record = capture(
            self.lake.catalog,
            wanted.table,
            since=wanted.after,
            into=f"compared_icdc.{self.lake.unused('change')}",
            mode=self.mode,
            data_operations=("append", "overwrite", "delete"),
            on_superset=self.on_superset,
        )

    def read(self) -> Replacements:
        """Both tables, and the source as of the end of the range."""
        reader = self.lake.spark.read.format("iceberg").option("versionAsOf", self.record.to_inclusive.snapshot_id)
        both = self._both()
        if both.rows is not None and self.record.predicate is not None:
            both = replace(both, rows=both.rows.where(self.record.predicate))
        return replace(both, source=reader.load(f"{CATALOG}.{self.record.source}"))

    def _both(self) -> Replacements:
        rows, before = (
            None if name is None else self.lake.spark.table(f"{CATALOG}.{name}")
            for name in (self.record.icdc_table, self.record.before_table)
        )
        return Replacements(
            rows=rows, before=before, superset="the record says `superset`" if self.record.superset else None
        )


class CompleteChangeCapture(ChangeCapture):
    """Likewise, and its user needs nothing but the two tables."""

    on_superset = "complete"

    def read(self) -> Replacements:
        """Both tables."""
        return self._both()


class BranchChangeCapture(CompleteChangeCapture):
    """The same as two branches of the source."""

    mode = "BRANCH"


class IncrementalRead(Stateless):
    """Spark's ``start-snapshot-id`` and ``end-snapshot-id``."""

    def decide(self, wanted: Range) -> None:
        """The range is fixed."""
        self.wanted = wanted

    def read(self) -> Inserts:
        """One DataFrame."""
        options = {"start-snapshot-id": str(self.wanted.after), "end-snapshot-id": str(self.wanted.to)}
        reader = self.lake.spark.read.format("iceberg").options(**options)
        return Inserts(rows=reader.load(f"{CATALOG}.{self.wanted.table}"))


class ChangelogView(Stateless):
    """Iceberg's ``create_changelog_view``."""

    def decide(self, wanted: Range) -> None:
        """Make the view."""
        self.view = self.lake.unused("changes")
        self.lake.spark.sql(
            f"call {CATALOG}.system.create_changelog_view(table => '{wanted.table}', changelog_view => '{self.view}', "
            f"options => map('start-snapshot-id', '{wanted.after}', 'end-snapshot-id', '{wanted.to}'))"
        ).collect()

    def read(self) -> Changes:
        """All of it."""
        return Changes(log=self.lake.spark.table(self.view))


class Streaming:
    """Spark Structured Streaming, run like a batch: ``trigger(availableNow=True)``."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.folder = lake.folder / lake.unused("stream")

    def catch_up(self, table: str) -> None:
        """The first run takes all there is."""
        self.table = table
        self._run("first")

    def decide(self, wanted: Range) -> None:
        """A stream decides when it reads, and ends at the head it finds then."""

    def read(self) -> Inserts:
        """The second run, from its own checkpoint folder."""
        return Inserts(rows=self._run("second"))

    def _run(self, name: str) -> DataFrame:
        stream = self.lake.spark.readStream.format("iceberg").load(f"{CATALOG}.{self.table}")
        sink = self.folder / name
        sink.mkdir(parents=True)
        writer = stream.writeStream.format("parquet").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.folder / "checkpoint")).start(str(sink))
        try:
            query.awaitTermination()
        finally:
            query.stop()
        # By their names, for the folder's log of batches begins in the first run's folder.
        files = [str(path) for path in sorted(sink.rglob("*.parquet"))]
        reader = self.lake.spark.read.schema(stream.schema)
        return reader.parquet(*files) if files else self.lake.spark.createDataFrame([], stream.schema)


class PublishedNetflixCode(Stateless):
    """What Netflix has shown of its capture: append the files that appends added to a new table."""

    def decide(self, wanted: Range) -> None:
        """With Iceberg's Java API, in Spark's own process."""
        self.name = f"compared_netflix.{self.lake.unused('netflix')}"
        source = JavaTable(self.lake.spark, f"{CATALOG}.{wanted.table}")
        source.append_added_files_to(CATALOG, self.name, after=wanted.after, to=wanted.to)

    def read(self) -> Inserts:
        """As Spark reads it."""
        return Inserts(rows=self.lake.spark.table(f"{CATALOG}.{self.name}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A column of the table."""

    title: str
    make: Callable[[Lake], Contender]
    is_ours: bool = False
    writes_to_source: bool = False
    """It holds files of its table, which would then be there for the others, too: it has a table for itself."""


CONTENDERS: Sequence[Entry] = (
    Entry(title="append capture", make=AppendCapture, is_ours=True),
    Entry(title="change capture", make=ChangeCapture, is_ours=True),
    Entry(title="change capture, complete", make=CompleteChangeCapture, is_ours=True),
    Entry(title="branch, appends", make=BranchCapture, is_ours=True, writes_to_source=True),
    Entry(title="branch, changes", make=BranchChangeCapture, is_ours=True, writes_to_source=True),
    Entry(title="range mode", make=RangeCapture, is_ours=True),
    Entry(title="Spark incremental read", make=IncrementalRead),
    Entry(title="`create_changelog_view`", make=ChangelogView),
    Entry(title="Structured Streaming", make=Streaming),
    Entry(title="published Netflix code", make=PublishedNetflixCode),
)
