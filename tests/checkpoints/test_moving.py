"""Moving a checkpoint between stores: never two that can be used, never none."""

import pytest

from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.checkpoints.variable import ServerVariables, VariableStore
from airflow_provider_ips.core.checkpoint.manual_changes import plan_move
from airflow_provider_ips.core.errors import CheckpointConflictError, CheckpointError
from tests.checkpoints.test_cli import ips
from tests.kit.people import clear, go_on
from tests.kit.pipelines import Job, incremental
from tests.kit.tables import append, create

__all__ = ["ips"]
pytestmark = pytest.mark.usefixtures("airflow_database")


@pytest.fixture
def stores(lake):
    return {"variable": VariableStore(access=ServerVariables()), "iceberg": IcebergStore(lake)}


def move(ips, consumer, to, *words, **typed):
    return ips("move", "--consumer", consumer, "--to", to, "--conn-id", "lake", *words, **typed)


def bare(checkpoint):
    """All but what a move changes."""
    return (checkpoint.positions, checkpoint.pending, checkpoint.history, checkpoint.retained, checkpoint.extra)


@pytest.mark.parametrize(("here", "there"), [("variable", "iceberg"), ("iceberg", "variable")])
def test_a_checkpoint_is_moved(ips, stores, first, consumer, here, there):
    """All of it; where it was, it is out of use, and says where it is now."""
    stores[here].write(first, expected_revision=None)
    said = move(ips, consumer, there, typed=f"{consumer}\n")
    assert said.failure == ""
    assert bare(stores[there].read(consumer)) == bare(first)
    assert stores[there].read(consumer).interventions[-1].verb == "move"
    with pytest.raises(CheckpointError, match=f"was moved to the store '{there}'"):
        stores[here].read(consumer)


def test_a_dry_run_moves_nothing(ips, stores, first, consumer):
    """And shows what would be."""
    stores["variable"].write(first, expected_revision=None)
    said = move(ips, consumer, "iceberg", "--dry-run")
    assert said.rows[0]["to_snapshot"] == "10"
    assert stores["variable"].read(consumer) == first
    assert stores["iceberg"].read(consumer) is None


def test_the_name_must_be_typed(ips, stores, first, consumer):
    stores["variable"].write(first, expected_revision=None)
    assert "not confirmed" in move(ips, consumer, "iceberg", typed="y\n").failure
    assert stores["variable"].read(consumer) == first


def test_it_is_moved_back(ips, stores, first, consumer):
    """Over the document that was left there; revisions keep counting."""
    stores["variable"].write(first, expected_revision=None)
    for to in ("iceberg", "variable", "iceberg"):
        assert move(ips, consumer, to, "--yes").failure == ""
    assert bare(stores["iceberg"].read(consumer)) == bare(first)
    assert [i.verb for i in stores["iceberg"].read(consumer).interventions] == ["move"] * 3
    assert stores["iceberg"].read(consumer).revision == 7


def test_a_move_that_died_in_between_is_completed(ips, stores, first, consumer):
    """It is marked as moved here and is not there yet: it cannot be used, and the same command completes the move."""
    stores["variable"].write(first, expected_revision=None)
    plan = plan_move(consumer, first, None, to="iceberg")
    stores["variable"].write(plan.at_origin, expected_revision=1)
    with pytest.raises(CheckpointError, match="was moved"):
        stores["variable"].read(consumer)
    assert move(ips, consumer, "iceberg", "--yes").failure == ""
    assert bare(stores["iceberg"].read(consumer)) == bare(first)


def test_a_checkpoint_is_not_moved_over_another(ips, stores, first, consumer):
    """Two that can be used are an accident, and which is right is unknown."""
    for store in stores.values():
        store.write(first, expected_revision=None)
    assert "has a checkpoint in the store 'iceberg' already" in move(ips, consumer, "iceberg", "--yes").failure
    assert stores["variable"].read(consumer) == stores["iceberg"].read(consumer) == first


def test_moving_twice_says_that_nothing_is_left_to_do(ips, stores, first, consumer):
    stores["variable"].write(first, expected_revision=None)
    move(ips, consumer, "iceberg", "--yes")
    before = stores["iceberg"].read(consumer)
    assert "nothing is left to do" in move(ips, consumer, "iceberg", "--yes").failure
    assert stores["iceberg"].read(consumer) == before


def test_what_has_no_checkpoint_cannot_be_moved(ips, consumer, lake):
    assert "airflow ips list" in move(ips, consumer, "iceberg", "--yes").failure


def test_a_run_that_read_before_the_move_writes_nothing_after_it(ips, stores, first, consumer):
    """Its revision is another by then, here; and there it has read nothing."""
    from dataclasses import replace

    stores["variable"].write(first, expected_revision=None)
    read = stores["variable"].read(consumer)
    move(ips, consumer, "iceberg", "--yes")
    late = replace(read, revision=read.revision + 1, retained=("icdc.late",))
    with pytest.raises(CheckpointConflictError):
        stores["variable"].write(late, expected_revision=read.revision)
    assert stores["iceberg"].read(consumer).retained == ()


def test_a_dag_goes_on_where_its_checkpoint_was_moved_to(ips, stores, lake, run_dag):
    """Nothing twice, nothing lost; with the old setting it is refused."""
    events = create(lake, "db.events")
    append(events, [1, 2])
    job = Job(lake)
    run_dag(incremental("moved", "db.events", job))
    assert move(ips, "moved.capture", "iceberg", "--yes").failure == ""
    append(events, [3])
    assert "was moved" in str(run_dag(incremental("moved", "db.events", job)).errors["capture"])
    run_dag(incremental("moved", "db.events", job, capture={"checkpoint_store": "iceberg"}))
    assert job.seen == [[1, 2], [3]]


def test_a_pending_capture_moves_along(ips, stores, lake, run_dag):
    """Its range is covered by the next run, at the new place."""
    events = create(lake, "db.events")
    append(events, [1, 2])
    job = Job(lake)
    job.fails = True
    run_dag(incremental("pending_moved", "db.events", job))
    move(ips, "pending_moved.capture", "iceberg", "--yes")
    job.fails = False
    run_dag(incremental("pending_moved", "db.events", job, capture={"checkpoint_store": "iceberg"}))
    assert job.seen == [[1, 2]]
    assert stores["iceberg"].read("pending_moved.capture").history[-1].supersedes


def test_a_run_goes_on_in_the_store_that_its_checkpoint_was_moved_to(ips, stores, lake, run_dag):
    """Moved between capture and commit: refused by the old setting, committed once by the new one."""
    events = create(lake, "db.events")
    append(events, [1, 2])
    job = Job(lake)
    job.fails = True
    ran = run_dag(incremental("moved_under_way", "db.events", job))
    job.fails = False
    assert move(ips, "moved_under_way.capture", "iceberg", "--yes").failure == ""
    clear(ran, "work", "commit")
    before = incremental("moved_under_way", "db.events", job)
    refused = go_on(before, ran)
    assert "was moved to the store 'iceberg'" in str(refused.errors["commit"])
    clear(ran, "commit")
    after = incremental("moved_under_way", "db.events", job, capture={"checkpoint_store": "iceberg"})
    assert go_on(after, ran).states["commit"] == "success"
    assert job.seen == [[1, 2]]
    (committed,) = stores["iceberg"].read("moved_under_way.capture").history
    assert committed.run.run_id == ran.dag_run.run_id


def test_a_store_that_does_not_answer_moves_nothing(ips, stores, first, consumer, monkeypatch):
    """Nothing is marked before both have been read."""
    stores["variable"].write(first, expected_revision=None)
    monkeypatch.setenv("AIRFLOW__IPS__CHECKPOINT_CONN_ID", "nowhere")
    assert "nowhere" in move(ips, consumer, "iceberg", "--yes").failure
    assert stores["variable"].read(consumer) == first
