"""A short run of `make compare`: its histories are real, its judge can find anyone wrong, and this package is not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from airflow_provider_ips.iceberg import capture
from benchmarks.compare.__main__ import RESULTS
from benchmarks.compare.contenders import (
    CONTENDERS,
    AppendCapture,
    CompleteChangeCapture,
    Contender,
    Entry,
    Inserts,
    Range,
    Replacements,
)
from benchmarks.compare.judge import Verdict
from benchmarks.compare.lake import CATALOG, Lake
from benchmarks.compare.run import compare
from benchmarks.compare.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.spark import LakeOfTwoEngines

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

OURS = {entry.title for entry in CONTENDERS if entry.is_ours}
NETFLIX = "published Netflix code"
EVERYONE = {entry.title for entry in CONTENDERS}


@pytest.fixture(scope="module")
def compared(lake: LakeOfTwoEngines, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The session that the ring's tests share."""
    return Lake(spark=lake.spark, catalog=lake.catalog, folder=tmp_path_factory.mktemp("compared"))


@pytest.mark.parametrize(
    ("history", "contenders", "wrong"),
    [
        ("merge, copy-on-write", EVERYONE, {"Spark incremental read", NETFLIX}),
        ("column dropped and added", {*OURS, NETFLIX}, {NETFLIX}),
        ("rollback past the checkpoint", {*OURS, NETFLIX}, {NETFLIX}),
    ],
)
def test_this_package_is_never_silently_wrong_where_others_are(
    compared: Lake, history: str, contenders: set[str], wrong: set[str]
) -> None:
    """Other rows than the committed run had, the same verdicts."""
    entries = [entry for entry in CONTENDERS if entry.title in contenders]
    cells = list(compare(compared, [one for one in SCENARIOS if one.title == history], entries, seed=2))
    assert {cell.contender for cell in cells if cell.judgement.verdict is Verdict.SILENT} == wrong
    committed = {(c["scenario"], c["contender"]): c["verdict"] for c in json.loads(RESULTS.read_text())["cells"]}
    assert {cell.contender: cell.judgement.verdict for cell in cells} == {
        title: committed[history, title] for title in contenders
    }


class PassingOver(AppendCapture):
    """This package, told to capture the log of appends, come what may."""

    def decide(self, wanted: Range) -> None:
        into = f"compared_icdc.{self.lake.unused('log')}"
        since, skip = wanted.after, "skip"
        self.icdc = capture(self.lake.catalog, wanted.table, since=since, into=into, on_other_operation=skip).icdc_table


class StoppingShort(AppendCapture):
    """This package, told to end before the head."""

    def decide(self, wanted: Range) -> None:
        into = f"compared_icdc.{self.lake.unused('short')}"
        snapshot = self.lake.catalog.load_table(wanted.table).snapshot_by_id(wanted.to)
        assert snapshot is not None
        until = snapshot.parent_snapshot_id
        self.icdc = capture(self.lake.catalog, wanted.table, since=wanted.after, until=until, into=into).icdc_table


class ReadingTwice(AppendCapture):
    """This package, whose rows a job inserts twice."""

    def read(self) -> Inserts:
        rows = self.lake.spark.table(f"{CATALOG}.{self.icdc}")
        return Inserts(rows=rows.union(rows))


class Misreading(AppendCapture):
    """This package, with one value changed on the way."""

    def read(self) -> Inserts:
        rows = self.lake.spark.table(f"{CATALOG}.{self.icdc}")
        return Inserts(rows=rows.replace("note 11", "note 12", ["note"]))


class Mistaken(AppendCapture):
    """This package, were it to ask Spark for something that there is not."""

    def read(self) -> Inserts:
        return Inserts(rows=self.lake.spark.table(f"{CATALOG}.compared_icdc.nothing"))


def test_a_mistake_is_no_loud_failure_of_ours(compared: Lake) -> None:
    """An error that this package did not mean to raise, or the program's own, stops the comparison."""
    [scenario] = [one for one in SCENARIOS if one.title == "append"]
    with pytest.raises(AnalysisException):
        list(compare(compared, [scenario], [Entry(title="ours", make=Mistaken, is_ours=True)], seed=3))


class ForgettingBefore(CompleteChangeCapture):
    """This package, to a user who does not look at `.before`."""

    def read(self) -> Replacements:
        return replace(super().read(), before=None)


class SayingNothing(CompleteChangeCapture):
    """This package, were it to carry unchanged rows along without a word."""

    def read(self) -> Replacements:
        return replace(super().read(), superset=None)


class LosingUpdates(CompleteChangeCapture):
    """This package, were it to lose a row that changed."""

    def read(self) -> Replacements:
        both = super().read()
        assert both.rows is not None
        return replace(both, rows=both.rows.where("value not like '%.2'"))


@pytest.mark.parametrize(
    ("history", "contender", "why"),
    [
        ("retention", PassingOver, "5 rows kept that were deleted"),
        ("append", StoppingShort, "rows lost"),
        ("append", ReadingTwice, "rows more than once"),
        ("append", Misreading, "1 row with other values"),
        ("retention", ForgettingBefore, "5 rows kept that were deleted"),
        ("merge, copy-on-write", SayingNothing, "3 rows along that did not change, and nothing says so"),
        ("merge, copy-on-write", LosingUpdates, "2 rows lost"),
    ],
)
def test_the_judge_can_find_this_package_wrong(
    compared: Lake, history: str, contender: Callable[[Lake], Contender], why: str
) -> None:
    """A judge that never says so about us would be of no worth."""
    [scenario] = [one for one in SCENARIOS if one.title == history]
    [cell] = compare(compared, [scenario], [Entry(title="ours", make=contender, is_ours=True)], seed=3)
    assert cell.judgement.verdict is Verdict.SILENT
    assert why in cell.judgement.why
