"""Every option of the section `[ips]` in Airflow's configuration, described once, and read by ``read()``.

Every Airflow command imports this module for the provider info, so Airflow's configuration is imported when an option
is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

SECTION: Final = "ips"
CAPTURE_MODES: Final = ("ICDC", "BRANCH", "RANGE")
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
        """Read the value as a string."""
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
CAPTURE_MODE: Final = Option(
    name="capture_mode",
    default="ICDC",
    example="BRANCH",
    description=(
        "How captures that name no ``capture_mode`` hand over their rows: ``ICDC``, as tables of their own,\n"
        "``BRANCH``, as branches of their sources, or ``RANGE``, as ranges that Spark reads directly.\n"
    ),
)
LEASE: Final = Option(
    name="lease",
    type="integer",
    default="48",
    example="24",
    description=(
        "For how many hours captures in mode ``BRANCH``, and those with ``hold_source``, hold files of their sources\n"
        "at most. From then on ``airflow ips gc`` may remove the branch.\n"
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
    CAPTURE_MODE,
    LEASE,
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


def capture_mode() -> str:
    """Read the mode of captures that name none."""
    mode = CAPTURE_MODE.read()
    if mode in CAPTURE_MODES:
        return mode
    from airflow_provider_ips.core.errors import unknown_choice

    no_one = "Nothing is captured in a way that no one chose"
    raise unknown_choice(f"[{SECTION}] {CAPTURE_MODE.name}", mode, CAPTURE_MODES, consequence=no_one)


def lease() -> timedelta:
    """Read how long captures in mode BRANCH hold files of their sources at most."""
    from airflow.sdk.configuration import conf

    return check_lease(timedelta(hours=int(conf.getint(SECTION, LEASE.name, fallback=int(LEASE.default)))))


def check_lease(value: object) -> timedelta:
    """Refuse what is not a time above zero."""
    if isinstance(value, timedelta) and value > timedelta(0):
        return value
    from airflow_provider_ips.core.errors import InputError

    raise InputError(
        f"lease={value!r} is not a time above zero",
        consequence="Captured files would be released before the job has read them",
        remedy="give a timedelta that is longer than the job takes, for example timedelta(days=2)",
    )


def history_length() -> int:
    """Read how many committed captures a checkpoint remembers."""
    return _at_least_one(
        HISTORY_LENGTH, "A checkpoint would forget the newest capture, whose range a cleared run repeats"
    )


def sighting_interval() -> timedelta:
    """Read how long sensors and triggers wait until they store again what they see."""
    return timedelta(minutes=_at_least_one(SIGHTING_INTERVAL, "Every poll would write a Variable"))


def _at_least_one(option: Option, consequence: str) -> int:
    from airflow.sdk.configuration import conf

    number = int(conf.getint(SECTION, option.name, fallback=int(option.default)))
    if number >= 1:
        return number
    from airflow_provider_ips.core.errors import InputError

    raise InputError(
        f"[{SECTION}] {option.name}={number} is below 1", consequence=consequence, remedy="set it to 1 or more"
    )
