"""For PySpark jobs: writes what was captured to a target, as changes by key, as groups recomputed, or as rows once.

One file that imports nothing but PySpark, so that a job can bring it along (``py_files``), or have a copy of it::

    from airflow_provider_ips.apply import apply_changes

    apply_changes(spark, captured, before, "lake.db.customers", keys=["customer_id"], source="lake.crm.customers")

Whatever is wrong is refused before anything is written. Each function makes one commit, and the same capture applied
once more gives the same target.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeAlias

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.window import WindowSpec

    Table: TypeAlias = str | DataFrame

STAMP: Final = "ips-capture-id"
START, END = "__START_AT", "__END_AT"
"""From when to when a version was valid, as the sequence column says; the end is NULL for what is valid now."""

_SEQUENCE, _DELETED, _GONE, _RESET = "__ips_sequence", "__ips_deleted", "__ips_gone", "__ips_reset"
_SETTINGS: Final = "ips.settings"


class ApplyError(ValueError):
    """What cannot be applied, what would become wrong, and what to do. Nothing was written."""

    def __init__(self, problem: str, *, consequence: str, remedy: str) -> None:
        super().__init__(f"{problem}. {consequence}. To fix it: {remedy}.")


def append_once(spark: SparkSession, rows: Table, target: str, capture_id: str | None = None) -> bool:
    """Append rows, unless an earlier attempt has: whether main's lineage in the target has the capture's stamp.

    :param rows: what to insert, with the target's columns
    :param capture_id: the XCom ``capture_id``; by default the Spark conf that stamps every snapshot of the job
    :returns: whether rows were appended
    """
    stamp = capture_id or spark.conf.get(f"spark.sql.iceberg.snapshot-property.{STAMP}", None)
    if not stamp:
        raise ApplyError(
            "no capture id is given",
            consequence=f"Whether {target} already has these rows is unknown",
            remedy=f'pass capture_id=, or conf={{"spark.sql.iceberg.snapshot-property.{STAMP}": …}} to the job',
        )
    found = _rows(spark, rows)
    _require_columns(spark, target, found.columns)
    if _is_stamped(spark, target, stamp):
        return False
    found.writeTo(target).option(f"snapshot-property.{STAMP}", stamp).append()
    return True


def reaggregate(
    spark: SparkSession,
    captured: Table,
    before: Table | None,
    source: Table,
    target: str,
    keys: Sequence[str] | Mapping[str, str],
    aggregates: Mapping[str, str],
) -> None:
    """Compute the groups again that have a row in either captured table, and delete those without rows.

    :param before: the earlier versions of changed rows; None for a capture of appends
    :param source: where the rows of the groups are; it may be newer than the capture, whose next one follows it
    :param keys: the columns of the groups, or for each of them an expression over the source: ``{"day": "date(at)"}``
    :param aggregates: for each other column its expression: ``{"events": "count(*)"}``. NULL is a group of its own
    """
    named = _named(keys)
    _require_columns(spark, target, [*named, *aggregates])
    groups = [F.expr(expression).alias(name) for name, expression in named.items()]
    touched = reduce(lambda a, b: a.union(b), (each.select(*groups) for each in _both(spark, captured, before)))
    touched = touched.distinct()
    data = _rows(spark, source)
    rows = data.select("*", *(F.expr(each).alias(f"__ips_{name}") for name, each in named.items())).alias("r")
    same = [F.col(f"r.__ips_{name}").eqNullSafe(F.col(f"k.{name}")) for name in named]
    kept = rows.join(touched.alias("k"), reduce(lambda a, b: a & b, same), "left_semi")
    computed = kept.groupBy(*(F.col(f"__ips_{name}").alias(name) for name in named)).agg(
        *(F.expr(expression).alias(name) for name, expression in aggregates.items())
    )
    missing = _without(touched, computed, list(named))
    changes = computed.withColumn(_GONE, F.expr("false")).unionByName(
        missing.withColumn(_GONE, F.expr("true")), allowMissingColumns=True
    )
    _merge(spark, target, changes, on=list(named), columns=[*named, *aggregates])


@dataclass(frozen=True)
class _Changes:
    """What to apply: rows with columns for their order, and for whether they are deletions."""

    spark: SparkSession
    target: str
    keys: list[str]
    columns: list[str]
    """Those that are written, keys included."""

    sequence: list[str] = field(default_factory=list)
    ignore_nulls: bool = False


def apply_changes(  # noqa: PLR0913 - the options of AUTO CDC, by keyword
    spark: SparkSession,
    captured: Table,
    before: Table | None,
    target: str,
    keys: Sequence[str],
    *,
    source: Table | None = None,
    sequence_by: str | Sequence[str] | None = None,
    ignore_null_updates: bool = False,
    apply_as_deletes: str | None = None,
    column_list: Sequence[str] | None = None,
    except_column_list: Sequence[str] | None = None,
    stored_as_scd_type: int | str = 1,
    track_history_column_list: Sequence[str] | None = None,
    track_history_except_column_list: Sequence[str] | None = None,
    deleted_at: str | None = None,
    tombstone_column: str | None = None,
) -> None:
    """Apply captured rows to a dimension by key: the newest version of each (type 1), or all of them (type 2).

    The options have the names and meanings of Databricks' AUTO CDC.

    :param captured: a capture's table
    :param before: its ``.before`` table, where all operations are captured: keys that are only there were deleted
    :param source: the source, to read the captured keys from. Not needed for a log of appends, or if the capture has
        ``on_superset="complete"``
    :param sequence_by: the column or columns by which versions of a key are ordered, whatever order they arrive in
    :param ignore_null_updates: a NULL leaves the value as it is
    :param apply_as_deletes: a condition; a row that meets it deletes its key
    :param column_list: the columns to write; by default all of the captured table
    :param except_column_list: columns that are not written
    :param stored_as_scd_type: 1, or 2 to keep versions with ``__START_AT`` and ``__END_AT``
    :param track_history_column_list: type 2: only changes of these columns make a version, and not every event
    :param track_history_except_column_list: type 2: changes of these columns make none
    :param deleted_at: type 2 with ``before``: the end of versions whose key was deleted, as an expression
    :param tombstone_column: type 1: keep deleted keys, marked by this boolean column, so that older rows that arrive
        later do not bring them back
    """
    history = _is_history(stored_as_scd_type)
    sequence = _names([sequence_by] if isinstance(sequence_by, str) else sequence_by or [], "sequence_by", least=0)
    rows = _state(spark, captured, before, source, _names(keys, "keys"))
    changes = _Changes(
        spark=spark,
        target=target,
        keys=_names(keys, "keys"),
        columns=_written(rows.columns, keys, column_list, except_column_list),
        sequence=sequence,
        ignore_nulls=ignore_null_updates,
    )
    _require_parts(changes, rows, history=history, before=before, deleted_at=deleted_at, tombstone=tombstone_column)
    events = _events(changes, rows, apply_as_deletes)
    _refuse_bad_rows(changes, events)
    gone = None if before is None else _gone(changes, events, before)
    if history:
        tracked = _tracked(changes, track_history_column_list, track_history_except_column_list)
        _apply_history(changes, _with_ends(changes, events, gone, deleted_at), tracked)
    else:
        _apply_newest(changes, events, gone, tombstone_column)


def _state(
    spark: SparkSession,
    captured: Table,
    before: Table | None,
    source: Table | None,
    keys: Sequence[str],
) -> DataFrame:
    """The rows to apply: those captured, or those that the source has of the captured keys."""
    rows = _rows(spark, captured)
    for name, columns in {"captured": rows.columns, "before": _rows(spark, before).columns if before else keys}.items():
        if missing := [key for key in keys if key.lower() not in {column.lower() for column in columns}]:
            raise ApplyError(
                f"{name} has no columns {missing}",
                consequence="Its rows cannot be found in the target",
                remedy="name the columns that identify a row, by keys=",
            )
    if source is not None:
        touched = reduce(lambda a, b: a.union(b), (each.select(*keys) for each in _both(spark, captured, before)))
        return _joined(_rows(spark, source), touched, keys, "left_semi")
    if before is not None and not (isinstance(captured, str) and _is_complete(spark, captured)):
        raise ApplyError(
            f"{captured} may lack rows that are in `before` and did not change",
            consequence="They would be treated as deleted",
            remedy='set on_superset="complete" on the capture and pass its table by name, or pass source=',
        )
    return rows


def _is_complete(spark: SparkSession, captured: str) -> bool:
    """Whether this is a capture that also has the rows that deletes left, as its table or its branch says."""
    table, _, branch = captured.rpartition(".branch_")
    if table:
        of_branch = spark.table(f"{table}.refs").where(F.col("name") == branch).select("snapshot_id")
        made = spark.table(f"{table}.snapshots").join(of_branch, "snapshot_id")
        found = [row["settings"] for row in made.selectExpr(f"summary['{_SETTINGS}'] AS settings").collect()]
    else:
        listed = spark.sql(f"SHOW TBLPROPERTIES {captured}").collect()
        found = [row["value"] for row in listed if row["key"] == _SETTINGS]
    return any(settings and '"on_superset": "complete"' in settings for settings in found)


def _written(
    columns: Sequence[str], keys: Sequence[str], only: Sequence[str] | None, without: Sequence[str] | None
) -> list[str]:
    if only is not None and without is not None:
        raise ApplyError(
            "column_list and except_column_list are both given",
            consequence="They may contradict each other",
            remedy="keep one of them",
        )
    unknown = [name for name in (*(only or ()), *(without or ())) if name not in columns]
    if unknown:
        raise ApplyError(
            f"{unknown} are not columns of the captured rows",
            consequence="Other columns than meant would be written",
            remedy=f"use some of {list(columns)}",
        )
    left = [c for c in columns if (c in only if only is not None else c not in (without or ()))]
    return [*keys, *(c for c in left if c not in keys)]


def _require_parts(
    changes: _Changes,
    rows: DataFrame,
    *,
    history: bool,
    before: Table | None,
    deleted_at: str | None,
    tombstone: str | None,
) -> None:
    """Refuse a target that lacks columns, and options that need others."""
    missing = [name for name in changes.sequence if name not in rows.columns]
    if missing or (history and len(changes.sequence) != 1):
        raise ApplyError(
            f"sequence_by={missing or changes.sequence} " + ("is not in the captured rows" if missing else ""),
            consequence="The order of versions is not known" if history else "Which row is the newest is not known",
            remedy="name a column" + (": versions are dated by exactly one" if history else ""),
        )
    if history and before is not None and deleted_at is None:
        raise ApplyError(
            "deleted_at is needed, because rows may have been deleted",
            consequence="When their last version ended is not known",
            remedy="give an expression that is the same when the job is retried, such as the time of the capture",
        )
    needed = [START, END] if history else [*changes.sequence, *([tombstone] if tombstone else [])]
    _require_columns(changes.spark, changes.target, [*changes.columns, *needed])


def _events(changes: _Changes, rows: DataFrame, apply_as_deletes: str | None) -> DataFrame:
    """The rows with their order and whether they delete; rows that are the same in all of it are one."""
    names = changes.sequence
    stored = list(dict.fromkeys([*changes.columns, *names]))
    deleted = F.coalesce(F.expr(apply_as_deletes), F.expr("false")) if apply_as_deletes else F.expr("false")
    return rows.select(*stored, _order(names).alias(_SEQUENCE), deleted.alias(_DELETED)).distinct().localCheckpoint()


def _refuse_bad_rows(changes: _Changes, events: DataFrame) -> None:
    """Refuse NULLs where rows are identified or ordered, and rows of one key that nothing orders."""
    for name in (*changes.keys, *changes.sequence):
        if events.where(F.col(name).isNull()).limit(1).count():
            raise ApplyError(
                f"{name} is NULL in captured rows",
                consequence="NULL equals nothing, so such a row would be inserted again by every run",
                remedy="filter these rows out, or repair them in the source",
            )
    twice = events.groupBy(*changes.keys, _SEQUENCE).count().where("count > 1").limit(1).collect()
    if twice:
        key = {name: twice[0][name] for name in changes.keys}
        raise ApplyError(
            f"several captured rows have the key {key}"
            + (f" and the same {changes.sequence}" * bool(changes.sequence)),
            consequence="Which of them is the newest is not known",
            remedy="name a column that orders them, by sequence_by="
            if not changes.sequence
            else "add a column to sequence_by= that differs",
        )


def _gone(changes: _Changes, events: DataFrame, before: Table) -> DataFrame:
    """The keys that had rows and have none now."""
    return _without(_rows(changes.spark, before).select(*changes.keys).distinct(), events, changes.keys)


def _apply_newest(changes: _Changes, events: DataFrame, gone: DataFrame | None, tombstone: str | None) -> None:
    stored = list(dict.fromkeys([*changes.columns, *changes.sequence]))
    in_time = _without_late_events(changes, events) if changes.ignore_nulls and changes.sequence else events
    newest = _newest(changes, in_time, stored).withColumn(_GONE, F.expr("false"))
    if gone is not None:
        marks = (
            gone.withColumn(_GONE, F.expr("true"))
            .withColumn(_DELETED, F.expr("false"))
            .withColumn(_RESET, F.expr("false"))
        )
        newest = newest.unionByName(marks, allowMissingColumns=True)
    if tombstone:
        newest = newest.withColumn(tombstone, F.col(_DELETED))
    ordered = ", ".join(f"{{0}}.`{name}`" for name in changes.sequence)
    _merge(
        changes.spark,
        changes.target,
        newest,
        on=changes.keys,
        columns=[*stored, *([tombstone] if tombstone else [])],
        newer=f"coalesce(struct({ordered.format('t')}) <= struct({ordered.format('s')}), true)" if ordered else "true",
        deletes="false" if tombstone else f"s.{_DELETED}",
        tombstone=tombstone,
        keeps_nulls=[c for c in stored if c not in (*changes.keys, *changes.sequence)] if changes.ignore_nulls else [],
    )


def _without_late_events(changes: _Changes, events: DataFrame) -> DataFrame:
    """Leave out what is older than the stored row: it would fill, or empty, columns that the row has set since."""
    stored = changes.spark.table(changes.target).select(*changes.keys, _order(changes.sequence).alias("__ips_stored"))
    found = events.join(stored, changes.keys, "left")
    return found.where(F.expr(f"__ips_stored IS NULL OR {_SEQUENCE} >= __ips_stored")).drop("__ips_stored")


def _order(names: Sequence[str]) -> Column:
    return F.lit(0) if not names else F.col(names[0]) if len(names) == 1 else F.struct(*names)


def _newest(changes: _Changes, events: DataFrame, stored: Sequence[str]) -> DataFrame:
    """The last event of each key. With ``ignore_null_updates``, of each column the last value since its deletion."""
    of_key = Window.partitionBy(*changes.keys)
    last_delete = F.max(F.when(F.col(_DELETED), F.col(_SEQUENCE))).over(of_key)
    found = events.withColumn("__ips_last_delete", last_delete)
    is_after = F.col("__ips_last_delete").isNull() | (F.col(_SEQUENCE) > F.col("__ips_last_delete"))
    if changes.ignore_nulls:
        whole = of_key.orderBy(_SEQUENCE).rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        values = [c for c in stored if c not in (*changes.keys, *changes.sequence)]
        filled = [F.last(F.when(is_after, F.col(c)), ignorenulls=True).over(whole).alias(c) for c in values]
        kept = [c for c in found.columns if c not in values]
        found = found.select(*kept, *filled)
    rank = F.row_number().over(of_key.orderBy(F.col(_SEQUENCE).desc()))
    newest = found.withColumn("__ips_rank", rank).where("__ips_rank = 1")
    return newest.withColumn(_RESET, F.col("__ips_last_delete").isNotNull()).select(*stored, _DELETED, _RESET)


def _with_ends(changes: _Changes, events: DataFrame, gone: DataFrame | None, deleted_at: str | None) -> DataFrame:
    """Add the deletions of keys that have no rows any more, dated by ``deleted_at``."""
    if gone is None or deleted_at is None:
        return events
    of_type = events.schema[_SEQUENCE].dataType
    ends = gone.withColumn(_SEQUENCE, F.expr(deleted_at).cast(of_type)).withColumn(_DELETED, F.expr("true"))
    valid = changes.spark.table(changes.target).where(F.col(END).isNull()).select(*changes.keys, START)
    early = ends.join(valid, changes.keys).where(F.expr(f"coalesce({_SEQUENCE} <= {START}, true)")).limit(1).collect()
    if early:
        raise ApplyError(
            f"deleted_at is {early[0][_SEQUENCE]}, and the version of "
            f"{ {name: early[0][name] for name in changes.keys} } that is valid now started at {early[0][START]}",
            consequence="It would stay valid although its key was deleted",
            remedy="give a time that is later than all versions, such as greatest(…, the newest of the source)",
        )
    return events.unionByName(ends, allowMissingColumns=True)


def _tracked(changes: _Changes, only: Sequence[str] | None, without: Sequence[str] | None) -> list[str] | None:
    """The columns whose changes make a version; None if every event makes one."""
    if only is None and without is None:
        return None
    values = [c for c in changes.columns if c not in changes.keys]
    if only is not None:
        return [c for c in values if c in only]
    return [c for c in values if c not in (*(without or ()), *changes.sequence)]


def _apply_history(changes: _Changes, events: DataFrame, tracked: Sequence[str] | None) -> None:
    """Compute all versions of the captured keys again, from the stored ones and the events, and write what differs.

    stored       v1 from 1 to 5, v3 from 5                      event: v2 at 3
    versions     v1 from 1 to 3, v2 from 3 to 5, v3 from 5      two rows are written
    """
    names = [*changes.columns, START, END]
    stored = changes.spark.table(changes.target).join(
        events.select(*changes.keys).distinct(), changes.keys, "left_semi"
    )
    stored = stored.select(*names)
    fields = [*changes.columns, _SEQUENCE, _DELETED, "__ips_new"]
    known = _stored_events(changes, stored).withColumn("__ips_new", F.lit(0)).select(*fields)
    everything = known.unionByName(events.withColumn("__ips_new", F.lit(1)).select(*fields))
    versions = _versions(changes, everything, tracked).withColumn(_GONE, F.expr("false"))
    outdated = _without(stored.select(*changes.keys, START), versions, [*changes.keys, START])
    found = versions.unionByName(outdated.withColumn(_GONE, F.expr("true")), allowMissingColumns=True)
    _merge(changes.spark, changes.target, found, on=[*changes.keys, START], columns=names)


def _stored_events(changes: _Changes, stored: DataFrame) -> DataFrame:
    """The events that the stored versions came from: their starts, their last values, and deletions."""
    started = stored.withColumn(_SEQUENCE, F.col(START)).withColumn(_DELETED, F.expr("false"))
    followers = stored.select(*changes.keys, F.col(START).alias(END))
    ended = stored.where(F.col(END).isNotNull()).join(followers, [*changes.keys, END], "left_anti")
    deletions = ended.select(*changes.columns, F.col(END).alias(_SEQUENCE)).withColumn(_DELETED, F.expr("true"))
    events = started.unionByName(deletions, allowMissingColumns=True)
    (order,) = changes.sequence
    if order not in changes.columns:
        return events
    return events.unionByName(started.where(F.col(order) > F.col(START)).withColumn(_SEQUENCE, F.col(order)))


def _versions(changes: _Changes, events: DataFrame, tracked: Sequence[str] | None) -> DataFrame:
    """Versions of each key: from a first event, while nothing tracked changes, to the next one or the deletion."""
    values = [c for c in changes.columns if c not in changes.keys]
    of_key = Window.partitionBy(*changes.keys)
    latest = F.row_number().over(Window.partitionBy(*changes.keys, _SEQUENCE).orderBy(F.desc("__ips_new")))
    found = events.withColumn("__ips_rank", latest).where("__ips_rank = 1")
    in_order = of_key.orderBy(_SEQUENCE)
    if changes.ignore_nulls:
        found = found.withColumn("__ips_life", F.sum(F.col(_DELETED).cast("int")).over(in_order))
        so_far = Window.partitionBy(*changes.keys, "__ips_life").orderBy(_SEQUENCE)
        found = found.select(
            *(c for c in found.columns if c not in values),
            *(F.last(F.when(~F.col(_DELETED), F.col(c)), ignorenulls=True).over(so_far).alias(c) for c in values),
        )
    begins = F.expr("true") if tracked is None else _begins(tracked, in_order)
    found = found.withColumn("__ips_begins", begins.cast("int"))
    found = found.withColumn("__ips_version", F.sum("__ips_begins").over(in_order))
    versions = found.groupBy(*changes.keys, "__ips_version").agg(
        F.min(_SEQUENCE).alias(START),
        F.max(_DELETED).alias(_DELETED),
        F.max_by(F.struct(F.lit(0).alias("0"), *values), F.col(_SEQUENCE)).alias("__ips_values"),
    )
    ends = F.lead(START).over(of_key.orderBy(START))
    found = versions.withColumn(END, ends).where(~F.col(_DELETED))
    return found.select(*changes.keys, *(F.col(f"__ips_values.{c}").alias(c) for c in values), START, END)


def _begins(tracked: Sequence[str], in_order: WindowSpec) -> Column:
    """Whether an event begins a version: the first one, a deletion and what follows it, and where something changed."""
    shown = F.struct(F.lit(0).alias("0"), *(F.col(c) for c in tracked))
    changed = ~shown.eqNullSafe(F.lag(shown).over(in_order))
    return (F.row_number().over(in_order) == 1) | F.col(_DELETED) | F.lag(_DELETED).over(in_order) | changed


def _merge(  # noqa: PLR0913 - by keyword
    spark: SparkSession,
    target: str,
    rows: DataFrame,
    *,
    on: Sequence[str],
    columns: Sequence[str],
    newer: str = "true",
    deletes: str = "false",
    tombstone: str | None = None,
    keeps_nulls: Sequence[str] = (),
) -> None:
    """Write rows by key in one commit. Those that the target has already are left alone, so a retry writes nothing.

    They are computed once before, because some are made from the target, and Spark 4.1 cannot plan a merge from a view
    over tables (V2TableReference).
    """
    values = {c: f"s.`{c}`" for c in columns}
    values |= {c: f"CASE WHEN s.{_RESET} THEN s.`{c}` ELSE coalesce(s.`{c}`, t.`{c}`) END" for c in keeps_nulls}
    same = " AND ".join(f"t.`{c}` <=> {value}" for c, value in values.items())
    removal = f"AND NOT t.`{tombstone}` <=> true THEN UPDATE SET `{tombstone}` = true" if tombstone else "THEN DELETE"
    with _view(spark, rows.localCheckpoint()) as view:
        spark.sql(
            f"""MERGE INTO {target} AS t USING {view} AS s
                ON {" AND ".join(f"t.`{key}` <=> s.`{key}`" for key in on)}
                WHEN MATCHED AND (s.{_GONE} OR ({deletes} AND {newer})) {removal}
                WHEN MATCHED AND NOT (s.{_GONE} OR {deletes}) AND {newer} AND NOT ({same})
                    THEN UPDATE SET {", ".join(f"`{c}` = {value}" for c, value in values.items())}
                WHEN NOT MATCHED AND NOT (s.{_GONE} OR {deletes})
                    THEN INSERT ({", ".join(f"`{c}`" for c in columns)})
                         VALUES ({", ".join(f"s.`{c}`" for c in columns)})"""  # noqa: S608 - names that the job gave
        )


@contextmanager
def _view(spark: SparkSession, rows: DataFrame) -> Iterator[str]:
    name = f"ips_apply_{uuid.uuid4().hex}"
    rows.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        spark.catalog.dropTempView(name)


def _rows(spark: SparkSession, table: Table) -> DataFrame:
    return spark.table(table) if isinstance(table, str) else table


def _both(spark: SparkSession, captured: Table, before: Table | None) -> list[DataFrame]:
    return [_rows(spark, each) for each in (captured, before) if each is not None]


def _without(rows: DataFrame, others: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Those rows whose keys, NULLs included, none of the others has."""
    return _joined(rows, others, keys, "left_anti")


def _joined(rows: DataFrame, others: DataFrame, keys: Sequence[str], how: str) -> DataFrame:
    """Rows by whether the others have their keys. NULL equals NULL here, so that such keys are found and refused."""
    left, right = rows.alias("l"), others.select(*keys).distinct().alias("r")
    same: list[Column] = [F.col(f"l.{key}").eqNullSafe(F.col(f"r.{key}")) for key in keys]
    return left.join(right, reduce(lambda a, b: a & b, same), how)


def _names(value: Sequence[str], parameter: str, *, least: int = 1) -> list[str]:
    if isinstance(value, str) or len(value) < least or not all(value):
        raise ApplyError(
            f"{parameter}={value!r} is not a list of columns",
            consequence="Rows cannot be identified",
            remedy=f'write {parameter}=["customer_id"]',
        )
    return list(value)


def _named(keys: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    if isinstance(keys, Mapping):
        return dict(keys)
    return {key: f"`{key}`" for key in _names(keys, "keys")}


def _is_history(kind: int | str) -> bool:
    if str(kind) not in ("1", "2"):
        raise ApplyError(
            f"stored_as_scd_type={kind!r} is unknown",
            consequence="Whether versions are kept is not specified",
            remedy="use 1 for the newest version of each key, or 2 for all versions",
        )
    return str(kind) == "2"


def _require_columns(spark: SparkSession, target: str, columns: Sequence[str]) -> None:
    there = {column.lower() for column in spark.table(target).columns}
    if missing := [column for column in columns if column.lower() not in there]:
        raise ApplyError(
            f"{target} has no columns {missing}",
            consequence="Their values would be lost",
            remedy=f"add them (ALTER TABLE {target} ADD COLUMN …), or leave them out",
        )


def _is_stamped(spark: SparkSession, target: str, stamp: str) -> bool:
    """Whether main's head or an ancestor has the stamp, as `stamps.is_stamped` looks it up."""
    main = spark.table(f"{target}.refs").where("name = 'main'").first()
    listed = spark.table(f"{target}.snapshots").selectExpr("snapshot_id", "parent_id", f"summary['{STAMP}'] AS stamp")
    commits = {row["snapshot_id"]: row for row in listed.collect()}
    commit = None if main is None else commits.get(main["snapshot_id"])
    while commit is not None and commit["stamp"] != stamp:
        commit = commits.get(commit["parent_id"])
    return commit is not None
