"""Checkpoints in the Variables of a real Airflow: what is written can be read, and nothing is taken for a first run."""

# ruff: noqa: AIR311 - the rows in the database are the subject

import json
import multiprocessing
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from airflow.models import Variable
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG
from airflow.utils.session import create_session
from cryptography.fernet import Fernet
from sqlalchemy import select

from airflow_provider_ips.checkpoints.variable import ServerVariables, TaskVariables, VariableStore
from airflow_provider_ips.core.checkpoint.manual_changes import seed
from airflow_provider_ips.core.errors import (
    CheckpointConflictError,
    DamagedCheckpointError,
    InputError,
    StoreUnavailableError,
)
from airflow_provider_ips.core.identifiers import variable_key
from tests.checkpoints.conftest import standing

pytestmark = pytest.mark.usefixtures("airflow_database")


@pytest.fixture
def store():
    return VariableStore(access=ServerVariables())


def following(checkpoint):
    return replace(checkpoint, revision=checkpoint.revision + 1)


def stored(consumer):
    """The row in Airflow's database."""
    with create_session() as session:
        return session.scalar(select(Variable).where(Variable.key == variable_key(consumer)))


def test_what_is_written_is_read(store, first, consumer):
    """Revision by revision."""
    store.write(first, expected_revision=None)
    assert store.read(consumer) == first
    store.write(following(first), expected_revision=1)
    assert store.read(consumer) == following(first)


def test_a_consumer_without_a_variable_has_no_checkpoint(store, consumer):
    """Proven by the list of keys."""
    assert store.read(consumer) is None


def test_a_name_that_begins_like_another_proves_nothing(store, first, consumer):
    """Keys are listed by prefix and compared as a whole."""
    key = variable_key(consumer)
    Variable.set(f"{key}0", "another's")
    assert store.read(consumer) is None


@pytest.fixture
def encrypt_with(monkeypatch):
    """Give Airflow an encryption key; the next call takes that away again and gives another."""
    from airflow.models.crypto import get_fernet

    def use(key):
        monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", key)
        get_fernet.cache_clear()

    yield use
    monkeypatch.undo()
    get_fernet.cache_clear()


@pytest.mark.parametrize("later", [Fernet.generate_key().decode(), ""], ids=["another key", "no key"])
def test_a_variable_under_another_encryption_key_is_no_first_run(store, first, consumer, encrypt_with, later):
    """With another key Airflow says "not found", with none it hands out the cipher: neither is an answer."""
    encrypt_with(Fernet.generate_key().decode())
    store.write(first, expected_revision=None)
    assert store.read(consumer) == first
    cipher = stored(consumer)._val
    encrypt_with(later)
    with pytest.raises(StoreUnavailableError, match="exists but cannot be read") as caught:
        store.read(consumer)
    assert "fernet_key" in caught.value.remedy
    with pytest.raises(StoreUnavailableError):
        store.write(first, expected_revision=None)
    assert stored(consumer)._val == cipher


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-40],
        lambda text: text.replace("db.access_token", "***"),
        lambda text: text.replace('"revision": 1', '"revision": "1"'),
        lambda _: "",
    ],
    ids=["truncated", "masked", "retyped", "emptied"],
)
def test_a_damaged_document_is_kept(store, first, consumer, damage):
    """Neither read as something else nor written over: what is left may be all there is to repair it with."""
    text = damage(first.to_text())
    key = variable_key(consumer)
    Variable.set(key, text)
    with pytest.raises(DamagedCheckpointError) as caught:
        store.read(consumer)
    assert f"airflow variables get {key}" in caught.value.remedy
    assert "airflow ips seed" in caught.value.remedy
    for expected in (None, 1):
        with pytest.raises(DamagedCheckpointError):
            store.write(following(first), expected_revision=expected)
    assert stored(consumer).val == text


def test_the_repair_that_the_error_names_works(store, first, consumer):
    """Delete the Variable, then seed."""
    Variable.set(variable_key(consumer), "***")
    Variable.delete(variable_key(consumer))
    assert store.read(consumer) is None
    store.write(first, expected_revision=None)


@pytest.mark.parametrize("expected", [None, 0, 2])
def test_a_write_over_another_revision_is_refused(store, first, consumer, expected):
    """Somebody wrote since this writer read."""
    store.write(first, expected_revision=None)
    with pytest.raises(CheckpointConflictError, match="is at revision 1"):
        store.write(replace(first, revision=3), expected_revision=expected)
    assert store.read(consumer) == first


def test_a_document_that_vanished_is_a_conflict(store, first, consumer):
    """Deleted while the task ran: to write it again would undo that."""
    with pytest.raises(CheckpointConflictError, match="is at no document"):
        store.write(following(first), expected_revision=1)
    assert store.read(consumer) is None


@dataclass
class Meddled:
    """Variables to which something happens at the moment of a write."""

    on_set: Callable[..., None]
    inner: ServerVariables = field(default_factory=ServerVariables)

    def get(self, key):
        return self.inner.get(key)

    def keys(self, *, prefix):
        return self.inner.keys(prefix=prefix)

    def shadowed_by(self, key):
        return self.inner.shadowed_by(key)

    def set(self, key, value, *, description):
        self.on_set(self.inner, key, value, description)


def test_two_writers_at_once_do_not_both_succeed(first, consumer):
    """Both read the same revision and both wrote: the one that reads back the other's bytes fails."""
    theirs = replace(first, positions=(standing(99),))

    def both(variables, key, value, description):
        variables.set(key, value, description=description)
        variables.set(key, theirs.to_text(), description=description)

    with pytest.raises(CheckpointConflictError, match="overwritten right after"):
        VariableStore(access=Meddled(both)).write(first, expected_revision=None)


def test_a_write_whose_answer_was_lost_is_a_write(store, first, consumer):
    """The connection broke after the database had stored it, which reading back shows."""

    def lose_answer(variables, key, value, description):
        variables.set(key, value, description=description)
        raise StoreUnavailableError("no answer")

    VariableStore(access=Meddled(lose_answer)).write(first, expected_revision=None)
    assert store.read(consumer) == first


def test_a_write_that_failed_is_a_failure(store, first, consumer):
    """With the store's own error, and nothing written."""

    def fail(variables, key, value, description):
        raise StoreUnavailableError("no answer")

    with pytest.raises(StoreUnavailableError, match="no answer"):
        VariableStore(access=Meddled(fail)).write(first, expected_revision=None)
    assert store.read(consumer) is None


@pytest.fixture
def vault(monkeypatch, tmp_path):
    """A secrets backend that Airflow reads before the database: a file of Variables."""

    def hold(key, value):
        held = tmp_path / "held.json"
        held.write_text(json.dumps({key: value}))
        backend = "airflow.secrets.local_filesystem.LocalFilesystemBackend"
        monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", backend)
        monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND_KWARGS", json.dumps({"variables_file_path": str(held)}))

    return hold


@pytest.mark.parametrize("by", ["environment", "vault"])
def test_a_variable_that_something_shadows_is_refused(store, first, consumer, monkeypatch, vault, by):
    """An old copy elsewhere wins over the database: neither is it read, nor is what was written since written over."""
    store.write(first, expected_revision=None)
    store.write(following(first), expected_revision=1)
    key = variable_key(consumer)
    if by == "vault":
        vault(key, first.to_text())
    else:
        monkeypatch.setenv(f"AIRFLOW_VAR_{key.upper()}", first.to_text())
    for attempt in (lambda: store.read(consumer), lambda: store.write(following(first), expected_revision=1)):
        with pytest.raises(StoreUnavailableError, match="is shadowed by") as caught:
            attempt()
        assert "AIRFLOW_VAR_" in caught.value.remedy
    assert stored(consumer).val == following(first).to_text()


def test_a_shadow_in_a_worker_is_noticed_there(run_dag, store, first, consumer, monkeypatch):
    """The task reads the backends that come before the API server."""
    store.write(first, expected_revision=None)
    monkeypatch.setenv(f"AIRFLOW_VAR_{variable_key(consumer).upper()}", first.to_text())

    def work():
        try:
            return str(VariableStore().read(consumer))
        except StoreUnavailableError as error:
            return error.problem

    assert "EnvironmentVariablesBackend" in in_a_task(run_dag, consumer, work)


def test_a_shadow_that_only_the_server_sees_is_found_by_reading_back(first, consumer):
    """What was written is not what is read, whichever backend answers."""

    @dataclass
    class Lagging(Meddled):
        def get(self, key):
            return None if self.inner.get(key) is None else first.to_text()

        def shadowed_by(self, key):
            return None

    plainly = Meddled(lambda variables, key, value, description: variables.set(key, value, description=description))
    VariableStore(access=plainly).write(first, expected_revision=None)
    lagging = VariableStore(access=Lagging(plainly.on_set))
    with pytest.raises(StoreUnavailableError, match="reads back as something else"):
        lagging.write(following(first), expected_revision=1)


def test_a_cache_of_secrets_is_not_asked(store, first, consumer, monkeypatch):
    """With [secrets] use_cache, an absence and an older revision would be answered for a quarter of an hour."""
    from airflow.sdk import SecretCache

    monkeypatch.setenv("AIRFLOW__SECRETS__USE_CACHE", "True")
    processes = set(multiprocessing.active_children())
    SecretCache.init()
    try:
        assert store.read(consumer) is None
        with create_session() as session:
            session.add(Variable(key=variable_key(consumer), val=first.to_text()))
        assert store.read(consumer) == first
    finally:
        SecretCache.reset()
        # The cache is a process, forked from this one and deaf to SIGTERM. If it outlived this one, so would the JVM of
        # this worker's Spark, which ends when the last pipe to it is closed.
        for cache in set(multiprocessing.active_children()) - processes:
            cache.kill()
            cache.join()


def test_a_name_that_this_deployment_masks_is_refused(store, first, consumer, monkeypatch):
    """A configured word in the consumer's name would let the UI write the mask over the position."""
    monkeypatch.setenv("AIRFLOW__CORE__SENSITIVE_VAR_CONN_NAMES", "other, Daily")
    for attempt in (lambda: store.read(consumer), lambda: store.write(first, expected_revision=None)):
        with pytest.raises(InputError, match="masks") as caught:
            attempt()
        assert "sensitive_var_conn_names" in str(caught.value)


def test_a_field_that_this_deployment_masks_is_refused(store, first, consumer, monkeypatch):
    """A configured word among the document's own keys does the same damage."""
    monkeypatch.setenv("AIRFLOW__CORE__SENSITIVE_VAR_CONN_NAMES", "snapshot")
    with pytest.raises(InputError, match="snapshot_id"):
        store.write(first, expected_revision=None)
    monkeypatch.setenv("AIRFLOW__CORE__HIDE_SENSITIVE_VAR_CONN_FIELDS", "False")
    store.write(first, expected_revision=None)


def test_the_ui_shows_the_document_as_it_is(store, first, consumer):
    """Airflow redacts a Variable before its edit form shows it; saved again, the checkpoint must still be the same."""
    from airflow.api_fastapi.core_api.datamodels.variables import VariableResponse

    store.write(first, expected_revision=None)
    shown = VariableResponse.model_validate(stored(consumer), from_attributes=True)
    assert "db.access_token" in str(shown.val)
    Variable.set(variable_key(consumer), shown.val)
    assert store.read(consumer) == first


def test_a_person_can_tell_what_the_variable_is(store, first, consumer):
    """Its description names the consumer and the commands."""
    store.write(first, expected_revision=None)
    assert consumer in stored(consumer).description
    assert "airflow ips" in stored(consumer).description


def test_consumers_are_listed(store, first, consumer):
    """By the names in the documents; Variables of others, whatever they are called, are not ours."""
    store.write(first, expected_revision=None)
    Variable.set("ips_settings", '{"consumer": "x"}')
    Variable.set("ips_ffffffffffffffffffff", '{"consumer": "somebody else\'s"}')
    found = store.consumers()
    assert consumer in found
    assert not {"x", "somebody else's"} & set(found)


def test_a_damaged_document_is_listed_by_its_key(store, consumer):
    """It cannot say whose it is, but it must not be invisible."""
    Variable.set(variable_key(consumer), "{")
    assert (f"Variable {variable_key(consumer)}", None) in [document[:2] for document in store.documents()]


def test_a_document_that_cannot_say_whose_it_is_is_listed_by_its_key(store, consumer):
    """Its field is where we write it, and what it holds is not JSON."""
    Variable.set(variable_key(consumer), '{\n "consumer": "\\x"\n}')
    assert (f"Variable {variable_key(consumer)}", None) in [document[:2] for document in store.documents()]


def test_outside_a_task_the_task_sdk_cannot_answer(consumer):
    """Nothing answers, which is an outage and not an absence."""
    with pytest.raises(StoreUnavailableError):
        VariableStore(access=TaskVariables()).read(consumer)


def in_a_task(run_dag, consumer, work):
    """Run ``work`` in a task of a real DAG run and return what it returned."""
    with DAG(f"store_{consumer.partition('.')[0]}", schedule=None) as dag:
        PythonOperator(task_id="work", python_callable=work)
    ran = run_dag(dag)
    assert ran.states == {"work": "success"}
    return ran.xcom("return_value", task="work")


def test_a_task_reads_what_a_task_wrote(run_dag, store, consumer):
    """Through the API server, as workers do, with the command line seeing the same."""

    def work():
        store = VariableStore()
        before = store.read(consumer)
        document = seed(None, consumer=consumer, positions=(standing(10),), now_ms=1)
        store.write(document, expected_revision=None)
        again = store.read(consumer)
        store.write(following(document), expected_revision=1)
        return [before is None, again == document, consumer in store.consumers()]

    assert in_a_task(run_dag, consumer, work) == [True, True, True]
    assert store.read(consumer).revision == 2


@pytest.mark.parametrize("existing", [False, True], ids=["absent", "existing"])
def test_an_outage_in_a_task_is_no_first_run(run_dag, store, first, consumer, existing):
    """The API server cannot reach its table: neither read nor write may take that for an absent checkpoint."""
    if existing:
        store.write(first, expected_revision=None)

    def work():
        store, found = VariableStore(), []
        database = os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].removeprefix("sqlite:///")
        with sqlite3.connect(database) as connection:
            connection.execute("ALTER TABLE variable RENAME TO variable_away")
        try:
            for attempt in (
                lambda: store.read(consumer),
                lambda: store.write(first, expected_revision=None),
                store.consumers,
            ):
                try:
                    found.append(str(attempt()))
                except StoreUnavailableError:
                    found.append("unavailable")
        finally:
            with sqlite3.connect(database) as connection:
                connection.execute("ALTER TABLE variable_away RENAME TO variable")
        return found

    assert in_a_task(run_dag, consumer, work) == ["unavailable"] * 3
    assert store.read(consumer) == (first if existing else None)


@pytest.fixture
def teams(monkeypatch):
    """Two teams, each of which Airflow shows its own Variables."""
    from airflow.models.team import Team

    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    with create_session() as session:
        for name in ("red", "blue"):
            session.merge(Team(name=name))


@pytest.mark.usefixtures("teams")
def test_a_command_finds_the_checkpoint_of_a_team(store, first, consumer):
    """Airflow's own command would not: it belongs to none."""
    Variable.set(variable_key(consumer), first.to_text(), team_name="red")

    assert store.read(consumer) == first
    store.write(following(first), expected_revision=first.revision)

    assert store.read(consumer) == following(first)
    assert stored(consumer).team_name == "red"


@pytest.mark.usefixtures("teams")
def test_a_task_does_not_take_the_checkpoint_of_another_team_for_absent(consumer):
    """It is not shown that one, and a write would overwrite it."""

    class Hidden(TaskVariables):
        def get(self, key):
            return None

        def keys(self, *, prefix):
            return []

        def shadowed_by(self, key):
            return None

    with pytest.raises(StoreUnavailableError, match="multi_team") as caught:
        VariableStore(access=Hidden()).read(consumer)
    assert "checkpoint_store=iceberg" in caught.value.remedy


@pytest.mark.usefixtures("teams")
@pytest.mark.parametrize("owner", ["red", None])
def test_a_task_without_a_team_is_not_shown_that_of_a_team(run_dag, first, consumer, owner):
    """Through the real API: Airflow lists its name and does not give its value. One of no team is read."""
    Variable.set(variable_key(consumer), first.to_text(), team_name=owner)

    def work():
        try:
            return str(VariableStore().read(consumer) == first)
        except StoreUnavailableError as error:
            return error.problem

    assert ("exists but cannot be read" if owner else "True") in in_a_task(run_dag, consumer, work)
