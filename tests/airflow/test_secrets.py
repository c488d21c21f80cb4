"""Nothing secret of a connection is shown: in errors, logs, XComs and pages, however a library spells it."""

import base64
import html
import json
import logging
import re
import traceback
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
import requests
from airflow.sdk import DAG
from airflow.sdk.log import mask_logs
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import RESTError

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from airflow_provider_ips.core.errors import CatalogError, IpsError
from airflow_provider_ips.hooks.ips import IpsHook
from airflow_provider_ips.iceberg.foreign_errors import translate_errors
from airflow_provider_ips.redaction import cause_without_secrets, redact, redacted_message, remember_secrets
from tests.airflow.test_record_pages import airflow_app, api, page_of
from tests.kit.tables import append, create

__all__ = ["airflow_app", "api"]

PLACES = {
    "password": lambda s: {"login": "me", "password": s},
    "token": lambda s: {"extra": {"token": s}},
    "token with a newline": lambda s: {"extra": {"token": f"{s}\n{s[::-1]}"}},
    "header": lambda s: {"extra": {"header.X-Gateway": s}},
    "api key": lambda s: {"extra": {"api_key": s}},
    "cookie": lambda s: {"extra": {"header.Cookie": f"session={s}; path=/"}},
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
    "in a URL in a URL": lambda s: quote(quote(s, safe=""), safe=""),
    "in a page": html.escape,
    "quoted": repr,
    "quoted within quotes": lambda s: repr(repr(f"'{s}'")),
    "as JSON": json.dumps,
    "as JSON of Unicode": lambda s: json.dumps(s, ensure_ascii=False),
    "as JSON with escaped slashes": lambda s: json.dumps(s).replace("/", r"\/"),
    "as JSON within JSON": lambda s: json.dumps(json.dumps(s)),
    "as JSON in a URL": lambda s: quote(json.dumps(s)),
    "as bytes": lambda s: repr(s.encode()),
    "by lines": lambda s: " | ".join(s.splitlines()),
    "in base64": lambda s: base64.b64encode(s.encode()).decode(),
    "in base64 without padding": lambda s: base64.urlsafe_b64encode(s.encode()).decode().rstrip("="),
    "as hex": lambda s: s.encode().hex(),
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
    assume(place not in ("connection string", "cookie") or not set(";,=") & set(secret))
    remember_secrets(properties_of(PLACES[place](secret)))

    shown = redact(f"failed with {SPELLINGS[spelling](secret)} in a request")

    assert SPELLINGS[spelling](secret) not in shown
    assert secret not in shown
    left = shown.removeprefix("failed with ").removesuffix(" in a request")
    assert len(re.sub(r"[*'\"\\]", "", left)) < 8  # quotes in a URL or a page, and the ends of base64


def test_a_secret_within_base64_is_hidden_wherever_it_begins():
    """A login is a name and a password in base64."""
    remember_secrets({"header.X-Gate": "gate/4711+secret"})
    for before in ("", "m", "me:", "me:x"):
        encoded = base64.b64encode(f"{before}gate/4711+secret:after".encode()).decode()
        shown = redact(f"sent {encoded}").removeprefix("sent ").split("***")
        assert [b"47" in base64.b64decode(part[: len(part) // 4 * 4]) for part in shown] == [False, False]


def test_a_number_may_be_a_secret():
    remember_secrets({"proxy-password": 47114711, "s3.connect-timeout": 60000, "page-size": 10000})
    assert redact("47114711 60000 10000") == "*** 60000 10000"


def test_no_tail_is_left_of_a_secret_that_begins_like_another():
    remember_secrets({"one-key": "start-4711", "other-key": "start-4711-tail"})
    assert redact("'start-4711-tail', 'start-4711'") == "'***', '***'"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", ["x", "1.1-", "a://", "://x:", "token-", "a-key=", "header."])
def test_a_long_answer_is_redacted_soon(part):
    """A server may answer with megabytes of anything."""
    message = redacted_message(RESTError(part * 1_000_000))
    assert len(message) <= 400


def test_a_key_of_many_lines_is_hidden_soon():
    """Airflow compiles all that it hides again for each text that is added."""
    key = "\n".join(base64.b64encode(bytes(range(number, number + 48))).decode() for number in range(26))
    properties = {"gcs.service-account": json.dumps({"private_key": key})}

    masks = remember_secrets(properties)

    assert len(masks) < 100
    assert redact(f"cannot parse {json.dumps(json.dumps(properties))} and {key}").count("***") >= 2
    assert all(line not in redact(f"line: {line}") for line in key.splitlines())


def failed(raising):
    """The error, with what it was raised with."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever it is
        raising()
    return raised.value


def from_cause():
    raise CatalogError("a") from KeyError({"sent": ("hidden-4711",)})


def in_context():
    try:
        int("hidden-4711")
    except ValueError:
        raise OSError("b")  # noqa: B904 - as it happens


def with_a_note():
    error = OSError("c")
    error.add_note("sent hidden-4711")
    raise error


def in_a_group():
    raise ExceptionGroup("d", [ValueError("e"), ExceptionGroup("f", [OSError("hidden-4711")])])


@pytest.mark.parametrize("raising", [from_cause, in_context, with_a_note, in_a_group])
def test_an_error_that_shows_a_secret_anywhere_is_no_cause(raising):
    """A log shows all that an error was raised from."""
    remember_secrets({"some-key": "hidden-4711"})
    assert cause_without_secrets(failed(raising)) is None


def test_an_error_without_secrets_is_the_cause():
    error = failed(lambda: (_ for _ in ()).throw(ExceptionGroup("d", [ValueError("e")])))
    assert cause_without_secrets(error) is error


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
    """Says everything that it knows, in its log and in its errors."""

    fails_at: set = set()  # noqa: RUF012 - set by the test, for a catalog that the hook makes

    def _leak(self, what, identifier):
        knows = {**self.properties}
        told = f"{identifier}: {knows} {json.dumps(json.dumps(knows))} {quote(str(knows))}"
        encoded = base64.b64encode(json.dumps(knows).encode()).decode()
        logging.getLogger("pyiceberg").warning("%s %s %s", what, told, encoded)
        if what in self.fails_at:
            raise RESTError(f"{told} {encoded}") from KeyError(knows)

    def load_table(self, identifier):
        self._leak("load_table", identifier)
        return super().load_table(identifier)

    def register_table(self, identifier, metadata_location, *args, **kwargs):
        self._leak("register_table", identifier)
        return super().register_table(identifier, metadata_location, *args, **kwargs)

    def drop_table(self, identifier):
        self._leak("drop_table", identifier)
        super().drop_table(identifier)


HIDDEN = {
    "token": "to-ken-zq7x\nse-cond-zq7x",
    "header.X-Gate": "gate-zq7x",
    "header.Cookie": "session=cookie-zq7x; path=/",
    "api_key": "api-zq7x-key",
    "s3.secret-access-key": "s3/zq7x+secret==",
    "adls.connection-string": "AccountName=lake;AccountKey=ac/zq7x+key==;EndpointSuffix=core.windows.net",
    "adls.sas-token": "sv=2024&sig=si%2Fgzq7x%3D",
    "proxy": "http://me:pa@ss/zq7x@proxy:3128",
}


@pytest.fixture
def leaking(tmp_path, monkeypatch):
    """A connection whose catalog tells everything that it knows: the table of the lake, or an error."""
    properties = {"uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}/warehouse"}
    extra = {"py-catalog-impl": f"{__name__}.LeakingCatalog", **properties, **HIDDEN}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": extra}))
    monkeypatch.setattr(LeakingCatalog, "fails_at", set())
    (tmp_path / "warehouse").mkdir()
    catalog = LeakingCatalog("lake", **properties)
    catalog.create_namespace("db")
    append(create(catalog, "db.events"), [1, 2, 3])
    return LeakingCatalog.fails_at


def logged(caplog):
    """What was logged, that of libraries as Airflow's own filter leaves it."""
    formatter = logging.Formatter()
    for record in caplog.records:
        text = formatter.format(record)
        yield (
            text
            if record.name.startswith("airflow_provider_ips")
            else mask_logs(None, "info", {"event": text})["event"]
        )


@pytest.mark.parametrize("fails_at", ["nothing", "load_table", "register_table", "drop_table"])
def test_no_run_shows_any(leaking, fails_at, run_dag, api, caplog):
    """Neither in its errors, nor in the log, nor in an XCom, nor on the record page, whether it succeeds or fails."""
    with DAG("leaking", schedule=None) as dag:
        captured = IpCaptureOperator(task_id="capture", source_tables="db.events", iceberg_conn_id="lake", retries=0)
        IpCommitOperator(task_id="commit", capture=captured, icdc_retention="drop")
    leaking.add(fails_at)

    with caplog.at_level(logging.DEBUG):
        ran = run_dag(dag)

    page = api(page_of(ran))
    errors = ["".join(traceback.format_exception(error)) for error in ran.errors.values()]
    shown = "\n".join([*errors, repr(ran.errors), str(ran.xcoms), page.text, *logged(caplog)])
    assert page.status_code == (404 if fails_at in ("load_table", "register_table") else 200)
    assert ("RESTError" in shown) == (fails_at != "nothing")
    assert "zq7x" not in shown


def test_a_token_that_a_catalog_has_handed_out_is_not_shown():
    """No connection has it. The server shows it again, as it was sent, and the error is the cause of PyIceberg's."""
    response = requests.Response()
    response.request = requests.Request(
        "GET", "http://catalog", headers={"Authorization": "Bearer Fetched~zq7x.tok/en"}
    ).prepare()
    sent = requests.HTTPError("403", response=response)
    error = RESTError("the token Fetched~zq7x.tok/en has no right")
    error.__cause__ = sent

    with pytest.raises(IpsError) as raised, translate_errors("loading db.events"):
        raise error

    assert "zq7x" not in "".join(traceback.format_exception(raised.value))
    assert "has no right" in str(raised.value)


def test_a_catalog_that_does_not_open_shows_none(monkeypatch):
    """Its properties are known before it is opened."""
    extra = {"py-catalog-impl": "nowhere.Catalog", "uri": "http://me:ab@cd-zq7x@db", "some-key": "some-zq7x-value"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": extra}))
    with pytest.raises(IpsError) as raised:
        _ = IpsHook("lake").catalog
    assert "zq7x" not in str(raised.value)
