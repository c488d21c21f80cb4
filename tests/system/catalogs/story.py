"""One story that every catalog and every storage goes through, chapter by chapter, through PyIceberg alone."""

from __future__ import annotations

import contextlib
import itertools
import uuid
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pytest
from pyiceberg.io.fsspec import FsspecFileIO

from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.core.checkpoint.entries import SourcePosition
from airflow_provider_ips.core.checkpoint.manual_changes import seed
from airflow_provider_ips.core.errors import CatalogError, GapError, IcdcConflictError, InputError, IpsError
from airflow_provider_ips.core.identifiers import Source, TableIdentifier
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.settings import ALL_OPERATIONS
from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.iceberg.source.catalog_table import wider_readers
from tests.kit.lakes import files_below, opened
from tests.kit.local_tables import DAY, SCHEMA
from tests.kit.writers import written_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.results.capture_record import SourceRecord
    from tests.kit.wire import Cutter

_numbers = itertools.count()


class NotTriedError(Exception):
    """A chapter that this kind of catalog has no means to play; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """A proxy before the catalog, and the bytes by which a request to register is known: the last part, and before."""

    cutter: Cutter
    after: bytes
    at: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A catalog with its storage, as PyIceberg opens it."""

    name: str
    label: str
    properties: dict[str, str]
    keeps_history: bool = True
    nests: bool = True
    warehouse: str = ""
    wire: Wire | None = None
    refusing: Callable[[], AbstractContextManager[dict[str, str]]] | None = None
    """Gives properties of a user who may read and write files, but not register."""

    why_no_wire: str = "nothing is between this process and the catalog"
    why_not_refusing: str = "it asks nobody for rights"


@dataclass(slots=True)
class World:
    """One kind, with a table of two rows in two snapshots."""

    kind: Kind
    catalog: Catalog = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        """Make namespaces and a table that no other chapter uses."""
        self.catalog = opened("lake", self.kind.properties)
        self.name = f"ch{next(_numbers)}_{uuid.uuid4().hex[:6]}"
        for namespace in (self.name, f"{self.name}_icdc"):
            location = {"location": f"{self.kind.warehouse}/{namespace}"} if self.kind.warehouse else {}
            self.catalog.create_namespace(namespace, location)
        self.catalog.create_table(self.table, schema=SCHEMA, properties={"format-version": "2"})
        self.append(1)
        self.append(2)

    @property
    def table(self) -> str:
        return f"{self.name}.events"

    @property
    def into(self) -> str:
        return f"{self.name}_icdc.x"

    def append(self, *ids: int) -> None:
        columns = {"id": ids, "day": [DAY] * len(ids), "note": [f"n{i}" for i in ids]}
        self.catalog.load_table(self.table).append(pa.table(columns, schema=SCHEMA))

    def capture(self, catalog: Catalog | None = None, **settings: Any) -> SourceRecord:
        return capture(catalog or self.catalog, self.table, into=settings.pop("into", self.into), **settings)

    def ids(self, table: str | None) -> list[int]:
        assert table is not None
        return sorted(self.catalog.load_table(table).scan().to_arrow()["id"].to_pylist())

    def files(self, table: str) -> dict[str, int]:
        """Every file of a table that exists."""
        opened_table = self.catalog.load_table(table)
        io, location = opened_table.io, opened_table.location()
        if not isinstance(io, FsspecFileIO):
            return files_below(dict(io.properties), location)
        found = io.get_fs(location.partition(":")[0]).find(location, detail=True)
        return {path: facts["size"] for path, facts in found.items()}

    def through_the_wire(self) -> tuple[Catalog, Wire]:
        if self.kind.wire is None:
            raise NotTriedError(self.kind.why_no_wire)
        return self.catalog, self.kind.wire


@contextlib.contextmanager
def raising(*errors: type[IpsError], saying: str = "") -> Iterator[None]:
    """Expect one of our errors, with a consequence and a remedy."""
    with pytest.raises(errors) as raised:
        yield
    error = raised.value
    assert saying.lower() in str(error).lower(), f"expected {saying!r} in: {error}"
    assert error.consequence, f"no consequence: {error}"
    assert error.remedy, f"no remedy: {error}"


def captures_and_reads(world: World) -> None:
    """All live rows, then what was appended after them, in tables of their own; dropped with all their files."""
    first = world.capture()
    assert world.ids(world.into) == [1, 2]
    world.append(3)
    second = world.capture(into=f"{world.name}_icdc.y", since=first.to_inclusive, on_gap="resync")
    assert world.ids(second.icdc_table) == [3]
    before = world.files(world.table)
    assert drop_icdc(world.catalog, world.into)
    assert not world.catalog.table_exists(world.into)
    assert world.files(world.table) == before
    assert world.ids(world.table) == [1, 2, 3]


def retries(world: World) -> None:
    """The same capture again takes the table that is there, and leaves no second set of files."""
    first = world.capture()
    files = world.files(world.into)
    assert world.capture() == first
    assert world.files(world.into) == files


def conflicts_under_the_name(world: World) -> None:
    """Another capture of the same name is refused, and so is a table that no capture made."""
    world.capture()
    world.append(3)
    with raising(IcdcConflictError, saying="exists already"):
        world.capture()
    assert world.ids(world.into) == [1, 2]
    world.catalog.create_table(f"{world.name}_icdc.mine", schema=SCHEMA)
    with raising(IcdcConflictError, saying="no capture made it"):
        world.capture(into=f"{world.name}_icdc.mine")
    assert world.ids(f"{world.name}_icdc.mine") == []


def nests_namespaces(world: World) -> None:
    """Or says before anything is written that it does not."""
    into = f"{world.name}_icdc.deep.x"
    if world.kind.nests:
        world.capture(into=into)
        assert world.ids(into) == [1, 2]
        return
    with raising(InputError, saying="does not nest"):
        world.capture(into=into)
    world.capture()


def captures_changes(world: World) -> None:
    """What copy-on-write wrote, and what it replaced; where no history is shown, a gap."""
    world.append(3, 4)
    first = world.capture()
    world.catalog.load_table(world.table).delete("id = 3")
    settings: dict[str, Any] = {"data_operations": ALL_OPERATIONS, "on_superset": "allow", "since": first.to_inclusive}
    if not world.kind.keeps_history:
        with raising(GapError):
            world.capture(into=f"{world.name}_icdc.y", **settings)
        return
    record = world.capture(into=f"{world.name}_icdc.y", **settings)
    assert world.ids(record.icdc_table) == [4]
    assert world.ids(record.before_table) == [3, 4]


def loses_the_answer(world: World) -> None:
    """A register that was carried out without an answer has succeeded."""
    catalog, wire = world.through_the_wire()
    with wire.cutter.cutting(after=wire.after, at=wire.at):
        cuts = wire.cutter.cuts
        world.capture(catalog)
    assert wire.cutter.cuts > cuts
    assert world.ids(world.into) == [1, 2]


def is_not_reached(world: World) -> None:
    """A register that never arrived is an error that says so, and the retry makes the table."""
    catalog, wire = world.through_the_wire()
    with wire.cutter.cutting(after=wire.after, at=wire.at, reaches=False, times=20), raising(CatalogError):
        world.capture(catalog)
    assert not world.catalog.table_exists(world.into)
    world.capture()
    assert world.ids(world.into) == [1, 2]


def denies_permission(world: World) -> None:
    """The error says what to allow, nothing is registered, and with the right the retry succeeds."""
    if world.kind.refusing is None:
        raise NotTriedError(world.kind.why_not_refusing)
    with world.kind.refusing() as properties:
        catalog = opened("lake", properties)
        with raising(CatalogError, saying="did not register"):
            world.capture(catalog)
    assert not world.catalog.table_exists(world.into)
    world.capture()
    assert world.ids(world.into) == [1, 2]


def has_four_writers_of_checkpoints(world: World) -> None:
    """No write of the Iceberg store that reported success is lost."""
    store, consumer = IcebergStore(world.catalog), f"daily_{world.name}.capture"
    position = Position(table_uuid="uuid-1", snapshot_id=10, sequence_number=10, committed_at_ms=1_700_000_000_000)
    first = seed(
        None,
        consumer=consumer,
        positions=(SourcePosition(source=Source(world.table), position=position),),
        now_ms=1_700_000_000_000,
    )
    store.write(first, expected_revision=None)
    written = written_at_once(world.kind.properties, consumer, writers=4, times=2)
    found = store.read(consumer)
    assert found is not None
    assert sorted(found.retained) == written
    assert found.revision == first.revision + len(written)


def shows_who_may_read(world: World) -> None:
    """Hive's metastore has grants of namespaces and tables: who has one of the captures and none of the source."""
    hive: Any = import_module("hive_metastore.ttypes")  # PyIceberg's own copy, without types
    kinds, catalog = hive.HiveObjectType, cast("Any", world.catalog)
    world.append(1)
    world.capture()
    places = {name: TableIdentifier.parse(name) for name in (world.table, world.into)}
    source, made = places.values()
    objects = {
        "source": hive.HiveObjectRef(objectType=kinds.TABLE, dbName=".".join(source.namespace), objectName=source.name),
        "captures": hive.HiveObjectRef(objectType=kinds.DATABASE, dbName=".".join(made.namespace)),
    }

    def grant(what: str, who: str, privilege: str) -> None:
        info = hive.PrivilegeGrantInfo(privilege, 0, "admin", hive.PrincipalType.USER, False)  # noqa: FBT003 - generated
        each = hive.HiveObjectPrivilege(objects[what], who, hive.PrincipalType.USER, info)
        with catalog._client as client:
            assert client.grant_privileges(hive.PrivilegeBag([each]))

    def known() -> Sequence[str]:
        wider, is_all = wider_readers(catalog, ".".join(made.namespace), None, source, "s3://elsewhere")
        assert not is_all  # Ranger, for example, has rights of its own
        return wider

    assert known() == ()
    grant("captures", "ann", "SELECT")
    grant("captures", "bob", "ALL")
    grant("captures", "eve", "DROP")
    assert known() == ("user ann", "user bob")
    grant("source", "ann", "SELECT")
    assert known() == ("user bob",)


CHAPTERS: Final[dict[str, Callable[[World], None]]] = {
    "capture, read, drop": captures_and_reads,
    "retry": retries,
    "conflict": conflicts_under_the_name,
    "nested namespace": nests_namespaces,
    "changes": captures_changes,
    "answer lost": loses_the_answer,
    "not reached": is_not_reached,
    "permission denied": denies_permission,
    "four writers": has_four_writers_of_checkpoints,
}

OWN_CHAPTERS: Final[dict[str, dict[str, Callable[[World], None]]]] = {"hive": {"who may read": shows_who_may_read}}
"""What only one kind of catalog can be asked for, by its name; not in the table of the docs."""


def chapters_of(kind: Kind) -> dict[str, Callable[[World], None]]:
    """What is played on one kind."""
    return {**CHAPTERS, **OWN_CHAPTERS.get(kind.name, {})}
