"""What a watcher has told, kept across restarts of the triggerer where Airflow has a place for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_ips.core.watching import told_from_json, told_to_json

if TYPE_CHECKING:
    from airflow_provider_ips.core.watch import SourceKey
    from airflow_provider_ips.core.watching import Told, Watcher

STATE_KEY = "ips_told"

_SEVERAL_ASSETS = "concrete inlets and outlets"
"""How Airflow says that a trigger serves several assets, whose stores it cannot tell apart."""


class StateStore(Protocol):
    """The part of Airflow's asset state store that is used here."""

    async def aget(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 - any JSON
        """Read a value."""

    async def aset(self, key: str, value: Any) -> None:  # noqa: ANN401 - any JSON
        """Write a value."""


class Memory:
    """The watermark of one watcher. Without a store it lasts as long as the trigger runs."""

    def __init__(self, store: StateStore | None, log: Any) -> None:  # noqa: ANN401 - Airflow's logger
        self._store = store
        self._log = log
        self._restored = store is None
        self._kept: dict[SourceKey, Told] = {}

    async def restore(self, watcher: Watcher) -> None:
        """Take up what an earlier triggerer kept, once. An outage of the store is the caller's to ride out."""
        if self._restored or self._store is None:
            return
        try:
            raw = await self._store.aget(STATE_KEY)
        except ValueError as error:
            if _SEVERAL_ASSETS not in str(error):
                raise
            self._without_store()
            raw = None
        if raw is not None:
            self._take(watcher, raw)
        self._restored = True

    async def keep(self, watcher: Watcher) -> None:
        """Write what changed; a failure only means that a restart may tell it again."""
        if self._store is None or not self._restored or watcher.told == self._kept:
            return
        told = dict(watcher.told)
        try:
            await self._store.aset(STATE_KEY, told_to_json(told))
        except Exception:  # noqa: BLE001 - a deployment may bring any backend; the next round tries again
            self._log.warning(
                "What was told could not be stored: a restart now would tell it again. Trying again.", exc_info=True
            )
        else:
            self._kept = told

    def _take(self, watcher: Watcher, raw: object) -> None:
        try:
            watcher.told.update(told_from_json(raw))
        except (KeyError, TypeError, ValueError) as error:
            self._log.warning("The stored watermark %s cannot be read (%s): it is told again.", STATE_KEY, error)
        else:
            self._kept = dict(watcher.told)

    def _without_store(self) -> None:
        self._store = None
        self._log.warning(
            "Several assets share this watcher, and Airflow keeps no state for them together: a restart of the "
            "triggerer tells the newest rows again. Give each asset a watcher with arguments of its own to avoid that."
        )
