"""Spark in a process of its own: reads statements as lines of JSON and answers each with a line of rows.

Not in the test runner's process: a worker may have a Spark session of other tests already, with other jars.
"""

import json
import sys
from datetime import date, datetime

from scripts.local_spark import start_spark


def main():
    spark = start_spark(json.loads(sys.argv[1]), log_level="ERROR")
    _answer({"rows": []})
    for line in sys.stdin:
        _answer(_run(spark, json.loads(line)))
    spark.stop()


def _run(spark, statement):
    try:
        return {"rows": [[_plain(value) for value in row] for row in spark.sql(statement).collect()]}
    except Exception as error:  # noqa: BLE001 - the asking side decides what an error means
        causes = [line for line in str(error).splitlines() if not line.lstrip().startswith("at ")]
        return {"error": "\n".join(causes)[:4000]}


def _plain(value):
    return value.isoformat() if isinstance(value, date | datetime) else value


def _answer(answer):
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
