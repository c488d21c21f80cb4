"""The tables of a story: a SQL catalog in the deployment's PostgreSQL, which can be made to hold its breath."""

import json
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.kit import tables


@dataclass
class Lake:
    """A catalog, and the connection of its name by which Airflow's tasks reach it."""

    name: str
    uri: str
    warehouse: Path

    @property
    def properties(self):
        return {"type": "sql", "uri": self.uri, "warehouse": f"file://{self.warehouse}"}

    def connection(self):
        """What the environment variable of the connection says."""
        return json.dumps({"conn_type": "iceberg", "extra": self.properties})

    @cached_property
    def catalog(self):
        from pyiceberg.catalog import load_catalog

        self.warehouse.mkdir(exist_ok=True)
        catalog = load_catalog(self.name, **self.properties)
        for namespace in ("db", "icdc"):
            catalog.create_namespace_if_not_exists(namespace)
        return catalog

    def create(self, name, ids=(), **properties):
        """Make a table, with one snapshot of rows if there are any."""
        table = tables.create(self.catalog, name, properties=properties)
        if ids:
            tables.append(table, list(ids))
        return table

    def append(self, name, ids):
        tables.append(self.catalog.load_table(name), list(ids))

    def rows(self, name):
        return tables.rows(self.catalog, name)

    def head(self, name):
        return self.catalog.load_table(name).current_snapshot().snapshot_id

    @contextmanager
    def held(self):
        """Let nobody write to the catalog for a while: readers go on, and whoever commits, registers or drops waits."""
        from sqlalchemy import create_engine, text

        engine = create_engine(self.uri)
        with engine.connect() as connection, connection.begin():
            connection.execute(text("LOCK TABLE iceberg_tables IN EXCLUSIVE MODE"))
            yield
        engine.dispose()
