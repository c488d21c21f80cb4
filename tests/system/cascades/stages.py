"""The three stages, what each has to hold, and whether all of them have come to rest."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.identifiers import Source, variable_key
from tests.kit.rest import DONE

SOURCE = "db.playback"
WATCHED = "playback_changes"
COMPACTION = "replace"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One DAG: what it reads and what it writes."""

    dag_id: str
    source: str
    target: str

    @property
    def consumer(self):
        return f"{self.dag_id}.capture"


STAGES = (
    Stage(dag_id="cascade_incremental_1", source=SOURCE, target="db.cascade_accounts"),
    Stage(dag_id="cascade_incremental_2", source="db.cascade_accounts", target="db.cascade_titles"),
    Stage(dag_id="cascade_incremental_3", source="db.cascade_titles", target="db.cascade_totals"),
)


def recomputed(rows):
    """What the targets hold if all of the source is aggregated at once, in the order of the stages."""
    accounts: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        group = accounts[row.event_date, row.account_id, row.title_id]
        group[0] += 1
        group[1] += row.watched_seconds
    titles: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
    for (day, _, title), (_, seconds) in accounts.items():
        _add(titles[day, title], longest=seconds, total=seconds)
    totals: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
    for (_, title), (_, longest, seconds) in titles.items():
        _add(totals[title,], longest=longest, total=seconds)
    return [{(*key, *facts) for key, facts in level.items()} for level in (accounts, titles, totals)]


def _add(group, *, longest, total):
    group[0] += 1
    group[1] = max(group[1], longest)
    group[2] += total


def found(world, stage):
    """What a target holds. A row that is there twice would be hidden by a set, so it is refused here."""
    rows = [tuple(row) for row in world.spark.table(f"lake.{stage.target}").collect()]
    assert len(rows) == len(set(rows))
    return set(rows)


def has_come_to_rest(world, stages=STAGES):
    """No run is under way or due, and no stage's source holds a change that its checkpoint has not passed."""
    return all(is_idle(world.rest, stage) and not unseen(world, stage) for stage in stages)


def is_idle(rest, stage):
    """No run is under way, and no event waits to become one."""
    path = f"/dags/{stage.dag_id}/assets/queuedEvents"
    waiting = rest.ask("GET", path, expect=(200, 404)).get("queued_events")
    return not waiting and all(run["state"] in DONE for run in rest.runs(stage.dag_id))


def unseen(world, stage):
    """The snapshots of a stage's source behind its checkpoint that changed rows, by what they say of themselves."""
    if not world.catalog.table_exists(stage.source):
        return []
    table = world.catalog.load_table(stage.source)
    document = world.rest.variable(variable_key(stage.consumer))
    position = document and Checkpoint.parse(document, consumer=stage.consumer).position_of(Source(stage.source))
    snapshot, behind = table.current_snapshot(), []
    while snapshot is not None and (position is None or snapshot.snapshot_id != position.snapshot_id):
        behind.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return [each.snapshot_id for each in behind if changes_rows(each)]


def changes_rows(snapshot):
    """Compaction moves rows to other files; a commit of nothing touches no partition."""
    touched = snapshot.summary.additional_properties.get("changed-partition-count")
    return snapshot.summary.operation.value != COMPACTION and touched != "0"
