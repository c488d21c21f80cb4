"""Multi-table join: one row for each play of a title that the account has downloaded.

The new pairs are those of new plays with all downloads, and of old plays with new downloads. "All" and "old" must be as
of the capture: both tables may gain rows before this job reads them, and the next capture includes those. Two
overlapping attempts may both insert.
"""

import argparse

from pyspark.sql import SparkSession

from airflow_provider_ips.stamps import is_stamped

PAIR = "p.event_id AS play_id, d.event_id AS download_id, p.account_id, p.title_id, p.event_time AS played_at"
SAME = "p.account_id = d.account_id AND p.title_id = d.title_id"


def main(arguments: argparse.Namespace) -> None:
    spark, target = SparkSession.builder.getOrCreate(), arguments.target
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target}
            (play_id BIGINT, download_id BIGINT, account_id INT, title_id INT, played_at TIMESTAMP)
            USING iceberg"""
    )
    # If all plays or all downloads are new, the result is the complete join.
    is_everything = not arguments.plays_from or not arguments.downloads_from
    if not is_everything and is_stamped(spark, target):
        print(f"{target} already has this capture: an earlier attempt inserted it")
        return
    all_downloads = as_of(arguments.downloads, arguments.downloads_to)
    old_plays = as_of(arguments.plays, arguments.plays_from)
    spark.sql(
        f"""INSERT {"OVERWRITE" if is_everything else "INTO"} {target}
            SELECT {PAIR} FROM {arguments.new_plays} AS p JOIN {all_downloads} AS d ON {SAME}
            UNION ALL
            SELECT {PAIR} FROM {old_plays} AS p JOIN {arguments.new_downloads} AS d ON {SAME}"""
    )


def as_of(table: str, snapshot: str) -> str:
    """Name a table as of a snapshot or a branch. Spark fails if the snapshot has expired."""
    return f"{table} VERSION AS OF '{snapshot}'" if snapshot else f"(SELECT * FROM {table} LIMIT 0)"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plays", required=True)
    parser.add_argument("--new-plays", required=True)
    parser.add_argument("--plays-from", required=True, help="snapshot after which the new plays came; empty: nothing")
    parser.add_argument("--downloads", required=True)
    parser.add_argument("--new-downloads", required=True)
    parser.add_argument("--downloads-from", required=True, help="likewise")
    parser.add_argument("--downloads-to", required=True, help="the last snapshot of the captured range")
    parser.add_argument("--target", required=True)
    main(parser.parse_args())
