"""What must be true in the end, whoever was killed: counted in the tables themselves."""

from collections import Counter
from itertools import pairwise

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.identifiers import Source, variable_key
from tests.kit.tables import branches, icdc_tables
from tests.system.soak.totals import totals_of

STAGES = {"one": "db.events", "two": "db.log"}


class Failed(Exception):  # noqa: N818 - it is the verdict
    """Rows were lost or came twice, or something stayed behind."""


def judge(airflow, writer, killer, *, seconds_to_drain):
    """Wait until both stages have caught up; then compare tables, checkpoints and what is left."""
    writer.check()
    lake = airflow.lakes["lake"]
    for dag_id, source in STAGES.items():
        airflow.rest.wait_for(
            lambda dag_id=dag_id, source=source: _committed(airflow, dag_id, source) == lake.head(source),
            f"stage {dag_id} to catch up",
            seconds_to_drain,
        )
        airflow.rest.pause(dag_id)
        airflow.rest.wait_for(lambda dag_id=dag_id: not _active(airflow, dag_id), f"runs of {dag_id} to end")
    killer.say("both stages have caught up")
    _compare_rows(lake, writer)
    for dag_id in STAGES:
        _compare_ranges(airflow, dag_id)
    _collect_garbage(airflow, lake)
    _tell(airflow, killer)


def _compare_rows(lake, writer):
    """Every id once in the log, and each day's total as a full recomputation has it."""
    seen = Counter(lake.rows("db.log"))
    wrong = {row: seen[row] for row in range(writer.rows) if seen[row] != 1} | {
        row: count for row, count in seen.items() if row >= writer.rows
    }
    if wrong:
        raise Failed(f"of {writer.rows} rows, these are not in the target once: {dict(list(wrong.items())[:20])}")
    expected = totals_of(lake.catalog.load_table("db.events").scan().to_arrow())
    found = lake.catalog.load_table("db.totals").scan().to_arrow()
    one, other = (sorted(each.to_pylist(), key=lambda row: row["day"]) for each in (expected, found))
    if one != other:
        raise Failed(f"the totals are {other}, and a full recomputation says {one}")
    print(f"{writer.rows} rows: each is in the target once, and {len(one)} days add up")


def _compare_ranges(airflow, dag_id):
    """Each committed range begins where the one before it ended."""
    ranges = [taken for capture in checkpoint_of(airflow, dag_id).history for taken in capture.ranges]
    for before, after in pairwise(ranges):
        if after.from_exclusive is None or after.from_exclusive.snapshot_id != before.to_inclusive.snapshot_id:
            raise Failed(f"stage {dag_id}: {after.from_exclusive} does not follow {before.to_inclusive}")
    print(f"stage {dag_id}: {len(ranges)} committed ranges, each begins where the one before it ended")


def _collect_garbage(airflow, lake):
    """What killed captures left is found, and nothing is left that no checkpoint names."""
    before = _made(lake)
    print(airflow.run("ips", "gc", "--conn-id", "lake", "--older-than-days", "0", "--yes"))
    left = set(_made(lake))
    named = {name for dag_id in STAGES for name in _needed(checkpoint_of(airflow, dag_id))}
    if left - named:
        raise Failed(f"ICDC tables or branches that no checkpoint names are left: {sorted(left - named)}")
    print(f"ICDC tables and branches: {len(before)} before gc, {len(left)} after, all named by a checkpoint")


def _made(lake):
    """All ICDC tables, and all branches that hold a capture."""
    sources = (lake.catalog.load_table(source) for source in STAGES.values())
    return [*icdc_tables(lake.catalog), *(name for source in sources for name in branches(source))]


def _needed(checkpoint):
    newest = checkpoint.history[-1:]
    return {*checkpoint.retained, *(table for capture in newest for table in capture.made)}


def _tell(airflow, killer):
    for dag_id in STAGES:
        states = Counter(run["state"] for run in airflow.rest.runs(dag_id))
        print(f"runs of stage {dag_id}: {dict(states)}")
        history = airflow.run("ips", "history", "--consumer", f"{dag_id}.capture", "--conn-id", "lake")
        print("\n".join([*history.splitlines()[:3], "…", *history.splitlines()[-3:]]))
    print(f"killed: {killer.counts.total()}")
    for what, count in sorted(killer.counts.items()):
        print(f"  {count:3d}  {what}")


def checkpoint_of(airflow, dag_id):
    consumer = f"{dag_id}.capture"
    text = airflow.rest.variable(variable_key(consumer))
    return None if text is None else Checkpoint.parse(text, consumer=consumer)


def _committed(airflow, dag_id, source):
    checkpoint = checkpoint_of(airflow, dag_id)
    position = checkpoint and checkpoint.position_of(Source(source))
    return position.snapshot_id if position else None


def _active(airflow, dag_id):
    """Those that are at work. A run that is queued when its DAG is paused never starts."""
    return [run for run in airflow.rest.runs(dag_id) if run["state"] == "running"]
