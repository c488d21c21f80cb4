"""Tables as assets: one name and one URI for each, as Airflow itself and lineage see them."""

import json
from urllib.parse import urlsplit

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetWatcher
from airflow.sdk.lineage import HookLineageCollector
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ips import IcebergAppendTrigger, iceberg_asset
from airflow_provider_ips.assets.uris import TableUri, sanitize_uri
from airflow_provider_ips.core.errors import InputError
from tests.kit.airflow import sync

CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Z"])
NAMES = st.text(CHARACTERS, min_size=1, max_size=8).filter(lambda name: "{" not in name)
PARTS = NAMES.filter(lambda name: not set(name) & set("`\"';\\/."))
TABLES = st.lists(PARTS, min_size=2, max_size=4).map(".".join)


def test_the_uri_names_connection_namespace_and_table():
    asset = iceberg_asset("db.playback", iceberg_conn_id="lake")

    assert (asset.name, asset.uri) == ("iceberg://lake/db/playback",) * 2


def test_a_branch_is_an_asset_of_its_own():
    """What is written to audit is not in main yet. The main branch needs no mention."""
    assert iceberg_asset("a.b.t", branch="audit").uri == "iceberg://iceberg_default/a/b/t?branch=audit"
    assert iceberg_asset("a.b.t", branch="main") == iceberg_asset("a.b.t")


def test_the_uri_alone_is_the_same_asset():
    """Airflow takes a URI without a name for the name, and two names for one URI fail a task."""
    asset = iceberg_asset("db.playback", iceberg_conn_id="lake", branch="audit")

    assert Asset(uri=asset.uri) == Asset(asset.uri) == asset


@given(TABLES, NAMES, NAMES)
def test_airflow_leaves_a_uri_as_it_is_and_it_leads_back(table, conn_id, branch):
    """Whatever characters the names are made of; so no two tables share a URI."""
    asset = iceberg_asset(table, iceberg_conn_id=conn_id, branch=branch)

    assert Asset(uri=asset.uri).uri == asset.normalized_uri == asset.uri == asset.name
    assert asset.uri.isascii()
    assert TableUri.parse(asset.uri) == TableUri.of(table, iceberg_conn_id=conn_id, branch=branch)


@pytest.mark.parametrize(
    "written",
    [
        "ICEBERG://lake/db/playback",
        "iceberg://lake/db/playback/",
        "iceberg://lake/db/playback?branch=main",
        "iceberg://lake/db/playback#today",
        "iceberg://l%61ke/db/playback",
    ],
)
def test_airflow_normalizes_what_means_the_same(written):
    """Through the handler that the provider registers."""
    assert Asset("playback", uri=written).uri == "iceberg://lake/db/playback"


def test_case_tells_tables_apart():
    """Connection ids and most catalogs do."""
    uris = {Asset("t", uri=uri).uri for uri in ("iceberg://lake/db/t", "iceberg://Lake/db/t", "iceberg://lake/DB/t")}

    assert len(uris) == 3


@pytest.mark.parametrize(
    ("uri", "named"),
    [
        ("iceberg:///db/t", "lacks a connection"),
        ("iceberg://lake", "lacks a namespace"),
        ("iceberg://lake/t", "lacks a namespace"),
        ("iceberg://lake/db//t", "lacks a namespace"),
        ("iceberg://lake/db.t", "'db.t' has a dot"),
        ("iceberg://me@lake/db/t", "'@'"),
        ("iceberg://lake:8181/db/t", "neither user nor port"),
        ("iceberg://lake/db/t?snapshot=1", "'snapshot'"),
        ("iceberg://lake/db/t?branch=a&branch=b", "more than one branch"),
        ("iceberg://lake/db/t%22", "contains '\"'"),
    ],
)
def test_a_uri_that_names_no_table_is_refused(uri, named):
    """At parse, with what is wrong and how to write it; as the ValueError that Airflow expects of a handler."""
    with pytest.raises(ValueError, match=r"What to do: .*") as refused:
        Asset("t", uri=uri)

    assert named in str(refused.value)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"table": "playback"}, "playback"),
        ({"table": "db.t", "iceberg_conn_id": ""}, "iceberg_conn_id"),
        ({"table": "db.t", "branch": " audit"}, "branch"),
        ({"table": "db.t", "branch": None}, "branch"),
        ({"table": "db.t", "iceberg_conn_id": "{{ var.value.lake }}"}, "template"),
    ],
)
def test_what_names_no_table_is_refused(parameters, named):
    with pytest.raises(InputError, match=named):
        iceberg_asset(**parameters)


def test_another_scheme_is_not_taken_for_ours():
    with pytest.raises(ValueError, match="scheme is 's3'"):
        sanitize_uri(urlsplit("s3://lake/db/t"))


def test_watchers_and_extra_are_the_assets_own():
    watcher = AssetWatcher(name="appends", trigger=IcebergAppendTrigger(table="db.playback"))

    asset = iceberg_asset("db.playback", extra={"owner": "playback team"}, watchers=[watcher])

    assert (asset.watchers, asset.extra) == ([watcher], {"owner": "playback team"})


def triggers_of(asset):
    """What watches an asset, as Airflow has it from the DAG files."""
    from airflow.models.asset import AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        return len(session.scalars(select(AssetModel).where(AssetModel.uri == asset.uri)).one().triggers)


def test_a_reference_leaves_the_watchers_that_another_file_gave(airflow_database):
    """The same asset made again without them takes them away: Airflow believes the file that it parsed last."""

    def parse(dag_id, asset):
        with DAG(dag_id, schedule=[asset], is_paused_upon_creation=False) as dag:
            EmptyOperator(task_id="work")
        sync(dag)

    def watched():
        trigger = IcebergAppendTrigger(table="db.watched", iceberg_conn_id="lake")
        return iceberg_asset(
            "db.watched", iceberg_conn_id="lake", watchers=[AssetWatcher(name="appends", trigger=trigger)]
        )

    bare = iceberg_asset("db.watched", iceberg_conn_id="lake")
    for _ in range(2):
        parse("watching", watched())
    assert triggers_of(bare) == 1

    parse("referring", Asset.ref(uri=bare.uri))
    assert triggers_of(bare) == 1

    parse("bare", bare)
    assert triggers_of(bare) == 0


# --- what Airflow's registries make of it -------------------------------------------------------------------------


def test_hooks_make_the_asset_by_its_scheme():
    """As a hook reports to lineage what it read, without knowing this package."""
    collector = HookLineageCollector()

    made = collector.create_asset(scheme="iceberg", asset_kwargs={"table": "db.t", "iceberg_conn_id": "lake"})

    assert made == iceberg_asset("db.t", iceberg_conn_id="lake")


GLUE = {"type": "glue", "glue.region": "eu-west-1", "glue.id": "123456789012"}


@pytest.mark.parametrize(
    ("connection", "namespace", "name"),
    [
        ({"extra": GLUE}, "arn:aws:glue:eu-west-1:123456789012", "table/db/t"),
        ({"extra": {"type": "glue"}}, "iceberg://lake", "db.t"),
        ({"extra": {"type": "hive", "uri": "thrift://metastore:9083"}}, "hive://metastore:9083", "db.t"),
        ({"extra": {"type": "hive", "uri": "thrift://one:9083,thrift://two:9083"}}, "hive://one:9083", "db.t"),
        ({"host": "https://me:hidden@lake.example/iceberg/"}, "https://lake.example/iceberg", "db.t"),
        ({"extra": {"type": "sql", "uri": "postgresql://me:hidden@db/lake"}}, "iceberg://lake", "db.t"),
        ({"extra": {"type": "rest", "uri": "http://[broken"}}, "iceberg://lake", "db.t"),
        (None, "iceberg://lake", "db.t"),
    ],
)
def test_lineage_names_the_table_as_the_engines_do(monkeypatch, connection, namespace, name):
    """Where OpenLineage has a rule for the catalog; a branch is the same dataset, and no password is in it."""
    monkeypatch.delenv("AIRFLOW_CONN_LAKE", raising=False)
    if connection is not None:
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", **connection}))
    convert = ProvidersManagerTaskRuntime().asset_to_openlineage_converters["iceberg"]

    dataset = convert(iceberg_asset("db.t", iceberg_conn_id="lake", branch="audit"), None)

    assert (dataset.namespace, dataset.name) == (namespace, name)
