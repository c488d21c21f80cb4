"""Checkpoints in Airflow Variables, one per consumer, readable in the UI.

Variables know no compare-and-set. What guards a checkpoint is that a consumer has one active run at a time, and that
every write is read back: two writers at once end with an error in one of them, not with a lost position.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.checkpoints.access import TaskVariables, VariableAccess
from airflow_provider_ips.core.checkpoint import Checkpoint, document_keys
from airflow_provider_ips.core.errors import DamagedCheckpointError, InputError, StoreUnavailableError
from airflow_provider_ips.core.identifiers import is_masked_name, variable_key
from airflow_provider_ips.core.store import refuse_conflict, write_conflict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KEY_PREFIX: Final = "ips_"
_CIPHERTEXT: Final = "gAAAAA"
"""How Fernet's output begins: without any encryption key, Airflow hands out what is encrypted as it is."""
_KEY: Final = re.compile(r"ips_(?:[a-z0-9_]+_)?[0-9a-f]{20}")


@dataclass(frozen=True, slots=True)
class VariableStore:
    """A :class:`~airflow_provider_ips.core.store.CheckpointStore` over Variables.

    Within a task it goes through the task SDK; commands hand in ``ServerVariables``.
    """

    access: VariableAccess = field(default_factory=TaskVariables)

    def read(self, consumer: str, *, even_if_moved: bool = False) -> Checkpoint | None:
        key = _checked_key(consumer)
        text = self._read_text(key, consumer)
        return None if text is None else _parse(text, key, consumer, even_if_moved=even_if_moved)

    def write(self, checkpoint: Checkpoint, *, expected_revision: int | None) -> None:
        consumer, text = checkpoint.consumer, checkpoint.to_text()
        key = _checked_key(consumer)
        _refuse_masked_fields(text)
        before = self._read_text(key, consumer)
        found = None if before is None else _parse(before, key, consumer, even_if_moved=True)
        refuse_conflict(found, checkpoint, expected_revision)
        failure = self._set(key, text, consumer)
        after = self.access.get(key)
        if after == text:
            return
        if failure is not None:
            raise failure
        if after is None or after == before:
            raise _not_stored(key, consumer)
        raise write_conflict(checkpoint, "was overwritten right after it was written")

    def consumers(self) -> Sequence[str]:
        return sorted(consumer for _, consumer in self.documents() if consumer is not None)

    def documents(self) -> Iterator[tuple[str, str | None]]:
        """List where each checkpoint is, and its consumer, or None where the document does not tell."""
        for key in self.access.keys(prefix=KEY_PREFIX):
            if _KEY.fullmatch(key):
                consumer = _consumer_in(self.access.get(key))
                if consumer is None or variable_key(consumer) == key:
                    yield f"Variable {key}", consumer

    def _read_text(self, key: str, consumer: str) -> str | None:
        """Prove absence: during an outage Airflow says "not found" too, and under another encryption key as well."""
        if who := self.access.shadowed_by(key):
            raise _shadowed(key, consumer, who)
        text = self.access.get(key)
        exists = text is not None or key in self.access.keys(prefix=key)
        if exists and (text is None or text.startswith(_CIPHERTEXT)):
            raise StoreUnavailableError(
                f"Variable {key!r}, the checkpoint of consumer {consumer!r}, exists but cannot be read",
                consequence="Where the consumer stands is unknown; taking it for new would process everything again",
                remedy="check that [core] fernet_key still holds the key that it was written with, and that the API "
                "server answers; then let the task run again",
            )
        return text

    def _set(self, key: str, text: str, consumer: str) -> StoreUnavailableError | None:
        """Hold a failure back: the answer may be lost after the write, which only reading back can tell."""
        try:
            self.access.set(
                key,
                text,
                description=f"Checkpoint of {consumer!r}: how far its source tables are processed. "
                "Written by airflow-provider-ips; to change it use `airflow ips`, not this form.",
            )
        except StoreUnavailableError as failure:
            return failure
        return None


def _parse(text: str, key: str, consumer: str, *, even_if_moved: bool) -> Checkpoint:
    try:
        return Checkpoint.parse(text, consumer=consumer, even_if_moved=even_if_moved)
    except DamagedCheckpointError as damage:
        raise DamagedCheckpointError(
            f"{damage.problem} (Variable {key!r})",
            consequence=damage.consequence,
            remedy=f"save what is left with `airflow variables get {key}`; then either put the right value back with "
            f"`airflow variables set {key} …`, or remove it with `airflow variables delete {key}` and set the position "
            f"anew with `airflow ips seed --consumer {consumer} …`",
        ) from damage


def _consumer_in(text: str | None) -> str | None:
    try:
        document = json.loads(text or "")
    except ValueError:
        return None
    consumer = document.get("consumer") if isinstance(document, dict) else None
    return consumer if isinstance(consumer, str) else None


def _checked_key(consumer: str) -> str:
    key = variable_key(consumer)
    if is_masked_name(key, words := _configured_words()):
        raise InputError(
            f"the checkpoint of consumer {consumer!r} would be Variable {key!r}, which Airflow masks here "
            f"([core] sensitive_var_conn_names = {', '.join(words)})",
            consequence="Saving it in the UI would write the mask over the position",
            remedy="give the capture another consumer name, or take the word out of that setting",
        )
    return key


def _refuse_masked_fields(text: str) -> None:
    words = _configured_words()
    masked = sorted(name for name in document_keys(json.loads(text)) if is_masked_name(name, words))
    if masked:
        raise InputError(
            f"Airflow masks a checkpoint's field {masked[0]!r} ([core] sensitive_var_conn_names = {', '.join(words)})",
            consequence="Saving the Variable in the UI would write the mask over the position",
            remedy="take the word out of that setting",
        )


def _configured_words() -> tuple[str, ...]:
    """Words that this deployment masks beyond Airflow's own."""
    from airflow.configuration import conf

    if not conf.getboolean("core", "hide_sensitive_var_conn_fields", fallback=True):
        return ()
    listed = conf.get("core", "sensitive_var_conn_names", fallback="")
    return tuple(word.strip().lower() for word in listed.split(",") if word.strip())


def _shadowed(key: str, consumer: str, who: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"Variable {key!r}, the checkpoint of consumer {consumer!r}, is shadowed by {who}",
        consequence="What is read there is not what commits write: the position would stand still, and what was "
        "written since would be written over",
        remedy=f"remove {key!r} from there; an environment variable of that kind is called AIRFLOW_VAR_{key.upper()}",
    )


def _not_stored(key: str, consumer: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"the checkpoint of consumer {consumer!r} was written to Variable {key!r}, but reads back as something else",
        consequence="Its position would seem not to move, and rows would be processed again and again",
        remedy=f"remove {key!r} from the secrets backend or the environment variable that shadows it "
        f"(AIRFLOW_VAR_{key.upper()}), or look for a replica that lags behind",
    )
