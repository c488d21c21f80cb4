"""What a target tells of a job's work, from its history alone."""

import pytest

from airflow_provider_ips.core.errors import EvidenceError
from airflow_provider_ips.core.memory import InMemoryHistory
from airflow_provider_ips.core.targets import demand_moved_head, demand_stamp


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
    demand_moved_head(target, "c", head_then=then)


def test_a_write_counts_though_a_compaction_came_after_it(target):
    then = head_of(target)
    target.append()
    target.compact()
    demand_moved_head(target, "c", head_then=then)


def test_the_first_write_of_a_table_that_was_not_there_counts(target):
    demand_moved_head(target, "c", head_then=None)


def test_a_head_that_stands_still_is_none(target):
    with pytest.raises(EvidenceError, match=r"nothing was written to db\.target .* is still"):
        demand_moved_head(target, "c", head_then=head_of(target))


def test_a_table_that_is_still_empty_is_none():
    with pytest.raises(EvidenceError, match="is still None"):
        demand_moved_head(InMemoryHistory("db.target"), "c", head_then=None)


def test_a_compaction_moves_the_head_and_no_row(target):
    target.append()
    then = head_of(target)
    target.compact()
    with pytest.raises(EvidenceError, match="by compaction alone"):
        demand_moved_head(target, "c", head_then=then)


def test_a_rollback_is_no_write(target):
    earlier = target.append()
    target.append()
    then = head_of(target)
    target.rollback(earlier)
    with pytest.raises(EvidenceError, match="rolled back or expired"):
        demand_moved_head(target, "c", head_then=then)


def test_an_expired_head_proves_nothing(target):
    first = target.append()
    target.append()
    target.expire(first)
    with pytest.raises(EvidenceError, match="rolled back or expired"):
        demand_moved_head(target, "c", head_then=first.snapshot_id)


def test_without_a_stamp_a_moved_head_does_not_do_where_the_stamp_is_wanted(target):
    target.append()
    with pytest.raises(EvidenceError, match="carries the stamp of capture c"):
        demand_stamp(target, "c")
