"""Claims of backfills in Iceberg, beside the logs of checkpoints."""

import pytest
from pyiceberg.exceptions import ServiceUnavailableError

from airflow_provider_ips.checkpoints.claim_tables import ClaimTables
from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.core.backfill.claims import claim_key, target_prefix
from airflow_provider_ips.core.errors import StoreUnavailableError
from airflow_provider_ips.core.positions import RunIdentity


def key_of(run_id, target="db.daily@main"):
    run = RunIdentity(dag_id="chunked", run_id=run_id, map_index=-1, run_after="2026-10-01T00:00:00+00:00")
    return claim_key(target, run, "plan")


@pytest.fixture
def claims(lake):
    return ClaimTables(IcebergStore(lake))


def test_a_claim_is_found_by_its_key_and_by_its_target(claims):
    first, second, other = key_of("one"), key_of("two"), key_of("one", "db.weekly@main")
    for key in (first, second, other):
        claims.set(key, f"text of {key}", description="a claim")

    assert claims.get(second) == f"text of {second}"
    assert sorted(claims.keys(prefix=target_prefix("db.daily@main"))) == sorted([first, second])
    assert claims.keys(prefix=first) == [first]


def test_a_claim_that_is_renewed_has_the_new_text(claims):
    claims.set(key_of("one"), "first", description="a claim")
    claims.set(key_of("one"), "second", description="a claim")

    assert claims.get(key_of("one")) == "second"


def test_a_claim_that_is_deleted_or_was_never_written_is_absent(claims):
    claims.set(key_of("one"), "text", description="a claim")
    claims.delete(key_of("one"))

    assert claims.get(key_of("one")) is None
    assert claims.keys(prefix=key_of("one")) == []
    assert claims.get(key_of("two")) is None


def test_a_claim_is_not_taken_for_a_checkpoint(claims, lake):
    claims.set(key_of("one"), "text", description="a claim")

    assert list(IcebergStore(lake).documents()) == []


def test_an_outage_is_not_an_absence(claims, lake, monkeypatch):
    """Two backfills would write the same part of one target."""

    def fail(*_):
        raise ServiceUnavailableError("down")

    monkeypatch.setattr(lake, "list_tables", fail)
    with pytest.raises(StoreUnavailableError):
        claims.keys(prefix=key_of("one"))
    monkeypatch.setattr(lake, "load_table", fail)
    with pytest.raises(StoreUnavailableError):
        claims.get(key_of("one"))
