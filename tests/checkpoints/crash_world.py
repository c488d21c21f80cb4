"""A consumer of two tables, its job and its files, in one folder that can be put back to how it was.

Its job reads what is captured and writes it to targets, at once and for good: nothing takes back what a job wrote whose
capture is never committed. A consumer of appends notes the rows by capture; one of changes replaces in its targets what
is found in either table of a capture, as a MERGE does. Each attempt of a task is as a process of its own: it knows what
Airflow would tell it, the XCom of its capture.
"""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.checkpoints.variable import VariableStore
from airflow_provider_ips.core.checkpoint.resolution import resolve_capture
from airflow_provider_ips.core.errors import IpsError, StoreUnavailableError
from airflow_provider_ips.core.positions import RunIdentity
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings, SourceTable
from airflow_provider_ips.maintenance.clean_up import clean_up, plan_clean_up
from airflow_provider_ips.runs.commit import CommitRun
from airflow_provider_ips.runs.pending import PendingRun
from airflow_provider_ips.runs.request import CaptureRequest
from tests.kit.calls import JOURNAL, JournaledStore, open_journaled, without_waiting_for_the_disk
from tests.kit.tables import branches, rows

CONSUMER = "daily.capture"
SOURCES = ("db.events", "db.users")
FOREVER_MS = 10**15
APPENDS = CaptureSettings()
CHANGES = CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow")
MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}


class Failed(Exception):  # noqa: N818 - a task that failed
    """The task failed with an error of ours; Airflow will retry it, or not."""


def run_of(name):
    return RunIdentity(dag_id="daily", run_id=name, map_index=-1, run_after="2026-11-01T00:00:00+00:00")


@dataclass
class Variables:
    """Airflow's, as a task sees them: an answer that does not come is an outage."""

    rows: dict[str, str]

    def get(self, key):
        return self._call("get", lambda: self.rows.get(key))

    def set(self, key, value, *, description):
        return self._call("set", lambda: self.rows.__setitem__(key, value))

    def keys(self, *, prefix):
        return self._call("keys", lambda: [key for key in self.rows if key.startswith(prefix)])

    def shadowed_by(self, _key):
        return None

    def _call(self, verb, function):
        try:
            return JOURNAL.call(f"variables.{verb}", function)
        except OSError as error:
            raise StoreUnavailableError("no answer") from error


class World:
    """Everything outside the process."""

    def __init__(self, folder, kind, settings=APPENDS, icdc_retention="next_commit", mode="ICDC", *, holds=False):
        self.folder, self.kind = Path(folder), kind
        self.settings, self.icdc_retention, self.mode, self.holds = settings, icdc_retention, mode, holds
        self.variables = Variables({})
        self.processed = {}
        self.targets: dict[str, set[int]] = {name: set() for name in SOURCES}
        self.saved = self.folder / "saved"
        self.catalogs = {}
        (self.folder / "lake").mkdir(parents=True)
        catalog = self.open()
        catalog.create_namespace("db")
        for name in SOURCES:
            schema = pa.schema([pa.field("id", pa.int64())])
            catalog.create_table(name, schema=schema, properties=MERGING)

    def open(self, *, is_plain=True):
        """A catalog, which keeps nothing between two calls; a plain one, the test's or a job's, is in no journal."""
        if is_plain not in self.catalogs:
            journaled = open_journaled(self.folder / "lake")
            places = {name: journaled.properties[name] for name in ("uri", "warehouse")}
            plain = without_waiting_for_the_disk(load_catalog("lake", type="sql", **places))
            self.catalogs = {True: plain, False: journaled}
        return self.catalogs[is_plain]

    def store(self, *, is_plain=False):
        if self.kind == "variable":
            return JournaledStore(VariableStore(access=self.variables))
        store = IcebergStore(self.open(is_plain=is_plain))
        return store if is_plain else JournaledStore(store)

    def append(self, *ids):
        """One snapshot in each source."""
        catalog = self.open()
        for name in SOURCES:
            catalog.load_table(name).append(pa.table({"id": pa.array(ids, pa.int64())}))

    def delete(self, number):
        """One snapshot in each source that rewrites the file of a row without it."""
        for name in SOURCES:
            self.open().load_table(name).delete(f"id = {number}")

    def source_rows(self, name):
        """What a source holds now."""
        return self._ids(name)

    def _ids(self, table):
        return rows(self.open(), table)

    def save(self):
        """Remember how everything is."""
        shutil.copytree(self.folder / "lake", self.saved)
        self.kept = (dict(self.variables.rows), dict(self.processed), self._copied(self.targets))

    @staticmethod
    def _copied(targets):
        return {name: set(ids) for name, ids in targets.items()}

    def restore(self):
        for catalog in self.catalogs.values():
            catalog.engine.dispose()
        shutil.rmtree(self.folder / "lake")
        shutil.copytree(self.saved, self.folder / "lake")
        rows, processed, targets = self.kept
        self.variables.rows.clear()
        self.variables.rows.update(rows)
        self.processed, self.targets = dict(processed), self._copied(targets)

    def capture(self, run):
        """One attempt of the capture task. Returns its XCom."""
        store = self.store()
        catalog = self.open(is_plain=False)
        try:
            checkpoint = store.read(CONSUMER)
            record = PendingRun(
                request=replace(_request(run, self.settings, self.mode), holds_source=self.holds),
                catalog=catalog,
                store=store,
                checkpoint=checkpoint,
                resolution=resolve_capture(checkpoint, run),
                now_ms=1,
            ).execute()
        except IpsError as error:
            raise Failed from error
        return record

    def work(self, record):
        """The job: reads what the capture named, notes it under the capture's name, and writes its targets."""
        was = JOURNAL.is_recording
        JOURNAL.is_recording = False
        done = self.processed[record.capture_id] = {}
        for source in record.sources:
            rows, before = ([] if t is None else self._ids(t) for t in (source.icdc_table, source.before_table))
            done[source.source.table] = rows
            self.targets[source.source.table] -= {*rows, *before}
            self.targets[source.source.table] |= set(rows)
        JOURNAL.is_recording = was

    def commit(self, run, record):
        """One attempt of the commit task."""
        task = CommitRun(
            record=record,
            open_store=self.store,
            open_catalog=lambda: self.open(is_plain=False),
            run=run,
            icdc_retention=self.icdc_retention,
            history_length=50,
            now_ms=2,
        )
        try:
            return task.execute().outcome
        except IpsError as error:
            raise Failed from error

    def run(self, name):
        """All three tasks."""
        run = run_of(name)
        record = self.capture(run)
        if not record.context.settled:
            self.work(record)
            self.commit(run, record)

    def checkpoint(self):
        return self.store(is_plain=True).read(CONSUMER)

    def collect(self):
        """`airflow ips gc`, without an age limit."""
        catalog = self.open()
        found = plan_clean_up(catalog, "icdc", [self.store(is_plain=True)], before_ms=FOREVER_MS)
        clean_up(catalog, found)

    def icdc_files(self):
        """Everything that captures have left in the storage."""
        return {f"file://{p}" for p in (self.folder / "lake/warehouse/icdc").rglob("*") if p.is_file()}

    def branches(self):
        """The captures that the sources hold in branches."""
        return {branch for name in SOURCES for branch in branches(self.open().load_table(name))}

    def log_files(self):
        """Everything that commits to checkpoint logs have left there."""
        return {f"file://{p}" for p in (self.folder / "lake/warehouse/ips_checkpoints").rglob("*") if p.is_file()}


def _request(run, settings, mode):
    return CaptureRequest(
        consumer=CONSUMER,
        run=run,
        sources=tuple((SourceTable(name), settings) for name in SOURCES),
        mode=mode,
        icdc_namespace="icdc",
        icdc_location=None,
        skip_if_empty=True,
        history_length=50,
        iceberg_conn_id="lake",
    )
