"""Keeps checkpoints in Airflow Variables: one per consumer, readable in the UI.

Variables have no compare-and-set. A checkpoint is protected by two rules: a consumer has one active run at a time, and
every write is read back. If two processes write at once, one of them fails; no position is lost.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from airflow_provider_ips.core.checkpoint.document import Checkpoint, document_keys, refuse_conflict, write_conflict
from airflow_provider_ips.core.checkpoint.store import NameFilter, StoredDocument, every_name
from airflow_provider_ips.core.errors import DamagedCheckpointError, InputError, IpsError, StoreUnavailableError
from airflow_provider_ips.core.identifiers import is_masked_name, variable_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager


class VariableAccess(Protocol):
    """The operations on Variables that a store needs."""

    def get(self, key: str) -> str | None:
        """Return the value. None does not prove absence: Airflow says "not found" during an outage too."""

    def set(self, key: str, value: str, *, description: str) -> None: ...

    def keys(self, *, prefix: str) -> Sequence[str]:
        """List the keys in the metadata database. Raises if they cannot be listed, so a missing key is absent."""

    def shadowed_by(self, key: str) -> str | None:
        """Name the secrets backend that answers in place of the metadata database, as far as this process can see."""


class TaskVariables:
    """Variables in a task or trigger, through the task SDK, which has no database."""

    def get(self, key: str) -> str | None:
        from airflow.sdk import Variable
        from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

        _forget_cached(key)
        with _mapping_errors(f"Variable {key!r} could not be read"):
            try:
                return _as_text(Variable.get(key))
            except AirflowRuntimeError as error:
                if error.error.error is ErrorType.VARIABLE_NOT_FOUND:
                    return None
                raise

    def set(self, key: str, value: str, *, description: str) -> None:
        from airflow.sdk import Variable

        with _mapping_errors(f"Variable {key!r} could not be written"):
            Variable.set(key, value, description=description)

    def keys(self, *, prefix: str) -> Sequence[str]:
        from airflow.sdk import Variable

        with _mapping_errors(f"Variables could not be listed by prefix {prefix!r}"):
            return list(Variable.keys(prefix=prefix))

    def shadowed_by(self, key: str) -> str | None:
        from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

        return _first_with(key, ensure_secrets_backend_loaded())


class ServerVariables:
    """Variables in a command on a machine that reaches the metadata database."""

    def get(self, key: str) -> str | None:
        from airflow.models import Variable

        _forget_cached(key)
        with database_errors(f"Variable {key!r} could not be read"):
            return _as_text(Variable.get(key, default_var=None, **self._team_of(key)))

    def set(self, key: str, value: str, *, description: str) -> None:
        from airflow.models import Variable

        with database_errors(f"Variable {key!r} could not be written"):
            Variable.set(key, value, description=description, **self._team_of(key))

    def _team_of(self, key: str) -> dict[str, Any]:
        """Return the team that a Variable belongs to, as an argument: Airflow hides it from all others."""
        from airflow.models import Variable
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            team = session.scalar(select(Variable.team_name).where(Variable.key == key))
        return {} if team is None else {"team_name": team}

    def keys(self, *, prefix: str) -> Sequence[str]:
        from airflow.models import Variable
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with database_errors(f"Variables could not be listed by prefix {prefix!r}"), create_session() as session:
            found = select(Variable.key).where(Variable.key.startswith(prefix, autoescape=True)).order_by(Variable.key)
            return list(session.scalars(found))

    def shadowed_by(self, key: str) -> str | None:
        from airflow.configuration import ensure_secrets_loaded

        return _first_with(key, ensure_secrets_loaded())


_DATABASE_BACKENDS = ("MetastoreBackend", "ExecutionAPISecretsBackend")
"""The backends that read the metadata database: on a server, and through the API server."""


def _first_with(key: str, backends: Iterable[Any]) -> str | None:
    """Name the first backend that holds the key. One that fails is skipped, as Airflow does when it reads."""
    for backend in backends:
        if type(backend).__name__ in _DATABASE_BACKENDS:
            continue
        with suppress(Exception):
            if backend.get_variable(key) is not None:
                return type(backend).__name__
    return None


def _forget_cached(key: str) -> None:
    """Drop the key from Airflow's cache of secrets, which may hold an older revision, or an absence."""
    from airflow.sdk import SecretCache

    SecretCache.invalidate_variable(key)


def _as_text(value: object) -> str | None:
    return None if value is None else str(value)


@contextmanager
def _mapping_errors(
    problem: str,
    consequence: str = "The position is unknown, and treating the consumer as new would process everything again",
    remedy: str = "let the task run again once Airflow's API server and database answer; the log above has the cause",
) -> Iterator[None]:
    """Report whatever Airflow, HTTP or the database raise as an outage: it must not be read as absence."""
    try:
        yield
    except IpsError:
        raise
    except Exception as error:
        raise StoreUnavailableError(
            f"{problem}: {type(error).__name__}", consequence=consequence, remedy=remedy
        ) from error


def database_errors(problem: str) -> AbstractContextManager[None]:
    """Report an outage to a person who has typed a command: no task is there that could run again."""
    return _mapping_errors(
        problem,
        "The command needs Airflow's metadata database, and could not use it",
        "see what `airflow db check` says; run the command where Airflow's own commands work, with the same "
        "[database] sql_alchemy_conn",
    )


KEY_PREFIX: Final = "ips_"
_CIPHERTEXT: Final = "gAAAAA"
"""How Fernet's output begins: without an encryption key Airflow returns an encrypted value as it is stored."""
_KEY: Final = re.compile(r"ips_(?:([a-z0-9_]+)_)?([0-9a-f]{20})")


@dataclass(frozen=True, slots=True)
class VariableStore:
    """A :class:`~airflow_provider_ips.core.checkpoint.store.CheckpointStore` over Variables.

    By default it uses the task SDK; commands pass ``ServerVariables``.
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

    def consumers(self, *, is_wanted: NameFilter = every_name) -> Sequence[str]:
        return sorted(consumer for _, consumer, _ in self.documents(is_wanted) if consumer is not None)

    def documents(self, is_wanted: NameFilter = every_name) -> Iterator[StoredDocument]:
        """Read each Variable once."""
        for key in self.access.keys(prefix=KEY_PREFIX):
            if (name := _KEY.fullmatch(key)) and is_wanted(name[1] or "", name[2]):
                text = self.access.get(key)
                consumer = _consumer_in(text)
                if consumer is None or variable_key(consumer) == key:
                    yield f"Variable {key}", consumer, partial(_parse, text or "", key, consumer or "")

    def _read_text(self, key: str, consumer: str) -> str | None:
        """Read the value. A list proves its absence: Airflow says "not found" in an outage, and for a wrong key too."""
        if backend := self.access.shadowed_by(key):
            raise _shadowed(key, consumer, backend)
        text = self.access.get(key)
        exists = text is not None or key in self.access.keys(prefix=key)
        if exists and (text is None or text.startswith(_CIPHERTEXT)):
            raise StoreUnavailableError(
                f"Variable {key!r}, the checkpoint of consumer {consumer!r}, exists but cannot be read",
                consequence="The position is unknown, and treating the consumer as new would process everything again",
                remedy="check that [core] fernet_key still holds the key that it was written with, and that the API "
                "server answers; then let the task run again",
            )
        if text is None and isinstance(self.access, TaskVariables):
            _refuse_hidden(key, consumer)
        return text

    def _set(self, key: str, text: str, consumer: str) -> StoreUnavailableError | None:
        """Write, and return a failure: the response may be lost after the write, so read it back."""
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


def _parse(text: str, key: str, consumer: str, *, even_if_moved: bool = False) -> Checkpoint:
    try:
        return Checkpoint.parse(text, consumer=consumer, even_if_moved=even_if_moved)
    except DamagedCheckpointError as damage:
        raise DamagedCheckpointError(
            f"{damage.problem} (Variable {key!r})",
            consequence=damage.consequence,
            remedy=f"save the current value with `airflow variables get {key}`; then either restore the right one with "
            f"`airflow variables set {key} …`, or remove it with `airflow variables delete {key}` and set the position "
            f"again with `airflow ips seed --consumer {consumer} …`",
        ) from damage


_CONSUMER_LINE: Final = re.compile(r'^ "consumer": ("(?:[^"\\]|\\.)*"),?$', re.MULTILINE)
"""The field in a document as we write it, indented by one. To decode a thousand documents for it would take long."""


def _consumer_in(text: str | None) -> str | None:
    try:
        if written := _CONSUMER_LINE.search(text or ""):
            return str(json.loads(written[1]))
        document = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    consumer = document.get("consumer") if isinstance(document, dict) else None
    return consumer if isinstance(consumer, str) else None


def _checked_key(consumer: str) -> str:
    key = variable_key(consumer)
    if is_masked_name(key, words := _configured_words()):
        what = f"the checkpoint of consumer {consumer!r} would be in Variable {key!r}, which Airflow masks here"
        raise _masked(what, words, "give the capture another consumer name, or remove the word from that setting")
    return key


def _refuse_masked_fields(text: str) -> None:
    words = _configured_words()
    masked = sorted(name for name in document_keys(json.loads(text)) if is_masked_name(name, words))
    if masked:
        raise _masked(f"Airflow masks a checkpoint's field {masked[0]!r}", words, "remove the word from that setting")


def _masked(what: str, words: Iterable[str], remedy: str) -> InputError:
    return InputError(
        f"{what} ([core] sensitive_var_conn_names = {', '.join(words)})",
        consequence="Saving the Variable in the UI would overwrite the position with the mask",
        remedy=remedy,
    )


def _refuse_hidden(key: str, consumer: str) -> None:
    """Refuse to take a Variable for absent where tasks are shown those of their own team only."""
    from airflow.configuration import conf

    if conf.getboolean("core", "multi_team", fallback=False):
        raise StoreUnavailableError(
            f"Variable {key!r}, the checkpoint of consumer {consumer!r}, is not among those that this task's team sees",
            consequence="With [core] multi_team, one of another team or of none may exist, and a first run would "
            "process everything again and overwrite it",
            remedy="keep checkpoints in Iceberg ([ips] checkpoint_store=iceberg); or, on a server, look with `airflow "
            f"ips show --consumer {consumer}`, and create it with `airflow ips seed`",
        )


def _configured_words() -> tuple[str, ...]:
    """Read the words that this deployment masks in addition to Airflow's own."""
    from airflow.configuration import conf

    if not conf.getboolean("core", "hide_sensitive_var_conn_fields", fallback=True):
        return ()
    listed = conf.get("core", "sensitive_var_conn_names", fallback="")
    return tuple(word.strip().lower() for word in listed.split(",") if word.strip())


def _shadowed(key: str, consumer: str, backend: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"Variable {key!r}, the checkpoint of consumer {consumer!r}, is shadowed by {backend}",
        consequence="Reads would not return what commits write: the position would not move, and newer writes "
        "would be overwritten",
        remedy=f"remove {key!r} from there; if it is an environment variable, its name is AIRFLOW_VAR_{key.upper()}",
    )


def _not_stored(key: str, consumer: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"the checkpoint of consumer {consumer!r} was written to Variable {key!r}, but reads back as something else",
        consequence="The position would not seem to move, and the same rows would be processed again and again",
        remedy=f"remove {key!r} from the secrets backend or the environment variable that shadows it "
        f"(AIRFLOW_VAR_{key.upper()}), or look for a database replica that lags",
    )
