"""What differs between the versions of Airflow that we run with, and only that.

                                        3.2              3.3.0, 3.3.1       from 3.3.2 on
Variables can be listed in a task       no               yes                yes
state of assets, for watchers           no               from a thread      in the event loop
one poll for watchers of one table      no               yes                yes
state of tasks, for resumable jobs      no               yes                yes
of a run that is marked successful,
tasks that never started are            successful       skipped            skipped
partition keys that a task chooses      no               yes                yes
client for metrics outside of tasks     class            functions          functions

What a version lacks is refused by an error that says so, or left out where nothing can become wrong: what that costs
is on the pages of config, sensor and commit. Imported with the first operator, sensor, trigger or hook, and then it
refuses versions outside of our ranges. Provider info does not import it, so that other commands of Airflow still work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from airflow import __version__ as airflow_version
from packaging.version import Version

from airflow_provider_ips.core.errors import UnsupportedVersionError
from airflow_provider_ips.versions import refuse_unsupported

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import ThreadPoolExecutor

    from airflow.sdk import Context


T = TypeVar("T")

refuse_unsupported("apache-airflow", "apache-airflow-providers-apache-iceberg", "pyiceberg")

HAS_3_3: Final = Version(airflow_version).release >= (3, 3)

DEFAULT_STORE: Final = "variable" if HAS_3_3 else "iceberg"
"""Where checkpoints are unless ``[ips] checkpoint_store`` says otherwise."""

USABLE_STORES: Final = ("variable", "iceberg") if HAS_3_3 else ("iceberg",)
"""A Variable that a task cannot read is absent, or there is an outage. Only a list of Variables proves which."""


NEVER_STARTED: Final = "skipped" if HAS_3_3 else "success"
"""The state that a task gets if it had not started when its run was marked successful."""


def refuse_variable_store() -> None:
    """Refuse checkpoints in Variables where an outage would look like a first run."""
    _refuse_below_3_3(
        "checkpoint_store='variable'",
        "There a task cannot list Variables: an outage would look like a first run, which processes whole tables again",
        "leave checkpoint_store out, or set it to 'iceberg'",
    )


def refuse_partition_events() -> None:
    """Refuse events of partitions where a task cannot choose their keys."""
    _refuse_below_3_3(
        "partition_events=True",
        "There a task cannot choose the partition keys of its events, and none would be sent",
        "leave partition_events out: the target then has one event, which lists the sources' ranges",
    )


def _refuse_below_3_3(what: str, consequence: str, remedy: str) -> None:
    if not HAS_3_3:
        problem = f"{what} needs Airflow 3.3, and this is {airflow_version}"
        raise UnsupportedVersionError(problem, consequence=consequence, remedy=remedy)


def task_state_of(context: Context) -> Any | None:  # noqa: ANN401 - Airflow's
    """Return what Airflow remembers of a task when it is cleared; None where it remembers nothing."""
    return context.get("task_state_store")


def start_stats() -> None:
    """Set up Airflow's client for metrics in a command, as tasks have it. It connects when a metric is sent."""
    from airflow.sdk.configuration import conf
    from airflow.sdk.observability.metrics.stats_utils import get_stats_factory
    from airflow.sdk.observability.stats import Stats

    start: Callable[..., None] = Stats.initialize
    make_factory: Callable[..., Any] = get_stats_factory
    if HAS_3_3:
        start(factory=make_factory(), export_legacy_names=conf.getboolean("metrics", "legacy_names_on"))
    else:
        start(factory=make_factory(Stats))


class AssetState:
    """What a watcher remembers beyond a restart of the triggerer."""

    def __init__(self, store: Any, in_thread: Callable[..., Awaitable[Any]]) -> None:  # noqa: ANN401 - Airflow's
        self._store = store
        self._in_thread = in_thread

    async def read(self, key: str) -> Any:  # noqa: ANN401 - JSON
        """Return the stored value; None if there is none."""
        if hasattr(self._store, "aget"):
            return await self._store.aget(key)
        return await self._in_thread(self._store.get, key)

    async def write(self, key: str, value: Any) -> None:  # noqa: ANN401 - JSON
        """Store a value."""
        if hasattr(self._store, "aset"):
            await self._store.aset(key, value)
        else:
            await self._in_thread(self._store.set, key, value)


def asset_state_of(trigger: object, in_thread: Callable[..., Awaitable[Any]]) -> AssetState | None:
    """Return the state of the asset that a trigger watches; None for sensors, and where Airflow keeps none."""
    store = getattr(trigger, "asset_state_store", None)
    return None if store is None else AssetState(store, in_thread)


async def run_in(executor: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    """Run a blocking call of a trigger in a thread, from where it may read connections.

    Below 3.3 such a read is sent through the event loop of the triggerer, which a thread knows only by ``asgiref``: in
    a thread of another kind it fails when the response does not arrive at once.
    """
    from asgiref.sync import sync_to_async

    return await sync_to_async(call, thread_sensitive=False, executor=executor)()
