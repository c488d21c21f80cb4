"""The reference lists every parameter, setting, command and error that the code has, and nothing more."""

import ast
import importlib
import inspect
import json
import re

import pytest

from airflow_provider_ips.core import errors
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import Kind, Volume
from airflow_provider_ips.core.results.capture_record import CaptureContext, CaptureRecord, SourceRecord
from tests.kit.pages import ROOT, blocks, table, tables

pytestmark = pytest.mark.xdist_group("docs")

REQUIRED = "required"
PARAMETERS = (
    ("docs/reference/capture.md", "Parameters", "airflow_provider_ips.IpCaptureOperator"),
    ("docs/reference/commit.md", "Parameters", "airflow_provider_ips.IpCommitOperator"),
    ("docs/reference/backfill.md", "Parameters", "airflow_provider_ips.IpBackfillOperator"),
    ("docs/reference/sensor.md", "Parameters", "airflow_provider_ips.IcebergAppendSensor"),
    ("docs/reference/assets.md", "iceberg_asset", "airflow_provider_ips.iceberg_asset"),
    ("docs/reference/capture.md", "SourceTable", "airflow_provider_ips.SourceTable"),
    ("docs/reference/capture.md", "Without Airflow", "airflow_provider_ips.iceberg.capture"),
)


@pytest.mark.parametrize(("page", "heading", "path"), PARAMETERS, ids=[p[2] for p in PARAMETERS])
def test_parameter_tables_are_the_signatures(page, heading, path, airflow_says):
    """Names and defaults, in the order of the code's own signature."""
    documented = documented_defaults(page, heading)
    actual = {
        name: REQUIRED if value is None else literal(value) for name, value in airflow_says["signatures"][path].items()
    }
    assert {name: documented[name] for name in documented if name in actual} == actual
    assert set(documented) - set(actual) <= settings_it_takes(path, airflow_says)


def settings_it_takes(path, airflow_says):
    """Keyword settings of a capture that a signature takes as `**settings`."""
    if path.endswith((".SourceTable", ".capture")):
        return set(airflow_says["signatures"]["airflow_provider_ips.core.settings.CaptureSettings"])
    return set()


def test_a_source_table_documents_every_setting_it_can_override(airflow_says):
    """They come as `**overrides`, which a signature does not list."""
    settings = settings_it_takes(".SourceTable", airflow_says)
    assert settings <= set(documented_defaults("docs/reference/capture.md", "SourceTable"))


def test_the_operators_settings_have_the_defaults_of_the_core(airflow_says):
    """One table may serve both only while both agree."""
    settings = airflow_says["signatures"]["airflow_provider_ips.core.settings.CaptureSettings"]
    documented = documented_defaults("docs/reference/capture.md", "Parameters")
    assert {name: documented[name] for name in settings} == {name: literal(value) for name, value in settings.items()}


def documented_defaults(page, heading):
    return {code(name): default(cell) for name, cell, *_ in table(page, heading).rows}


def code(cell):
    match = re.match(r"`([^`]+)`", cell)
    assert match, f"{cell!r} begins with no code"
    return match[1]


def default(cell):
    """A default is Python in backticks; a word without them says that it is required or the operator's."""
    return literal(code(cell)) if cell.startswith("`") else cell


def literal(text):
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def test_the_config_table_is_the_provider_info(airflow_says):
    """Airflow shows what the provider info says; the page must say the same."""
    rows = table("docs/reference/config.md", "The section [ips]").rows
    documented = {code(name): code(value).strip('"') for name, value, *_ in rows}
    assert documented == {name: option["default"] for name, option in airflow_says["options"].items()}


def test_the_cli_page_has_every_command_with_every_option(airflow_says):
    """A table per command, headed by its name."""
    documented = {
        code(t.heading).removeprefix("airflow ips "): {code(row[0]) for row in t.rows}
        for t in tables(ROOT / "docs/reference/cli.md")
        if t.heading.startswith("`")
    }
    assert documented == {name: set(arguments) for name, arguments in airflow_says["subcommands"].items()}


def test_the_errors_page_has_every_error():
    """Those that this package raises on purpose."""
    classes = {n for n, thing in inspect.getmembers(errors, inspect.isclass) if issubclass(thing, errors.IpsError)}
    documented = {code(row[0]) for t in tables(ROOT / "docs/reference/errors.md") for row in t.rows}
    assert documented == classes


def test_the_checkpoint_shown_is_one_that_the_code_reads():
    """To the last field, so that readers know what they see in the UI."""
    [shown] = [b.text for b in blocks(ROOT / "docs/explanation/checkpoints.md") if b.language == "json"]
    parsed = Checkpoint.parse(shown, consumer="playback_daily.capture")
    assert json.loads(parsed.to_text()) == json.loads(shown)


def test_the_record_table_is_the_record():
    """The fields that a task finds under the XCom key `capture`."""
    nothing, here = (
        Volume(files=0, records=0, size_bytes=0),
        Position(table_uuid="u", snapshot_id=1, sequence_number=1, committed_at_ms=0),
    )
    source = SourceRecord(
        source=Source("db.t"), key="db.t", kind=Kind.EMPTY, icdc_table=None, from_exclusive=None,
        to_inclusive=here, captured=nothing, table=nothing,
    )  # fmt: skip
    run = RunIdentity(dag_id="d", run_id="r", map_index=-1, run_after="2026-10-01T00:00:00+00:00")
    context = CaptureContext(run=run, iceberg_conn_id="lake")
    record = CaptureRecord(capture_id="c", consumer="d.t", mode="ICDC", sources=(source,), context=context).to_json()
    page = "docs/reference/xcoms.md"
    assert [code(row[0]) for row in table(page, "The record").rows] == list(record)
    assert [code(row[0]) for row in table(page, "One source of it").rows] == list(record["sources"][0])


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (code(row[0]), re.findall(r"`([A-Za-z]\w*)`", row[1]))
        for row in tables(ROOT / "docs/reference/public-names.md")[0].rows
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_public_names_can_be_imported_and_are_all_there(module, names):
    """A module that lists its names is on the page with all of them."""
    imported = importlib.import_module(module)
    assert all(hasattr(imported, name) for name in names)
    if names and hasattr(imported, "__all__"):
        assert set(names) >= set(imported.__all__) - {"__version__"}
