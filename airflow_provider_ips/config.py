"""Every option of the section `[ips]` in Airflow's configuration, described once, and read by ``read()``.

Every Airflow command imports this module for the provider info, so Airflow's configuration is imported when an option
is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

SECTION: Final = "ips"
STORES: Final = ("variable", "iceberg")
"""The names of the stores that keep checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option, as Airflow's command `airflow config` and its documentation describe it."""

    name: str
    type: Literal["string", "integer"] = "string"
    default: str
    example: str
    description: str
    version_added: str = "0.1.0"

    def read(self) -> str:
        """Read the value as text."""
        from airflow.sdk.configuration import conf

        return str(conf.get(SECTION, self.name, fallback=self.default))


CHECKPOINT_STORE: Final = Option(
    name="checkpoint_store",
    default="",
    example="iceberg",
    description=(
        "Where checkpoints live: ``variable`` keeps one Airflow Variable per consumer, readable in the UI;\n"
        "``iceberg`` keeps one small log table per consumer, with compare-and-set, for several deployments.\n"
        "Empty: ``variable``, and ``iceberg`` on Airflow 3.2, which cannot keep checkpoints in Variables safely.\n"
    ),
)
CHECKPOINT_CONN_ID: Final = Option(
    name="checkpoint_conn_id",
    default="",
    example="lake",
    description=(
        "The Iceberg connection to the catalog in which ``checkpoint_store = iceberg`` keeps its logs.\n"
        "Empty: each capture's own connection, and ``iceberg_default`` for commands that name no consumer.\n"
    ),
)
CHECKPOINT_NAMESPACE: Final = Option(
    name="checkpoint_namespace",
    default="ips_checkpoints",
    example="ops.ips_checkpoints",
    description="The namespace in which ``checkpoint_store = iceberg`` creates its logs. It is created when missing.\n",
)
ICDC_NAMESPACE: Final = Option(
    name="icdc_namespace",
    default="icdc",
    example="scratch.icdc",
    description=(
        "The namespace in which ICDC tables are created by captures that name none. It is created when missing.\n"
    ),
)
HISTORY_LENGTH: Final = Option(
    name="history_length",
    type="integer",
    default="50",
    example="200",
    description=(
        "How many committed captures a checkpoint remembers. Clearing a run replays its range only while it is\n"
        "remembered. A checkpoint is read and written as a whole, and each remembered capture makes it longer.\n"
    ),
)
FIRE_AND_FORGET: Final = Option(
    name="fire_and_forget",
    default="",
    example="my.operators.Submit:wait_for_completion=True, my.operators.Notify",
    description=(
        "Operators of your own that may return before their job ends, separated by lines or commas, each with the\n"
        "argument that makes it wait (``class.path:argument=value``). Such a task that does not wait is refused\n"
        "between capture and commit. Operators of Airflow's providers are known.\n"
    ),
)
SIGHTING_INTERVAL: Final = Option(
    name="sighting_interval",
    type="integer",
    default="5",
    example="30",
    description=(
        "How many minutes pass at least before a sensor or trigger stores again how far its consumer is from the\n"
        "heads of its tables, for pages and `airflow ips lag`. Captures, commits and ``ips_watch`` always do.\n"
    ),
)
OPTIONS: Final = (
    CHECKPOINT_STORE,
    CHECKPOINT_CONN_ID,
    CHECKPOINT_NAMESPACE,
    ICDC_NAMESPACE,
    HISTORY_LENGTH,
    SIGHTING_INTERVAL,
    FIRE_AND_FORGET,
)


def check_store(value: object) -> None:
    """Refuse what is neither the name of a store nor a store."""
    is_store = not isinstance(value, str) and all(hasattr(value, name) for name in ("read", "write", "consumers"))
    if value == "variable":
        from airflow_provider_ips.compat import refuse_variable_store

        refuse_variable_store()
    if is_store or value in (None, *STORES):
        return
    from airflow_provider_ips.core.errors import InputError

    raise InputError(
        f"checkpoint_store={value!r} is unknown",
        consequence="Checkpoints can neither be read nor written",
        remedy=f"use {' or '.join(map(repr, STORES))}, or leave it out",
    )


def history_length() -> int:
    """Read how many committed captures a checkpoint remembers."""
    return _at_least_one(
        HISTORY_LENGTH, "A checkpoint would forget the newest capture, whose range a cleared run repeats"
    )


def sighting_interval_ms() -> int:
    """Read how long sensors and triggers wait until they store again what they see."""
    return 60_000 * _at_least_one(SIGHTING_INTERVAL, "Every poll would write a Variable")


def _at_least_one(option: Option, consequence: str) -> int:
    from airflow.sdk.configuration import conf

    number = int(conf.getint(SECTION, option.name, fallback=int(option.default)))
    if number >= 1:
        return number
    from airflow_provider_ips.core.errors import InputError

    raise InputError(
        f"[{SECTION}] {option.name}={number} is below 1", consequence=consequence, remedy="set it to 1 or more"
    )
