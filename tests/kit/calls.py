"""Every call that leaves the process, in order, and a way to have one of them end badly.

The proxies wrap real objects: PyIceberg's SQL catalog on SQLite, its file system, a checkpoint store. A journal counts
their calls. One may be told to go wrong: the process dies before or after it, it fails, or it succeeds and its answer
is lost. Whoever has died does nothing any more: no clean-up of an `except` or `finally` reaches the outside.
"""

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from sqlalchemy import event

CATALOG = f"{__name__}.JournaledCatalog"
FILE_IO = f"{__name__}.JournaledFileIO"


class End(Enum):
    """What becomes of one call."""

    DIES_BEFORE = "dies before"
    DIES_AFTER = "dies after"
    FAILS = "fails"
    UNANSWERED = "succeeds without an answer"


class DiedError(BaseException):
    """The process is gone."""


@dataclass
class Journal:
    """The calls made so far; the ``at``-th ends as told."""

    names: list[str] = field(default_factory=list)
    at: int | None = None
    end: End = End.FAILS
    is_dead: bool = False
    is_recording: bool = True
    within: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def start(self, at=None, end=End.FAILS):
        """A new process."""
        self.names, self.at, self.end, self.is_dead, self.is_recording = [], at, end, False, True

    def stop(self):
        """What the test itself looks at is not part of the story."""
        self.at, self.is_dead, self.is_recording = None, False, False

    @property
    def was_reached(self):
        return self.at is not None and len(self.names) > self.at

    def call(self, name, function, *args, **kwargs):
        with self.lock:
            end = self._next(name)
        if end is None:
            return function(*args, **kwargs)
        if end in {End.DIES_AFTER, End.UNANSWERED}:
            with suppress(Exception):  # whatever it would have answered is lost
                function(*args, **kwargs)
        if end in {End.DIES_BEFORE, End.DIES_AFTER}:
            self.is_dead = True
            raise DiedError(name)
        raise OSError(f"no answer to {name}")

    def _next(self, name):
        if self.is_dead:
            raise DiedError(name)
        if not self.is_recording:
            return None
        self.names.append(self.within + name)
        return self.end if len(self.names) - 1 == self.at else None


JOURNAL = Journal()


class JournaledCatalog(SqlCatalog):
    """PyIceberg makes it by its name, ``py-catalog-impl``."""


def _journaled(verb):
    real = getattr(SqlCatalog, verb)

    def call(self, *args, **kwargs):
        return JOURNAL.call(f"catalog.{verb}", real, self, *args, **kwargs)

    return call


for _verb in (
    *("load_table", "create_table", "register_table", "drop_table", "commit_table", "list_tables"),
    *("create_namespace", "list_namespaces", "load_namespace_properties"),
):
    setattr(JournaledCatalog, _verb, _journaled(_verb))


def _kind(location):
    """What a file is, without the names that are drawn by lot."""
    name = location.rpartition("/")[2]
    return next((k for k in ("metadata.json", "snap", "-m", "no-rows", "parquet") if k in name), "other")


class JournaledFileIO(PyArrowFileIO):
    """PyIceberg makes it by its name, ``py-io-impl``."""

    def new_input(self, location):
        return _Input(super().new_input(location))

    def new_output(self, location):
        return _Output(super().new_output(location))

    def delete(self, location):
        path = location if isinstance(location, str) else location.location
        return JOURNAL.call(f"storage.delete {_kind(path)}", super().delete, location)


class _Input(InputFile):
    def __init__(self, real):
        super().__init__(real.location)
        self._real = real

    def __len__(self):
        return len(self._real)

    def exists(self):
        return JOURNAL.call(f"storage.exists {_kind(self.location)}", self._real.exists)

    def open(self, seekable=True):  # noqa: FBT002 - PyIceberg's signature
        return JOURNAL.call(f"storage.read {_kind(self.location)}", self._real.open, seekable)


class _Output(OutputFile):
    def __init__(self, real):
        super().__init__(real.location)
        self._real = real

    def __len__(self):
        return len(self._real)

    def exists(self):
        return JOURNAL.call(f"storage.exists {_kind(self.location)}", self._real.exists)

    def to_input_file(self):
        return _Input(self._real.to_input_file())

    def create(self, overwrite=False):  # noqa: FBT002 - PyIceberg's signature
        kind = _kind(self.location)
        return _Stream(JOURNAL.call(f"storage.create {kind}", self._real.create, overwrite), kind)


class _Stream:
    """What is written becomes whole when the stream is closed; a death before that leaves half a file."""

    def __init__(self, real, kind):
        self._real, self._kind = real, kind

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def write(self, data):
        return self._real.write(data)

    def tell(self):
        return self._real.tell()

    def close(self):
        try:
            JOURNAL.call(f"storage.close {self._kind}", self._real.close)
        finally:
            self._real.close()

    @property
    def closed(self):
        return self._real.closed


@dataclass
class JournaledStore:
    """Any checkpoint store; what it calls is named as its own."""

    real: Any

    def read(self, consumer, **options):
        return self._within(self.real.read, consumer, **options)

    def write(self, checkpoint, *, expected_revision):
        return self._within(self.real.write, checkpoint, expected_revision=expected_revision)

    def consumers(self, **options):
        return self._within(self.real.consumers, **options)

    def _within(self, function, *args, **kwargs):
        JOURNAL.within = "store > "
        try:
            return function(*args, **kwargs)
        finally:
            JOURNAL.within = ""


def open_journaled(folder, name="lake"):
    """A catalog on SQLite whose every call is in the journal."""
    from pyiceberg.catalog import load_catalog

    (folder / "warehouse").mkdir(exist_ok=True)
    return without_waiting_for_the_disk(
        load_catalog(
            name,
            **{
                "py-catalog-impl": CATALOG,
                "py-io-impl": FILE_IO,
                "uri": f"sqlite:///{folder}/catalog.db",
                "warehouse": f"file://{folder}/warehouse",
            },
        )
    )


def without_waiting_for_the_disk(catalog):
    """The machine stays on: only processes die here."""
    event.listen(catalog.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = OFF"))
    catalog.engine.dispose()
    return catalog
