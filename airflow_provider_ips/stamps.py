"""For PySpark jobs that append: tells whether the attempt before this one has inserted already.

Imports neither Airflow nor PyIceberg, so that a Spark cluster can have it without them
(``pip install --no-deps airflow-provider-ips``)::

    from airflow_provider_ips.stamps import is_stamped

    if not is_stamped(spark, "lake.db.target"):
        spark.sql("INSERT INTO lake.db.target SELECT … ")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.stamps import STAMP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STAMP_CONF: Final = f"spark.sql.iceberg.snapshot-property.{STAMP}"
"""The Spark conf by which every snapshot that the job makes carries the capture's id."""


def is_stamped(spark: SparkSession, target: str, capture_id: str | None = None) -> bool:
    """Tell whether ``target`` holds the rows of this capture already.

    :param target: the table, as the job names it to Spark
    :param capture_id: the XCom ``capture_id``; by default, what the job was given as Spark conf
    """
    wanted = capture_id or spark.conf.get(STAMP_CONF, None)
    if not wanted:
        raise InputError(
            f"no capture id: Spark's conf {STAMP_CONF} is not set",
            consequence=f"Whether {target} holds this capture's rows already cannot be told",
            remedy=f'give it to the SparkSubmitOperator: conf={{"{STAMP_CONF}": capture.output["capture_id"]}}',
        )
    snapshots, history = spark.table(f"{target}.snapshots"), spark.table(f"{target}.history")
    live = history.where("is_current_ancestor").select("snapshot_id")
    stamped = snapshots.where(snapshots["summary"][STAMP] == wanted)
    return not stamped.join(live, "snapshot_id").isEmpty()
