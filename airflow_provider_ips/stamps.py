"""For PySpark jobs that append: checks whether an earlier attempt has already inserted the rows of this capture.

Imports neither Airflow nor PyIceberg, so that a Spark cluster can install it without them
(``pip install --no-deps airflow-provider-ips``)::

    from airflow_provider_ips.stamps import is_stamped

    if not is_stamped(spark, "lake.db.target"):
        spark.sql("INSERT INTO lake.db.target SELECT … ")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.advice.target_evidence import STAMP
from airflow_provider_ips.core.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


STAMP_CONF: Final = f"spark.sql.iceberg.snapshot-property.{STAMP}"
"""The Spark conf that stamps every snapshot of the job with the capture's id."""


def is_stamped(spark: SparkSession, target: str, capture_id: str | None = None) -> bool:
    """Whether ``target`` already holds the rows of this capture: whether main's head or an ancestor has its stamp.

    It sees a stamp below the newest commit of a branch that was published by fast-forward. It does not see a stamp of a
    snapshot that has expired, or of a commit below one whose parent was cleared (PyIceberg's ``expire_snapshots`` does
    that), and not what was cherry-picked: Spark's procedures commit a copy without the stamp. A stamp says that *one*
    commit of the job succeeded: a job that writes in several statements sets the conf before the last one.

    :param target: the table, by its name in Spark
    :param capture_id: the XCom ``capture_id``; by default, the value of the Spark conf
    """
    wanted = capture_id or spark.conf.get(STAMP_CONF, None)
    if not wanted:
        raise InputError(
            f"no capture id: Spark's conf {STAMP_CONF} is not set",
            consequence=f"Whether {target} already holds the rows of this capture is unknown",
            remedy=f'pass it to the SparkSubmitOperator: conf={{"{STAMP_CONF}": capture.output["capture_id"]}}',
        )
    main = spark.table(f"{target}.refs").where("name = 'main'").first()  # first: what it names is then listed
    listed = spark.table(f"{target}.snapshots").selectExpr("snapshot_id", "parent_id", f"summary['{STAMP}'] AS stamp")
    commits = {row["snapshot_id"]: row for row in listed.collect()}
    commit = None if main is None else commits.get(main["snapshot_id"])
    while commit is not None and commit["stamp"] != wanted:
        commit = commits.get(commit["parent_id"])
    return commit is not None
