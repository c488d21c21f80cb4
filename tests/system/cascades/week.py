"""A random week of a source table: what arrives late, is corrected, is taken back, and is tidied up."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from random import Random

from pyspark.sql import SparkSession

from scripts.lake import DAYS_ROWS_ARE_LATE

TABLE = "lake.db.playback"
MONDAY = date(2026, 10, 5)
ACCOUNTS, TITLES, ROWS_A_DAY = 40, 25, 200
COLUMNS = (
    *(("event_id", "BIGINT"), ("event_date", "DATE"), ("event_time", "TIMESTAMP"), ("account_id", "INT")),
    *(("title_id", "INT"), ("watched_seconds", "INT"), ("received_at", "TIMESTAMP"), ("device", "STRING")),
)
MODES = ("copy-on-write", "merge-on-read")


@dataclass
class Writer:
    """Writes to the source, one commit at a time, and says what it did."""

    spark: SparkSession
    random: Random
    day: date = MONDAY
    told: list[str] = field(default_factory=list)
    _next_id: int = 0

    def create(self):
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS)
        version = self.random.choice((2, 3))
        self.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
        self.spark.sql(
            f"CREATE TABLE {TABLE} ({columns}) USING iceberg PARTITIONED BY (event_date) "
            f"TBLPROPERTIES ('format-version' = '{version}')"
        )
        self.told.append(f"a table of format v{version}")

    @property
    def changes(self):
        """All that changes rows, in every way that Spark has."""
        return [self.late_rows, self.correct, self.move, self.delete_rows, self.drop_a_day, self.overwrite_a_day]

    def begin_day(self):
        """The rows of the next day, and a few late ones of every day before that may still be delivered."""
        self.day += timedelta(days=1)
        late = [self._row(self.day - timedelta(days=days)) for days in range(1, DAYS_ROWS_ARE_LATE + 1)]
        self._insert("INSERT INTO", [*(self._row(self.day) for _ in range(ROWS_A_DAY)), *late])
        return "the day's rows, some of them late"

    def late_rows(self):
        """More of them, of any day, in the order in which they happened to come."""
        days = [self.day - timedelta(days=self.random.randint(0, DAYS_ROWS_ARE_LATE)) for _ in range(30)]
        self._insert("INSERT INTO", [self._row(day) for day in days])
        return "late rows"

    def correct(self):
        """MERGE: other seconds for some events, another title for others, some gone, some that nobody knew."""
        mode = self._mode("merge")
        rows = self._known(20)
        corrected = [(*row[:5], self.random.randint(1, 7200), *row[6:]) for row in rows[:10]]
        corrected += [(*row[:4], self._title(), *row[5:]) for row in rows[10:]]
        new = [self._row(self.day) for _ in range(5)]
        self._view([*corrected, *new], "corrected")
        names = [name for name, _ in COLUMNS]
        self.spark.sql(
            f"""MERGE INTO {TABLE} AS t USING corrected AS s ON t.event_id = s.event_id
                WHEN MATCHED AND s.event_id % 5 = 0 THEN DELETE
                WHEN MATCHED THEN UPDATE SET {", ".join(f"t.{name} = s.{name}" for name in names)}
                WHEN NOT MATCHED THEN INSERT ({", ".join(names)}) VALUES ({", ".join(f"s.{n}" for n in names)})"""
        )
        return f"a MERGE of corrections, {mode}"

    def move(self):
        """UPDATE: events that were booked on the wrong day, which is another partition."""
        mode = self._mode("update")
        wrong = self.day - timedelta(days=self.random.randint(0, 3))
        self.spark.sql(
            f"UPDATE {TABLE} SET event_date = date_sub(event_date, 1) "
            f"WHERE event_date = DATE '{wrong}' AND account_id % 4 = {self.random.randrange(4)}"
        )
        return f"rows of {wrong} moved a day back, {mode}"

    def delete_rows(self):
        """An account is to be forgotten, on all its days."""
        mode, account = self._mode("delete"), self.random.randint(1, ACCOUNTS)
        self.spark.sql(f"DELETE FROM {TABLE} WHERE account_id = {account}")
        return f"account {account} deleted, {mode}"

    def drop_a_day(self):
        """Whole files go, and no row of theirs is read."""
        day = self.day - timedelta(days=self.random.randint(1, DAYS_ROWS_ARE_LATE))
        self.spark.sql(f"DELETE FROM {TABLE} WHERE event_date = DATE '{day}'")
        return f"{day} dropped"

    def overwrite_a_day(self):
        """A day is delivered again, by dynamic overwrite."""
        day = self.day - timedelta(days=self.random.randint(0, 2))
        self._insert("INSERT OVERWRITE", [self._row(day) for _ in range(ROWS_A_DAY // 2)])
        return f"{day} delivered again"

    def compact(self, table=TABLE):
        """No change: the same rows in other files."""
        self.spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
        )
        return f"{table} compacted"

    def do(self, change, *arguments):
        """One commit, noted for whoever reads a failure."""
        self.told.append(change(*arguments))

    def rows(self):
        return self.spark.table(TABLE).collect()

    def _mode(self, operation):
        mode = self.random.choice(MODES)
        self.spark.sql(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('write.{operation}.mode' = '{mode}')")
        return mode

    def _known(self, count):
        rows = sorted(self.rows(), key=lambda row: row.event_id)
        return [tuple(row) for row in self.random.sample(rows, min(count, len(rows)))]

    def _insert(self, how, rows):
        self._view(rows, "arrived")
        self.spark.sql(f"{how} {TABLE} SELECT * FROM arrived")

    def _view(self, rows, name):
        schema = ", ".join(f"{column} {kind}" for column, kind in COLUMNS)
        self.spark.createDataFrame(rows, schema).coalesce(1).createOrReplaceTempView(name)

    def _row(self, day):
        self._next_id += 1
        moment = datetime.combine(day, time(), UTC) + timedelta(seconds=self.random.randrange(86_400))
        received = datetime.combine(self.day, time(), UTC) + timedelta(days=1)
        account, seconds = self.random.randint(1, ACCOUNTS), self.random.randint(30, 7200)
        return (self._next_id, day, moment, account, self._title(), seconds, received, "tv")

    def _title(self):
        return self.random.randint(1, TITLES)
