"""Run with the environment of a service of the stack: what Airflow makes of it, as one line of JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def options() -> dict[str, str]:
    """Say of every `AIRFLOW__SECTION__OPTION` what it is to Airflow, its providers and us."""
    from airflow.configuration import conf

    described = conf.configuration_description
    kinds = {}
    for variable in filter(lambda name: name.startswith("AIRFLOW__"), os.environ):
        section, _, option = variable.removeprefix("AIRFLOW__").lower().partition("__")
        if (section, option) in conf.inversed_deprecated_options or section in conf.inversed_deprecated_sections:
            kinds[variable] = "deprecated"
        elif option in described.get(section, {}).get("options", {}):
            kinds[variable] = "known"
        else:
            kinds[variable] = "unknown"
    return kinds


def catalogs() -> list[dict[str, Any]]:
    """The lake, through the official hook and through ours."""
    from airflow.providers.apache.iceberg.hooks.iceberg import IcebergHook

    from airflow_provider_ips.hooks.ips import IpsHook

    return [
        {"name": catalog.name, "type": type(catalog).__name__, "properties": catalog.properties}
        for catalog in (IcebergHook("lake").catalog, IpsHook("lake").catalog)
    ]


def spark_submit() -> list[str]:
    """The command of a job, as the official hook would start it."""
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    return SparkSubmitHook(conn_id="spark_default")._build_spark_submit_command("job.py")


if __name__ == "__main__":
    questions = {ask.__name__: ask for ask in (options, catalogs, spark_submit)}
    print(json.dumps(questions[sys.argv[1]]()))
