"""One step of a round in a process of its own: `python -m benchmarks.pipeline.worker <order.json>`.

The order says what is to be done; the answer is written beside it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.pipeline import lake, logic
from benchmarks.pipeline.contenders import BY_NAME, Situation
from benchmarks.pipeline.generator import generate
from benchmarks.pipeline.judge import differences
from benchmarks.pipeline.lake import Arrival, Scene, contender_of, in_spark
from benchmarks.pipeline.meter import Span, costs, metered
from benchmarks.pipeline.session import open_session
from benchmarks.pipeline.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.pipeline.contenders import Contender
    from benchmarks.pipeline.session import Session

    Order = Mapping[str, Any]


REHEARSED_SCALE: Final = 0.5
"""Of what each contender works on first: enough for the Java machine to have compiled what its two stages run.

A cold one takes seconds for that. In jobs of hours they are nothing, and here they would be much of what the shorter
contenders take. A smaller run rehearses on a quarter of what it runs on: its verdict is a rough one.
"""


def make_data(order: Order) -> dict[str, Any]:
    """What no lake has yet."""
    with open_session(Path(order["lake"])) as session:
        for scene in _scenes(order):
            generate(session.spark, scene.shape, Path(order["cache"]))
    return {}


def make_lake(order: Order) -> dict[str, Any]:
    """The raw tables and the targets."""
    cache, arrivals = Path(order["cache"]), {}
    layouts = {turn: BY_NAME[contender_of(turn)].layout for turn in order["turns"]}
    with open_session(Path(order["lake"])) as session:
        for scene in _scenes(order):
            arrivals[scene.prefix] = lake.make_raw(session, scene, cache).to_json()
            lake.make_targets(session, scene, cache, layouts)
        events = session.catalog.load_table(_scene(order).events).inspect.snapshots().to_pylist()[-1]["summary"]
    counts = {"events": dict(events)["total-records"], "arrived": dict(events)["added-records"]}
    return {"arrivals": arrivals, "counts": {name: int(count) for name, count in counts.items()}}


def make_exact(order: Order) -> dict[str, Any]:
    """What the lower bound is handed: known once the lookback has run."""
    with open_session(Path(order["lake"])) as session:
        for scene in _scenes(order):
            lake.make_exact(session, scene, _arrival(order, scene))
    return {}


def contend(order: Order) -> dict[str, Any]:
    """Both stages, rehearsed and then metered."""
    folder, spans = Path(order["lake"]), list[Span]()
    event_log = folder / "event-logs" / order["turn"]
    with open_session(folder, event_log=event_log) as session:
        rehearsed = _contender(order, _rehearsal(order), session)
        rehearsed.daily()
        rehearsed.accounts()
        tables = _scene(order).tables(order["turn"])
        seen = {"daily": _head(session, tables.daily), "accounts": _head(session, tables.accounts)}
        contender = _contender(order, _scene(order), session)
        pid = session.spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # noqa: SLF001
        with metered("daily", pid, spans):
            contender.daily()
        with metered("accounts", pid, spans):
            contender.accounts()
        remarks = contender.remarks()
        written = {
            "daily": lake.written(session, tables.daily, seen["daily"]),
            "accounts": lake.written(session, tables.accounts, seen["accounts"]),
        }
    found = costs(spans, event_log, written)
    return {"stages": {stage: asdict(cost) for stage, cost in found.items()}, "remarks": remarks}


def compare(order: Order) -> dict[str, Any]:
    """Whether each one's targets are the lookback's, row by row."""
    scene, found = _scene(order), {}
    truth = scene.tables("lookback")
    with open_session(Path(order["lake"])) as session:
        _see_that_differences_show(session, truth.accounts)
        for turn in order["turns"]:
            pairs = zip(truth.both, scene.tables(turn).both, strict=True)
            found[turn] = [asdict(differences(session.spark, in_spark(a), in_spark(b))) for a, b in pairs]
        if "capture" in order["turns"]:
            _see_that_what_vanished_vanishes({**order, "turn": "capture"}, session)
    return found


def _see_that_what_vanished_vanishes(order: Order, session: Session) -> None:
    """No row arrives that takes another away. Here some do, on the small tables; then everything is made again."""
    small = _rehearsal(order)
    tables, since = small.tables(order["turn"]), small.shape.first_day
    days, target = in_spark(tables.daily), in_spark(tables.accounts)
    contender = _contender(order, small, session)
    session.run(f"DELETE FROM {days} WHERE event_date = DATE'{since}' AND title_id % 5 = 0 OR account_id % 9 = 0")
    contender.accounts()
    whole = f"({logic.windows(days, f'({logic.active(days, since)})', since)})"
    if not (found := differences(session.spark, whole, target)).is_none:
        raise RuntimeError(
            f"after rows of {days} were deleted, {target} is not what a run over all rows makes: {found}"
        )


def _see_that_differences_show(session: Session, table: str) -> None:
    """The day before is not the day after, and a comparison that finds no difference there finds none anywhere."""
    first = session.catalog.load_table(table).history()[0].snapshot_id
    before = f"(SELECT * FROM {in_spark(table)} VERSION AS OF {first})"
    if differences(session.spark, in_spark(table), before).is_none:
        raise RuntimeError(f"{table} has not changed since the day before, or the comparison does not see it")


def _scene(order: Order) -> Scene:
    return Scene(shape=Shape(**order["shape"]))


def _scenes(order: Order) -> tuple[Scene, Scene]:
    return _rehearsal(order), _scene(order)


def _rehearsal(order: Order) -> Scene:
    shape = _scene(order).shape
    scale = min(shape.scale / 4, REHEARSED_SCALE)
    return Scene(shape=Shape(scale=scale, days=2, seed=shape.seed), prefix="rehearsal_")


def _arrival(order: Order, scene: Scene) -> Arrival:
    return Arrival.parse(order["arrivals"][scene.prefix])


def _contender(order: Order, scene: Scene, session: Session) -> Contender:
    tables = scene.tables(order["turn"])
    situation = Situation(
        session=session,
        scene=scene,
        arrival=_arrival(order, scene),
        tables=tables,
        seen_daily=_head(session, tables.daily),
    )
    return BY_NAME[contender_of(order["turn"])].make(situation)


def _head(session: Session, table: str) -> int:
    snapshot = session.catalog.load_table(table).current_snapshot()
    if snapshot is None:
        raise RuntimeError(f"{table} has no rows of the day before")
    return snapshot.snapshot_id


STEPS: Final[Mapping[str, Callable[[Order], dict[str, Any]]]] = {
    "data": make_data,
    "lake": make_lake,
    "exact": make_exact,
    "contend": contend,
    "compare": compare,
}

if __name__ == "__main__":
    path = Path(sys.argv[1])
    order = json.loads(path.read_text())
    path.with_suffix(".answer.json").write_text(json.dumps(STEPS[order["step"]](order)))
