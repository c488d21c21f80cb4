"""A table that is written step by step, by Spark or PyIceberg, while the ledger takes down what each step means."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.compare.java import JavaTable
from benchmarks.compare.lake import CATALOG
from benchmarks.compare.ledger import COLUMNS, Ledger, as_row, bag

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.compare.lake import Lake
    from benchmarks.compare.ledger import Row

TYPES = {"id": "bigint", "value": "string", "note": "string", "day": "string"}
ARROW = pa.schema([pa.field("id", pa.int64()), *(pa.field(name, pa.string()) for name in COLUMNS[1:])])
OLD_DAY, DAY, NEXT_DAY = "2026-10-01", "2026-11-01", "2026-11-02"


class Story:
    """One table and its ledger. ``on_checkpoint`` is told when the consumers have caught up."""

    def __init__(self, lake: Lake, name: str, *, seed: str, on_checkpoint: Callable[[Story], None]) -> None:
        self.lake = lake
        self.name = name
        self.table = f"{CATALOG}.{name}"
        self.ledger = Ledger()
        self.random = Random(seed)  # noqa: S311 - nothing here is a secret
        self.checkpoint_id = 0
        self._on_checkpoint = on_checkpoint
        self._next_id = 1
        self._version = 1

    def create(self, *, partitioned: str = "day", format_version: int = 2, **properties: str) -> None:
        """An empty table; ``write_merge_mode="merge-on-read"`` sets ``write.merge.mode``."""
        wanted = {"format-version": str(format_version)}
        wanted |= {key.replace("_", "."): value for key, value in properties.items()}
        columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
        pairs = ", ".join(f"'{key}'='{value}'" for key, value in wanted.items())
        by = f"partitioned by ({partitioned})" if partitioned else ""
        self.lake.spark.sql(f"create table {self.table} ({columns}) using iceberg {by} tblproperties ({pairs})")

    def checkpoint(self) -> None:
        """Everything up to here has been consumed."""
        self.checkpoint_id = self.head
        self._on_checkpoint(self)

    @property
    def head(self) -> int:
        """The newest snapshot."""
        return self.lake.head(self.name)

    def new_rows(self, how_many: int, day: str = DAY) -> list[dict[str, object]]:
        """Rows with ids and values of their own."""
        first, self._next_id = self._next_id, self._next_id + how_many
        return [
            {"id": number, "value": f"value {number}", "note": f"note {number}", "day": day}
            for number in range(first, first + how_many)
        ]

    def changed(self, ids: Iterable[int]) -> list[dict[str, object]]:
        """Rows of the table with a value that nothing had before."""
        self._version += 1
        return [{**self.ledger.now.rows[number], "value": f"value {number}.{self._version}"} for number in ids]

    def some(self, how_many: int) -> list[int]:
        """Ids of the table, by the seed."""
        return sorted(self.random.sample(sorted(self.ledger.now.rows), how_many))

    def sql(self, statement: str) -> None:
        """Run a statement, in which ``{t}`` is the table, and note the state under the snapshot that it made."""
        self.lake.spark.sql(statement.replace("{t}", self.table)).collect()
        self.ledger.committed(self.head)

    def call(self, procedure: str, arguments: str = "") -> None:
        """Run one of Iceberg's procedures on the table."""
        self.sql(f"call {CATALOG}.system.{procedure}(table => '{self.name}'{arguments and ', '}{arguments})")

    def insert(self, how_many: int | None = None, day: str = DAY) -> list[int]:
        """Append one file per partition with Spark; how many rows, the seed says."""
        rows = self.new_rows(how_many or self.random.randint(3, 5), day)
        self.ledger.append(rows)
        self.sql(f"insert into {{t}} ({', '.join(COLUMNS)}) select /*+ coalesce(1) */ * from {values(rows)}")
        return ids_of(rows)

    def overwrite_partition(self, day: str) -> None:
        """INSERT OVERWRITE, dynamic: an append, unless the partition has rows."""
        rows = self.new_rows(3, day)
        gone = [number for number, row in self.ledger.now.rows.items() if row["day"] == day]
        self.ledger.remove(gone)
        self.ledger.put(rows) if gone else self.ledger.append(rows)
        conf = self.lake.spark.conf
        conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
        self.sql(f"insert overwrite {{t}} select /*+ coalesce(1) */ * from {values(rows)}")
        conf.unset("spark.sql.sources.partitionOverwriteMode")

    def merge(self, changed: Iterable[int], inserted: int) -> None:
        """MERGE: some rows get a new value, others are new."""
        rows = [*self.changed(changed), *self.new_rows(inserted)]
        self.ledger.put(rows)
        self.sql(
            f"merge into {{t}} t using (select /*+ coalesce(1) */ * from {values(rows)}) s on t.id = s.id "
            "when matched then update set * when not matched then insert *"
        )

    def update(self, ids: Iterable[int]) -> None:
        """UPDATE, one new value per row."""
        rows = self.changed(ids)
        self.ledger.put(rows)
        cases = " ".join(f"when {row['id']} then '{row['value']}'" for row in rows)
        self.sql(f"update {{t}} set value = case id {cases} end where id in ({listed(ids_of(rows))})")

    def move(self, ids: Sequence[int], day: str) -> None:
        """UPDATE of the column that the table is partitioned by."""
        self.ledger.put([{**self.ledger.now.rows[number], "day": day} for number in ids])
        self.sql(f"update {{t}} set day = '{day}' where id in ({listed(ids)})")

    def delete_by_equality(self, ids: Iterable[int]) -> None:
        """As streaming writers delete, through Iceberg's Java API: whatever has these values is gone."""
        rows = [self.ledger.now.rows[number] for number in ids]
        self.ledger.remove(ids_of(rows))
        java = JavaTable(self.lake.spark, self.table)
        java.delete_by_equality("value", [str(row["value"]) for row in rows])
        self.ledger.committed(self.head)

    def delete(self, ids: Iterable[int]) -> None:
        """DELETE by id."""
        gone = list(ids)
        self.ledger.remove(gone)
        self.sql(f"delete from {{t}} where id in ({listed(gone)})")

    def by_pyiceberg(self, rows: Iterable[dict[str, object]], *, how: str, replaced: Sequence[int] = ()) -> None:
        """``append``, ``overwrite`` or ``upsert`` with PyIceberg; the latter two commit a delete and an append."""
        written = list(rows)
        table, arrow = self.lake.catalog.load_table(self.name), pa.Table.from_pylist(written, schema=ARROW)
        if how == "overwrite":
            self.ledger.remove(replaced)
            table.overwrite(arrow, overwrite_filter=f"id in ({listed(replaced)})")
        elif how == "upsert":
            table.upsert(arrow, join_cols=["id"])
        else:
            table.append(arrow)
        self.ledger.append(written) if how == "append" else self._put_and_log(written)
        self.ledger.committed(self.head)

    def _put_and_log(self, rows: Iterable[dict[str, object]]) -> None:
        """The second of PyIceberg's two commits is an append like any other, though its rows need not be new."""
        self.ledger.put(rows)
        self.ledger.log(rows)

    def add_files(self, rows: Iterable[dict[str, object]], order: Sequence[str]) -> None:
        """Register a Parquet file that knows no field ids, with its columns in an order of its own."""
        written = list(rows)
        path = self.lake.folder / f"{self.lake.unused('foreign')}.parquet"
        file = pa.Table.from_pylist(written, schema=ARROW).select(list(order))
        pq.write_table(file, path)  # type: ignore[no-untyped-call]
        self.lake.catalog.load_table(self.name).add_files([str(path)])
        self.ledger.append(written)
        self.ledger.committed(self.head)

    def compact(self) -> None:
        """Rewrite every file; no row changes."""
        self.call("rewrite_data_files", "options => map('rewrite-all', 'true')")

    def expire(self) -> None:
        """Keep the head alone, and delete the files that only older snapshots had."""
        self.call("expire_snapshots", "older_than => timestamp'2999-01-01 00:00:00', retain_last => 1")

    def roll_back(self, snapshot_id: int) -> None:
        """What came after the snapshot never happened."""
        self.ledger.roll_back(snapshot_id)
        self.call("rollback_to_snapshot", f"snapshot_id => {snapshot_id}")

    def recreate(self) -> None:
        """Drop the table and make another of its name."""
        self.lake.spark.sql(f"drop table {self.table}")
        self.ledger.remove(list(self.ledger.now.rows))
        self.ledger.now.appended.clear()
        self.create()

    def replace_column(self, name: str) -> None:
        """Drop a column and add one of the same name: what stood in the old one is gone."""
        self.ledger.clear_column(name)
        self.sql(f"alter table {{t}} drop column {name}")
        self.sql(f"alter table {{t}} add column {name} {TYPES[name]} after value")

    def check_ledger(self) -> None:
        """An oracle that does not describe the table would judge everyone by a mistake."""
        there = self.read()
        written = bag(self.ledger.now.rows.values())
        if there != written:
            raise RuntimeError(f"{self.name} is not what its ledger says: {there - written} and {written - there}")

    def read(self) -> Counter[Row]:
        """The table as Spark reads it now."""
        return bag(row.asDict() for row in self.lake.spark.table(self.table).collect())


def values(rows: Iterable[dict[str, object]]) -> str:
    """Rows as a table of literals."""
    literals = ", ".join("(" + ", ".join(literal(value) for value in as_row(row)) + ")" for row in rows)
    return f"(values {literals} as literals({', '.join(COLUMNS)}))"


def literal(value: object) -> str:
    """A bigint or a string."""
    return f"{value}L" if isinstance(value, int) else f"'{value}'"


def listed(ids: Iterable[int]) -> str:
    """For an IN list."""
    return ", ".join(str(number) for number in ids)


def ids_of(rows: Iterable[dict[str, Any]]) -> list[int]:
    """Their ids."""
    return [row["id"] for row in rows]
