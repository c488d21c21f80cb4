"""Whether a job has written to a target, by the target's history alone."""

import pytest

from airflow_provider_ips.core.advice.target_evidence import require_moved_head, require_stamp
from airflow_provider_ips.core.errors import EvidenceError
from airflow_provider_ips.testing import InMemoryHistory


@pytest.fixture
def target():
    history = InMemoryHistory("db.target")
    history.append()
    return history


def head_of(history):
    return history.head.snapshot_id


@pytest.mark.parametrize("write", ["append", "merge_append", "rewrite_rows", "delete_rows", "remove"])
def test_any_write_moves_the_head(target, write):
    then = head_of(target)
    getattr(target, write)()
    require_moved_head(target, "c", head_before=then)


def test_a_write_counts_though_a_compaction_came_after_it(target):
    then = head_of(target)
    target.append()
    target.compact()
    require_moved_head(target, "c", head_before=then)


def test_the_first_write_of_a_table_that_was_not_there_counts(target):
    require_moved_head(target, "c", head_before=None)


def test_a_head_that_has_not_moved_is_refused(target):
    with pytest.raises(EvidenceError, match=r"nothing was written to db\.target .* is still"):
        require_moved_head(target, "c", head_before=head_of(target))


def test_a_table_that_is_still_empty_is_refused():
    with pytest.raises(EvidenceError, match="is still None"):
        require_moved_head(InMemoryHistory("db.target"), "c", head_before=None)


def test_a_head_that_only_a_compaction_moved_is_refused(target):
    target.append()
    then = head_of(target)
    target.compact()
    with pytest.raises(EvidenceError, match="by compaction alone"):
        require_moved_head(target, "c", head_before=then)


def test_a_rollback_is_refused(target):
    earlier = target.append()
    target.append()
    then = head_of(target)
    target.rollback(earlier)
    with pytest.raises(EvidenceError, match="rolled back, or the snapshot has expired"):
        require_moved_head(target, "c", head_before=then)


def test_an_expired_head_proves_nothing(target):
    first = target.append()
    target.append()
    target.expire(first)
    with pytest.raises(EvidenceError, match="rolled back, or the snapshot has expired"):
        require_moved_head(target, "c", head_before=first.snapshot_id)


def test_a_moved_head_does_not_replace_a_required_stamp(target):
    target.append()
    with pytest.raises(EvidenceError, match="has the stamp of capture c"):
        require_stamp(target, "c")
