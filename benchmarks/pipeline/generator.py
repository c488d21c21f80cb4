"""The raw events, as Parquet files that the lakes of several shapes share.

Every value is a hash of where it stands, so that the rows are the same in any order and on any machine.
"""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.pipeline import logic
from benchmarks.pipeline.shape import EVENTS_PER_VIEW, SPLIT_BYTES, day

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from benchmarks.pipeline.shape import Shape

DEVICES: Final = 5_000
TITLES: Final = 3_000
SEGMENTS: Final = 20


def generate(spark: SparkSession, shape: Shape, cache: Path) -> None:
    """Make what is not there yet: devices, each day and its daily rows, older ones, the new day, and its late rows."""
    home, days = cache / shape.base_name, range(1, shape.days + 1)
    _once(home / "devices", partial(_write, spark, _devices(shape.seed)))
    for age in (0, *days):
        _once(home / "events" / f"age={age}", partial(_events, spark, shape, age, late=False))
    for age in days if shape.late_views else ():
        _once(home / f"late-{shape.late_views}" / f"age={age}", partial(_events, spark, shape, age, late=True))
    for age in days:
        _once(home / "daily" / f"age={age}", partial(_daily, spark, home, age))
    for age, folder in daily_folders(shape, cache).items():
        _once(folder, partial(_older, spark, home, age, shape.days))


def _once(path: Path, make: Callable[[Path], None]) -> None:
    """Under another name until it is whole."""
    if path.exists():
        return
    unfinished = path.with_name(f".{path.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    make(unfinished)
    unfinished.rename(path)


def daily_folders(shape: Shape, cache: Path) -> dict[int, Path]:
    """Where the daily rows are, by age."""
    home = cache / shape.base_name
    recent = {age: home / "daily" / f"age={age}" for age in range(1, shape.days + 1)}
    older = range(shape.days + 1, shape.daily_days + 1)
    return recent | {age: home / f"older-than-{shape.days}" / f"age={age}" for age in older}


def _write(spark: SparkSession, query: str, path: Path) -> None:
    spark.sql(query).coalesce(1).write.option("compression", "zstd").parquet(str(path))


def _daily(spark: SparkSession, home: Path, age: int, path: Path) -> None:
    events = f"(SELECT DATE'{day(age)}' AS event_date, * FROM parquet.`{home}/events/age={age}`)"
    _write(spark, logic.daily(events, f"parquet.`{home}/devices`"), path)


def _older(spark: SparkSession, home: Path, age: int, days: int, path: Path) -> None:
    """Daily rows of a day whose events nobody reads any more: those of a later day, as if it had been then."""
    back = (age - 1) // days * days
    shifted = {
        "event_date": f"date_sub(event_date, {back})",
        **{at: f"{at} - {back} * 86400L" for at in ("first_at", "last_at")},
    }
    columns = ", ".join(f"{shifted.get(name, name)} AS {name}" for name in (*logic.DAILY_KEY, *logic.MERGED))
    _write(spark, f"SELECT {columns} FROM parquet.`{home}/daily/age={age - back}`", path)


def _devices(seed: int) -> str:
    return f"""
    SELECT CAST(id AS INT) AS device_id, element_at(array('tv', 'tv', 'phone', 'tablet', 'web', 'console'),
             CAST(1 + pmod(xxhash64(id, {seed}), 6) AS INT)) AS family,
           concat('model-', pmod(xxhash64(id, {seed}, 'm'), 400)) AS model,
           concat(pmod(xxhash64(id, {seed}, 'o'), 20), '.', pmod(id, 10)) AS os
    FROM range({DEVICES})"""


def _events(spark: SparkSession, shape: Shape, age: int, path: Path, *, late: bool) -> None:
    """All events of one day, or the late ones of one, in the order of views."""
    query = _rows(shape, age, late=late)
    spark.range(0, shape.late_views if late else shape.views, 1, 1 if late else 2).createOrReplaceTempView("numbers")
    pieces = {"compression": "zstd", "parquet.block.size": str(SPLIT_BYTES)}
    spark.sql(query).write.options(**pieces).parquet(str(path))


def _rows(shape: Shape, age: int, *, late: bool) -> str:
    """Half of the late views are of a key that the day has already, the others of keys of their own."""
    salt = f"{shape.seed}, {age}, '{'late' if late else 'base'}'"
    old_key = f"pmod(xxhash64(id, {salt}, 'k'), {shape.views})"
    key = f"CASE WHEN id % 2 = 0 THEN {old_key} ELSE id + {shape.views} END" if late else "id"
    fewest, most = EVENTS_PER_VIEW
    return f"""
    WITH views AS (
      SELECT id, {key} AS key, xxhash64(id, {salt}) AS h, {_share("id", salt)} AS start FROM numbers
    ), keyed AS (
      SELECT *, CAST({shape.accounts} * pow({_share("key", f"{shape.seed}, {age}, 'a'")}, 1.5) AS BIGINT) AS account_id,
             CAST({TITLES} * pow({_share("key", f"{shape.seed}, {age}, 't'")}, 3) AS INT) AS title_id,
             concat(lower(hex(h)), '-', id) AS view_id
      FROM views
    ), played AS (
      SELECT *, explode(sequence(0, {fewest - 1} + CAST(pmod(h, {most - fewest + 1}) AS INT))) AS seq FROM keyed
    ), hashed AS (
      SELECT *, xxhash64(h, seq) AS e FROM played
    )
    SELECT account_id, title_id, CAST(pmod(account_id * 7 + pmod(h, 3), {DEVICES}) AS INT) AS device_id,
           unix_date(DATE'{day(age)}') * 86400L + CAST(start * 70000 AS BIGINT) + seq * 60
             + CASE WHEN seq >= 5 AND pmod(h, 4) = 0 THEN 2700 ELSE 0 END
             + CASE WHEN seq >= 9 AND pmod(h, 8) = 0 THEN 4000 ELSE 0 END AS event_at,
           {_payload()} AS payload
    FROM hashed"""


def _share(column: str, salt: str) -> str:
    """Evenly from 0 to less than 1."""
    return f"(pmod(xxhash64({column}, {salt}, 's'), 1000003) / 1000003D)"


def _payload() -> str:
    """Wide, as players send it: most of it nobody needs here, and all of it has to be read past."""
    return f"""to_json(named_struct(
      'view_id', view_id, 'seq', seq,
      'kind', element_at(array('heartbeat', 'pause', 'seek'), CAST(1 + pmod(e, 3) AS INT)),
      'client', named_struct('app', concat('8.', pmod(h, 60), '.2'), 'os', concat('tvos 17.', pmod(h, 9)),
        'locale', element_at(array('de-DE', 'en-US', 'pt-BR', 'ja-JP'), CAST(1 + pmod(h, 4) AS INT)),
        'agent', concat('Player/', pmod(h, 60), ' (living room; ', hex(pmod(h, 65536)),
                        ') Engine/605.1.15 like Gecko')),
      'network', named_struct('type', CASE WHEN pmod(h, 3) = 0 THEN 'wifi' ELSE 'cable' END,
        'rtt_ms', CAST(8 + pmod(e, 190) AS INT), 'kbps', CAST(3000 + pmod(e, 30000) AS INT)),
      'buffer', named_struct('ms', CAST(pmod(e, 30000) AS INT), 'underruns', CAST(pmod(e, 40) DIV 39 AS INT)),
      'segments', transform(sequence(1, {SEGMENTS}), i -> named_struct(
        'kbps', CAST(800 + 350 * pmod(shiftright(e, i), 40) AS INT),
        'ms', CAST(2000 + pmod(shiftright(e, i + 5), 4000) AS INT),
        'dropped', CAST(pmod(shiftright(e, i), 50) DIV 48 AS INT),
        'codec', CASE WHEN pmod(h, 3) = 0 THEN 'av1' ELSE 'hevc' END)),
      'experiments', transform(sequence(1, 6), i -> concat('exp-', pmod(shiftright(h, i), 900), ':b')),
      'trace', concat(lower(hex(e)), lower(hex(h)))))"""
