"""A look at 500 tables and 1,000 consumers, as a run of `ips_watch` takes it: `make bench-watch-dag`.

Each table has 50 commits, of which a consumer has processed all but the last. Catalog and Airflow are on SQLite. Fails
at 60 seconds, if a table is loaded twice, or if a look without news writes a table's sighting.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog.sql import SqlCatalog

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_provider_ips.core.checkpoint.store import CheckpointStore

TABLES: Final = 500
CONSUMERS_A_TABLE: Final = 2
COMMITS: Final = 50
MOST_S: Final = 60.0


class CountingCatalog(SqlCatalog):
    """Notes what is loaded."""

    loads: Counter[str] = Counter()  # noqa: RUF012 - one for all

    def load_table(self, identifier: Any) -> Table:  # noqa: ANN401 - as PyIceberg's
        self.loads[".".join(identifier)] += 1
        return super().load_table(identifier)


@dataclass(slots=True)
class CountingVariables:
    """Airflow's Variables, on its database."""

    calls: Counter[str] = field(default_factory=Counter)

    def get(self, key: str) -> str | None:
        from airflow_provider_ips.checkpoints.variable import ServerVariables

        self.calls["read"] += 1
        return ServerVariables().get(key)

    def set(self, key: str, value: str, *, description: str) -> None:
        from airflow_provider_ips.checkpoints.variable import ServerVariables

        self.calls[f"written {key.split('_')[1]}"] += 1
        self.calls["bytes written"] += len(value)
        ServerVariables().set(key, value, description=description)

    def keys(self, *, prefix: str) -> list[str]:
        from airflow_provider_ips.checkpoints.variable import ServerVariables

        return list(ServerVariables().keys(prefix=prefix))

    def shadowed_by(self, key: str) -> str | None:
        raise NotImplementedError(key)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(AIRFLOW_HOME=folder, _AIRFLOW_PROCESS_CONTEXT="server")
        from airflow.utils.db import initdb

        initdb()
        catalog = _lake(Path(folder))
        _consumers(catalog)
        figures = [_look(catalog, name) for name in ("first look", "look without news")]
    is_kept = all(seconds < MOST_S and loads == 1 for seconds, loads, _ in figures) and not figures[1][2]
    print(f"at most {MOST_S:.0f} s and one load a table: {'kept' if is_kept else 'exceeded'}")
    return 0 if is_kept else 1


def _lake(folder: Path) -> CountingCatalog:
    """Make one table with its history, and register its metadata under the other names."""
    import pyarrow as pa

    (folder / "warehouse").mkdir()
    uri, warehouse = f"sqlite:///{folder}/lake.db", f"file://{folder}/warehouse"
    catalog = CountingCatalog("lake", uri=uri, warehouse=warehouse)
    catalog.create_namespace("db")
    rows = pa.table({"id": [1]})
    table = catalog.create_table("db.t0", schema=rows.schema)
    for _ in range(COMMITS):
        table.append(rows)
    for number in range(1, TABLES):
        catalog.register_table(f"db.t{number}", table.metadata_location)
    return catalog


def _consumers(catalog: CountingCatalog) -> None:
    from airflow_provider_ips.checkpoints.variable import ServerVariables, VariableStore
    from airflow_provider_ips.core.checkpoint.entries import SourcePosition
    from airflow_provider_ips.core.checkpoint.manual_changes import seed
    from airflow_provider_ips.core.identifiers import Source
    from airflow_provider_ips.iceberg.source.iceberg_source import open_source, position_at

    source = open_source(catalog, Source("db.t0"))
    position = position_at(source, snapshot_id=source.metadata.snapshots[-2].snapshot_id)
    store: CheckpointStore = VariableStore(access=ServerVariables())
    for number in range(TABLES * CONSUMERS_A_TABLE):
        entry = SourcePosition(source=Source(f"db.t{number % TABLES}"), position=position)
        checkpoint = seed(None, consumer=f"dag_{number}.capture", positions=(entry,), now_ms=1)
        store.write(checkpoint, expected_revision=None)


def _look(catalog: CountingCatalog, name: str) -> tuple[float, int, int]:
    from airflow_provider_ips.checkpoints.variable import ServerVariables, VariableStore
    from airflow_provider_ips.core.sightings.consumer_sighting import SeenBy
    from airflow_provider_ips.maintenance.watch import Watcher

    catalog.loads.clear()
    variables = CountingVariables()
    watcher = Watcher(variables=variables, iceberg_conn_id="lake", seen_by=SeenBy.WATCH, open_by=lambda _: catalog)
    began, used = time.monotonic(), time.process_time()
    seen = watcher.look([VariableStore(access=ServerVariables())])
    seconds, processor_s = time.monotonic() - began, time.process_time() - used
    assert len(seen) == TABLES * CONSUMERS_A_TABLE  # noqa: S101 - all were there
    assert all(each.sources[0].lag.commits == 1 for each in seen)  # noqa: S101 - and none was in doubt
    counted = ", ".join(f"{number:,} {what}" for what, number in sorted(variables.calls.items()))
    print(f"{name}: {seconds:.1f} s, {processor_s:.1f} s of the processor, {catalog.loads.total()} loads; {counted}")
    return seconds, max(catalog.loads.values()), variables.calls["written table"]


if __name__ == "__main__":
    sys.exit(main())
