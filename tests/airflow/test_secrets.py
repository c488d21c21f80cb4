"""Nothing secret of a connection is shown: in errors, logs, XComs and pages, however a library spells it."""

import base64
import json
import logging
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from airflow.sdk import DAG
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import RESTError

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from airflow_provider_ips.core.errors import CatalogError, IpsError
from airflow_provider_ips.hooks.ips import IpsHook
from airflow_provider_ips.redaction import redact, remember_secrets

PLACES = {
    "password": lambda s: {"login": "me", "password": s},
    "token": lambda s: {"extra": {"token": s}},
    "token with a newline": lambda s: {"extra": {"token": f"{s}\n{s[::-1]}"}},
    "header": lambda s: {"extra": {"header.X-Gateway": s}},
    "api key": lambda s: {"extra": {"api_key": s}},
    "unknown": lambda s: {"extra": {"some-new-option": s}},
    "account key": lambda s: {"extra": {"adls.account-key": s}},
    "connection string": lambda s: {
        "extra": {"adls.connection-string": f"DefaultEndpointsProtocol=https;AccountName=lake;AccountKey={s};Suffix=x"}
    },
    "sas token": lambda s: {"extra": {"adls.sas-token": f"sv=2024-08-04&ss=b&sig={quote(s, safe='')}&se=2027"}},
    "sas url": lambda s: {"extra": {"warehouse": f"https://lake.blob/x?sv=2024&sig={quote(s, safe='')}"}},
    "nested": lambda s: {"extra": {"auth": {"type": "oauth2", "oauth2": {"client_secret": s}}}},
    "JSON in text": lambda s: {"extra": {"gcs.session-kwargs": json.dumps({"private_key": s})}},
    "uri": lambda s: {"extra": {"type": "sql", "uri": f"postgresql://me:{quote(s, safe='')}@db/lake"}},
    "uri, not encoded": lambda s: {"extra": {"type": "sql", "uri": f"postgresql://me:{s}@db/lake"}},
    "host": lambda s: {"host": f"http://me:{s}@catalog/iceberg"},
}
SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in a URL": lambda s: quote(s, safe=""),
    "in a form": quote_plus,
    "in lower case": lambda s: quote(s, safe="").lower() if "%" in quote(s, safe="") else s,
    "quoted": repr,
    "as JSON": json.dumps,
    "as bytes": lambda s: repr(s.encode()),
    "by lines": lambda s: " | ".join(s.splitlines()),
    "in base64": lambda s: base64.b64encode(s.encode()).decode(),
}
# Printable, at least eight characters between two that nobody writes by chance.
SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_categories=["Z", "C"]), min_size=8)


def properties_of(connection):
    """What the hook hands to PyIceberg."""
    from airflow.sdk import Connection

    from airflow_provider_ips.hooks.ips import catalog_properties

    extra = {"type": "rest", "uri": "http://catalog", **connection.get("extra", {})}
    fields = {name: value for name, value in connection.items() if name != "extra"}
    return catalog_properties(Connection(conn_id="lake", conn_type="iceberg", extra=json.dumps(extra), **fields))


@settings(max_examples=150, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(secret=SECRETS, place=st.sampled_from(sorted(PLACES)), spelling=st.sampled_from(sorted(SPELLINGS)))
def test_no_spelling_of_any_secret_is_shown(secret, place, spelling):
    """Wherever it is in the connection."""
    assume(place != "connection string" or ";" not in secret)
    remember_secrets(properties_of(PLACES[place](secret)))

    shown = redact(f"failed with {SPELLINGS[spelling](secret)} in a request")

    assert SPELLINGS[spelling](secret) not in shown
    assert secret not in shown
    assert shown.startswith("failed with ")


@pytest.mark.parametrize(
    "text",
    [
        "https://lake.blob/x?sv=2024&sig=abc%2Fdef&se=2027",
        "postgresql://me:ab@abc%2Fdef@db/lake",
        "postgresql://me:ab/abc%2Fdef@db/lake",
        "AccountName=x;AccountKey=abc%2Fdef;",
        "{'api_key': 'abc%2Fdef'}",
        "x-api-key: abc%2Fdef",
        "header.X-Gateway=abc%2Fdef",
        "shared_key = abc%2Fdef",
    ],
)
def test_secrets_of_unknown_origin_are_known_by_their_names(text):
    """Those that a catalog hands out are in no connection."""
    assert "abc%2Fdef" not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "loading db.events failed: 404 at http://catalog/v1/namespaces/db/tables/events in eu-north-1",
        "s3://lake/db/events/metadata/00001-ab.metadata.json",
        "true, type=rest, warehouse=lake, 60000",
    ],
)
def test_what_is_harmless_is_shown(text):
    """Else nobody could read an error."""
    extra = {"s3.region": "eu-north-1", "warehouse": "lake", "type": "rest", "uri": "http://catalog", "x.y": "true"}
    remember_secrets(
        {**extra, "s3.endpoint": "http://storage:9000", "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
    )
    assert redact(text) == text


class LeakingCatalog(SqlCatalog):
    """Fails with everything that it knows."""

    def load_table(self, identifier):
        knows = {**self.properties}
        raise RESTError(f"{identifier}: {knows} {json.dumps(knows)} {quote(str(knows))}") from ValueError(str(knows))


def test_a_run_that_fails_shows_none(tmp_path, run_dag, monkeypatch, caplog):
    """Neither in its error, nor in the log, nor in an XCom."""
    hidden = {"token": "to-ken-4711\nse-cond-4711", "header.X-Gate": "gate-4711", "api_key": "api-4711-key"}
    hidden["s3.secret-access-key"] = "s3/4711+secret=="
    extra = {
        "py-catalog-impl": f"{__name__}.LeakingCatalog",
        "uri": f"sqlite:///{tmp_path}/lake.db",
        "warehouse": f"file://{tmp_path}",
        **hidden,
    }
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": extra}))
    with DAG("leaking", schedule=None) as dag:
        captured = IpCaptureOperator(task_id="capture", source_tables="db.events", iceberg_conn_id="lake", retries=0)
        IpCommitOperator(task_id="commit", capture=captured)

    with caplog.at_level(logging.DEBUG):
        ran = run_dag(dag)

    error = ran.errors["capture"]
    assert isinstance(error, CatalogError)
    assert "RESTError" in error.problem
    shown = "\n".join([str(error), repr(error.__cause__), str(ran.xcoms), caplog.text])
    assert "4711" not in shown


def test_a_catalog_that_does_not_open_shows_none(monkeypatch):
    """Its properties are known before it is opened."""
    extra = {"py-catalog-impl": "nowhere.Catalog", "uri": "http://me:ab@cd-4711@db", "some-key": "some-4711-value"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": extra}))
    with pytest.raises(IpsError) as raised:
        _ = IpsHook("lake").catalog
    assert "4711" not in str(raised.value)
