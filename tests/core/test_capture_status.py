"""The status of a capture, as the checkpoint of its consumer shows it."""

import pytest

from airflow_provider_ips.core.checkpoint.capture_status import CaptureState, CaptureStatus, capture_status
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import CommittedCapture, Intervention, PendingCapture
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


def test_a_capture_that_no_checkpoint_contains_is_unknown():
    assert capture_status(None, "a") == CaptureStatus(state=CaptureState.UNKNOWN)
    assert capture_status(checkpoint(history=(committed("b"),), pending=pending("c")), "a") == CaptureStatus(
        state=CaptureState.UNKNOWN
    )


def test_a_pending_capture_lists_what_it_supersedes():
    found = capture_status(checkpoint(pending=pending("a", supersedes=("x", "y"))), "a")

    assert found == CaptureStatus(state=CaptureState.PENDING, supersedes=("x", "y"))


def test_a_committed_capture_has_its_time_and_what_it_superseded():
    found = capture_status(checkpoint(history=(committed("a", at_ms=7, supersedes=("x",)), committed("b"))), "a")

    assert found == CaptureStatus(state=CaptureState.COMMITTED, committed_at_ms=7, supersedes=("x",))


@pytest.mark.parametrize("parts", [{"pending": pending("b", supersedes=("a",))}, {}])
def test_a_superseded_capture_names_the_run_that_includes_it(parts):
    """It is the newest one: a pending capture goes before a committed one."""
    history = (committed("c", supersedes=("a",), by="before"),)

    found = capture_status(checkpoint(history=history, **parts), "a")

    assert found == CaptureStatus(state=CaptureState.SUPERSEDED, superseded_by=run("now" if parts else "before"))


def test_a_change_by_hand_after_the_commit_is_named():
    hands = tuple(Intervention(at_ms=at, who="me", verb=verb, revision=1) for at, verb in ((5, "seed"), (9, "rewind")))
    both = checkpoint(history=(committed("a", at_ms=7), committed("b", at_ms=10)), interventions=hands)

    assert (capture_status(both, "a").intervention, capture_status(both, "b").intervention) == ("rewind", "")
