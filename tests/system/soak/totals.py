"""The job of the second stage: adds up the days that its capture names, in place of what was there of them."""

import pyarrow as pa

SCHEMA = pa.schema([pa.field("day", pa.date32()), pa.field("rows", pa.int64()), pa.field("ids", pa.int64())])


def add_up(captured, source, target, capture_id, *, name, lake):
    """Read the captured days alone, from the whole source, and write each anew: the same however often it runs."""
    from airflow_provider_ips.hooks.ips import IpsHook
    from tests.kit.tables import scan

    catalog = IpsHook(lake).catalog
    days = set(scan(catalog, captured, selected_fields=("day",)).to_arrow()["day"].to_pylist())
    which = f"day in ({', '.join(repr(day.isoformat()) for day in sorted(days))})"
    rows = catalog.load_table(source).scan(row_filter=which).to_arrow()
    print(f"{capture_id}: {len(days)} days of {rows.num_rows} rows, by {name}")
    catalog.load_table(target).overwrite(totals_of(rows), overwrite_filter=which)


def totals_of(rows):
    """Rows and ids of each day: what a full recomputation over all rows would say as well."""
    found = rows.group_by("day").aggregate([("id", "count"), ("id", "sum")])
    return found.select(["day", "id_count", "id_sum"]).rename_columns(["day", "rows", "ids"]).cast(SCHEMA)
