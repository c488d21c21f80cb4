"""Derived names: deterministic, valid everywhere, never the same for two different things."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ips.core.identifiers import (
    MAX_TABLE_NAME,
    MAX_VARIABLE_KEY,
    Source,
    digest,
    icdc_table_name,
    is_masked_name,
    variable_key,
)

names = st.text(min_size=1, max_size=400)


@given(names, names)
def test_icdc_names_are_valid_in_every_catalog(source: str, capture_id: str) -> None:
    """Lower case letters, digits and underscores, a letter first, within the shortest limit."""
    name = icdc_table_name(Source(source), capture_id)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert len(name) <= MAX_TABLE_NAME
    assert name == icdc_table_name(Source(source), capture_id)


@given(names, names, names)
def test_two_captures_never_share_a_name(source: str, one: str, other: str) -> None:
    """Nor do two sources whose readable parts are the same."""
    assert (icdc_table_name(Source(source), one) == icdc_table_name(Source(source), other)) == (one == other)
    assert icdc_table_name(Source("db.a_b"), one) != icdc_table_name(Source("db_a.b"), one)


@given(names)
def test_variable_keys_fit_and_are_never_masked(consumer: str) -> None:
    """Airflow would show a masked document as stars, and its edit form would write the stars back."""
    key = variable_key(consumer)
    assert len(key) <= MAX_VARIABLE_KEY
    assert key.startswith("ips_")
    assert not is_masked_name(key)


def test_the_document_of_a_consumer_named_like_a_secret_is_not_masked() -> None:
    """The readable part is left out; the hash identifies the consumer."""
    assert "token" not in variable_key("refresh_token.capture")
    assert variable_key("refresh_token.capture") != variable_key("access_token.capture")


def test_a_digest_depends_on_where_each_part_ends() -> None:
    """Else ("a", "bc") and ("ab", "c") would be the same capture."""
    assert digest("a", "bc") != digest("ab", "c")
