"""Cascade: one level of aggregation; only groups with added, changed or removed rows are recomputed.

Each level is a table like the previous one, with fewer group columns. A group without rows is deleted. A group whose
values are unchanged is not written, so the next level has nothing to do for it. The group columns and event_id are
NOT NULL; seconds may be null.
"""

import argparse

from pyspark.sql import SparkSession

# The group columns, and the aggregates of a group: the first is its number of rows.
LEVELS = {
    "accounts": (
        {"event_date": "DATE", "account_id": "INT", "title_id": "INT"},
        {"events": "count(r.event_id)", "watched_seconds": "sum(r.watched_seconds)"},
    ),
    "titles": (
        {"event_date": "DATE", "title_id": "INT"},
        {
            "accounts": "count(r.account_id)",
            "longest_seconds": "max(r.watched_seconds)",
            "watched_seconds": "sum(r.watched_seconds)",
        },
    ),
    "totals": (
        {"title_id": "INT"},
        {
            "days": "count(r.event_date)",
            "longest_seconds": "max(r.longest_seconds)",
            "watched_seconds": "sum(r.watched_seconds)",
        },
    ),
}


def main(level: str, source: str, changes: str, before: str, target: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    keys, facts = LEVELS[level]
    rows, *_ = facts
    columns = ", ".join([*(f"{name} {kind}" for name, kind in keys.items()), *(f"{name} BIGINT" for name in facts)])
    by_day = "PARTITIONED BY (event_date)" if "event_date" in keys else ""
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target} ({columns})
            USING iceberg {by_day} TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"""
    )
    spark.sql(
        f"""MERGE INTO {target} AS t
            USING (SELECT {", ".join(f"k.{name}" for name in keys)},
                          {", ".join(f"{expression} AS {name}" for name, expression in facts.items())}
                   FROM (SELECT {", ".join(keys)} FROM {changes} UNION SELECT {", ".join(keys)} FROM {before}) AS k
                   LEFT JOIN {source} AS r ON {" AND ".join(f"r.{name} = k.{name}" for name in keys)}
                   GROUP BY {", ".join(f"k.{name}" for name in keys)}) AS s
            ON {" AND ".join(f"t.{name} = s.{name}" for name in keys)}
            WHEN MATCHED AND s.{rows} = 0 THEN DELETE
            WHEN MATCHED AND NOT ({" AND ".join(f"t.{name} <=> s.{name}" for name in facts)}) THEN UPDATE SET *
            WHEN NOT MATCHED AND s.{rows} > 0 THEN INSERT *"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--level", required=True, choices=LEVELS)
    parser.add_argument("--source", required=True)
    parser.add_argument("--changes", required=True)
    parser.add_argument("--before", required=True)
    parser.add_argument("--target", required=True)
    main(**vars(parser.parse_args()))
