"""One set of tables, made by Spark, with captures of them; what each must read like is written beside it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings, SourceTable
from airflow_provider_ips.iceberg.icdc.tables import prepare_icdc
from airflow_provider_ips.iceberg.source.iceberg_source import open_source, position_at
from tests.kit.lakes import DAYS, rows_of
from tests.kit.local_tables import SCHEMA
from tests.system.spark.stories import Story

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.spark import LakeOfTwoEngines

Rows = list[tuple[Any, ...]]
COLUMNS: Final = "id bigint, day date, note string"
READ: Final = ("id", "day", "note")
MERGE_ON_READ: Final = {f"write_{what}_mode": "merge-on-read" for what in ("delete", "update", "merge")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A source and a capture of it, and the rows of both."""

    name: str
    story: Story
    captured: str
    source_rows: Rows
    captured_rows: Rows
    columns: tuple[str, ...] = READ
    lineage: bool = False


def rows(*ids: int, note: str = "") -> Rows:
    """The rows that ids stand for, with days as dates."""
    return [tuple(row) for row in rows_of(*ids, note=note)]


def values(*ids: int, note: str = "") -> str:
    """The same in SQL."""
    return ", ".join(f"({number}, date'{day}', '{text}')" for number, day, text in rows(*ids, note=note))


class Shelf:
    """Makes tables and captures in one lake."""

    def __init__(self, lake: LakeOfTwoEngines, folder: Path) -> None:
        self.lake = lake
        self.folder = folder

    def story(self, columns: str = COLUMNS, **options: Any) -> Story:
        return Story(self.lake, columns, **options)

    def fill(self, story: Story, *ids: int) -> int:
        """One file of rows in one snapshot."""
        return story.run(f"insert into {{t}} select /*+ coalesce(1) */ * from values {values(*ids)}")

    def case(self, name: str, story: Story, since: int | None, source: Rows, captured: Rows, **more: Any) -> Case:
        columns, lineage = more.pop("columns", READ), more.pop("lineage", False)
        icdc = story.capture(since, **more).icdc_table
        return Case(
            name=name,
            story=story,
            captured=str(icdc),
            source_rows=source,
            captured_rows=captured,
            columns=columns,
            lineage=lineage,
        )


def appended(shelf: Shelf, version: str, **options: str) -> list[Case]:
    """Files of two appends, by partitions."""
    story = shelf.story(partitioned="day", format_version=version, **options)
    first = story.insert(values(1, 2, 3))
    story.insert(values(4, 5))
    story.insert(values(6))
    kind = f", {options['write_format_default'].upper()} files" if options else f", v{version}"
    return [shelf.case(f"append{kind}", story, first, rows(*range(1, 7)), rows(4, 5, 6), lineage=version == "3")]


def deleted(shelf: Shelf, version: str) -> list[Case]:
    """All live rows of a file with position deletes, or with a deletion vector."""
    story = shelf.story(format_version=version, **MERGE_ON_READ)
    shelf.fill(story, *range(1, 7))
    story.run("delete from {t} where id in (2, 5)")
    live = rows(1, 3, 4, 6)
    what = "deletion vectors, v3" if version == "3" else "position deletes, v2"
    return [shelf.case(what, story, None, live, live, lineage=version == "3")]


def changed(shelf: Shelf, version: str, *, in_place: bool) -> list[Case]:
    """The net effect of an update and a delete: what is new, and where it came from."""
    story = shelf.story(format_version=version, **({} if in_place else MERGE_ON_READ))
    first = shelf.fill(story, 1, 2, 3, 4)
    story.run("update {t} set note = 'new' where id = 2")
    story.run("delete from {t} where id = 3")
    now = [*rows(1, 4), *rows(2, note="new")]
    record = story.capture(first, data_operations=ALL_OPERATIONS, on_superset="allow")
    how = f"{'copy-on-write' if in_place else 'merge-on-read'}, v{version}"
    new = now if in_place else rows(2, note="new")
    case = partial(Case, story=story, source_rows=now)
    return [
        case(name=f"changes, {how}", captured=str(record.icdc_table), captured_rows=new),
        case(name=f"`.before` of them, {how}", captured=str(record.before_table), captured_rows=rows(1, 2, 3, 4)),
    ]


def evolved(shelf: Shelf) -> list[Case]:
    """Columns renamed, widened, dropped and added again, and three partition specs."""
    story = shelf.story("id int, day date, cat string, note string", partitioned="day")
    story.run("insert into {t} values (1, date'2026-10-02', 'c', 'x'), (2, date'2026-10-03', 'c', 'y')")
    for change in (
        *("drop column note", "add column note string", "alter column id type bigint", "rename column cat to kind"),
        *("add partition field bucket(4, kind)", "alter column kind first"),
    ):
        story.run(f"alter table {{t}} {change}")
    story.run("insert into {t} (id, day, kind, note) values (5000000000, date'2026-10-01', 'k', 'n')")
    for change in ("drop partition field day", "drop partition field bucket(4, kind)"):
        story.run(f"alter table {{t}} {change}")
    story.run("insert into {t} (id, day, kind, note) values (6, date'2026-10-01', 'l', 'm')")
    live: Rows = [
        (1, "2026-10-02", "c", None),
        (2, "2026-10-03", "c", None),
        (5000000000, "2026-10-01", "k", "n"),
        (6, "2026-10-01", "l", "m"),
    ]
    columns = ("id", "day", "kind", "note")
    return [shelf.case("evolved schema and specs, v2", story, None, live, live, columns=columns)]


def with_defaults(shelf: Shelf) -> list[Case]:
    """A column with an initial default, which older files have without holding it."""
    story = shelf.story(format_version="3")
    first = shelf.fill(story, 1)
    shelf.fill(story, 2, 3)
    java: Any = shelf.lake.spark
    iceberg = java._jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(java._jsparkSession, story.table)
    types, literal = iceberg.types.Types.IntegerType.get(), iceberg.expressions.Literal.of(7)
    table.updateSchema().addColumn("extra", types, literal).commit()
    shelf.lake.spark.sql(f"refresh table {story.table}")
    story.run("insert into {t} values (4, date'2026-10-02', 'n4', 9)")
    live = [*((*row, 7) for row in rows(1, 2, 3)), (4, "2026-10-02", "n4", 9)]
    return [shelf.case("initial defaults, v3", story, first, live, live[1:], columns=(*READ, "extra"))]


def added_by_name(shelf: Shelf) -> list[Case]:
    """Files without field ids, which a name mapping reads."""
    import pyarrow as pa

    story = shelf.story()
    first = shelf.fill(story, 1)
    folder = shelf.folder / "plain"
    folder.mkdir()
    ids = [2, 3, 4]
    columns = {"id": ids, "day": [DAYS[i % len(DAYS)] for i in ids], "note": [f"n{i}" for i in ids]}
    pq.write_table(pa.table(columns, schema=SCHEMA), folder / "plain.parquet")
    story.call("add_files", f"source_table => '`parquet`.`{folder}`'")
    return [shelf.case("add_files with a name mapping, v2", story, first, rows(1, 2, 3, 4), rows(2, 3, 4))]


def spliced(shelf: Shelf) -> list[Case]:
    """Manifests that hold files of other snapshots as well."""
    story = shelf.story(commit_manifest_min__count__to__merge="2")
    shelf.fill(story, 1)
    first = shelf.fill(story, 2)
    shelf.fill(story, 3)
    shelf.fill(story, 4, 5)
    return [shelf.case("spliced manifests, v2", story, first, rows(1, 2, 3, 4, 5), rows(3, 4, 5))]


def filtered(shelf: Shelf) -> list[Case]:
    """Some partitions."""
    story = shelf.story(partitioned="day")
    story.insert(values(*range(1, 10)))
    live = rows(*range(1, 10))
    some = [row for row in live if row[1] == "2026-10-02"]
    return [shelf.case("partition filter, v2", story, None, live, some, partitions="day = '2026-10-02'")]


def empty(shelf: Shelf) -> list[Case]:
    """As a source that gained nothing is captured beside one that did."""
    story = shelf.story()
    head = shelf.fill(story, 1, 2)
    catalog = shelf.lake.catalog
    source = open_source(catalog, Source(story.name))
    settings, into = CaptureSettings(), "icdc.nothing"
    plan = plan_capture(source, committed=position_at(source, snapshot_id=head), settings=settings)
    prepare_icdc(
        catalog, source, plan, table=SourceTable(story.name), settings=settings, icdc_table=into, identity={}
    ).publish()
    return [Case(name="empty, v2", story=story, captured=into, source_rows=rows(1, 2), captured_rows=[])]


SET: Final[tuple[Callable[[Shelf], list[Case]], ...]] = (
    *(partial(appended, version=version) for version in ("1", "2", "3")),
    partial(deleted, version="2"),
    partial(deleted, version="3"),
    partial(changed, version="2", in_place=False),
    partial(changed, version="3", in_place=False),
    partial(changed, version="2", in_place=True),
    evolved,
    with_defaults,
    added_by_name,
    spliced,
    filtered,
    empty,
    partial(appended, version="2", write_format_default="orc"),
    partial(appended, version="2", write_format_default="avro"),
)


def questions(shelf: Shelf) -> list[dict[str, Any]]:
    """All that engines are asked about the set, about each source and about each capture of it."""
    found = []
    for make in SET:
        for case in make(shelf):
            found += about(shelf, case, "source", case.story.name, case.source_rows)
            found += about(shelf, case, "captured", case.captured, case.captured_rows)
    return found


def about(shelf: Shelf, case: Case, side: str, name: str, expected: Rows) -> list[dict[str, Any]]:
    """What is asked about one table, and what is right."""
    table = shelf.lake.catalog.load_table(name)
    place = {"name": name, "metadata": table.metadata_location, "location": table.location()}
    ids = sorted(row[0] for row in expected) or [1]
    from_middle, one_day = ["id", ">=", ids[len(ids) // 2]], ["day", "=", "2026-10-02"]

    def ask(what: str, how: str, answer: Rows, where: list[Any] | None = None, columns: Any = None) -> dict[str, Any]:
        wanted = columns or (case.columns if how == "rows" else ["id"])
        return {
            "case": case.name,
            "side": side,
            "what": what,
            "ask": how,
            "table": place,
            "columns": list(wanted),
            "where": where,
            "expected": sorted(([*row] for row in answer), key=repr),
        }

    kept = [row for row in expected if row[0] >= from_middle[2]]
    of_day = [row for row in expected if row[1] == one_day[2]]
    bounds = [(min(row[0] for row in expected), max(row[0] for row in expected))] if expected else [(None, None)]
    found = [
        ask("rows", "rows", expected),
        ask("count", "count", [(len(expected),)]),
        ask("filter", "rows", kept, from_middle),
        ask("count with filter", "count", [(len(of_day),)], one_day),
        ask("min, max", "bounds", bounds),
    ]
    if case.lineage:
        found.append(ask("row lineage", "lineage", _lineage(shelf, case, expected)))
    return found


def _lineage(shelf: Shelf, case: Case, expected: Rows) -> Rows:
    """As Spark reads it of the source: the captured rows must have the same."""
    wanted = {row[0] for row in expected}
    read = shelf.lake.sql(f"select id, _row_id, _last_updated_sequence_number from {case.story.table}")
    return [row for row in read if row[0] in wanted]
