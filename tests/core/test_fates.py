"""What became of a capture, as its consumer's checkpoint tells."""

import pytest

from airflow_provider_ips.core.checkpoint import Checkpoint, CommittedCapture, PendingCapture
from airflow_provider_ips.core.fates import Fate, State, fate_of
from airflow_provider_ips.core.interventions import Intervention
from airflow_provider_ips.core.positions import RunIdentity


def run(name):
    return RunIdentity(dag_id="dag", run_id=name, map_index=-1, run_after="2026-10-01T00:00:00+00:00")


def committed(capture_id, *, at_ms=1_000, supersedes=(), by="earlier"):
    return CommittedCapture(
        capture_id=capture_id, run=run(by) if by else None, committed_at_ms=at_ms, ranges=(), supersedes=supersedes
    )


def pending(capture_id, *, supersedes=()):
    return PendingCapture(capture_id=capture_id, run=run("now"), started_at_ms=5_000, ranges=(), supersedes=supersedes)


def checkpoint(**parts):
    return Checkpoint(consumer="dag.capture", revision=1, **parts)


def test_what_no_checkpoint_knows_is_unknown_and_not_guessed():
    assert fate_of(None, "a") == Fate(state=State.UNKNOWN)
    assert fate_of(checkpoint(history=(committed("b"),), pending=pending("c")), "a") == Fate(state=State.UNKNOWN)


def test_a_pending_capture_tells_what_it_covers():
    found = fate_of(checkpoint(pending=pending("a", supersedes=("x", "y"))), "a")

    assert found == Fate(state=State.PENDING, covers=("x", "y"))


def test_a_committed_capture_tells_when_and_what_it_covered():
    found = fate_of(checkpoint(history=(committed("a", at_ms=7, supersedes=("x",)), committed("b"))), "a")

    assert found == Fate(state=State.COMMITTED, committed_at_ms=7, covers=("x",))


@pytest.mark.parametrize("parts", [{"pending": pending("b", supersedes=("a",))}, {}])
def test_a_superseded_capture_names_the_run_that_covers_it(parts):
    """The newest one: a pending capture that has taken over goes before what is committed."""
    history = (committed("c", supersedes=("a",), by="before"),)

    found = fate_of(checkpoint(history=history, **parts), "a")

    assert found == Fate(state=State.SUPERSEDED, by=run("now" if parts else "before"))


def test_a_hand_on_the_checkpoint_after_the_commit_is_told():
    hands = tuple(Intervention(at_ms=at, who="me", verb=verb, revision=1) for at, verb in ((5, "seed"), (9, "rewind")))
    both = checkpoint(history=(committed("a", at_ms=7), committed("b", at_ms=10)), interventions=hands)

    assert (fate_of(both, "a").intervention, fate_of(both, "b").intervention) == ("rewind", "")
