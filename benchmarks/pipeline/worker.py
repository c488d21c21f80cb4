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
from benchmarks.pipeline.lake import DEVICES, Arrival, Tables, in_spark
from benchmarks.pipeline.meter import Span, costs, metered
from benchmarks.pipeline.session import open_session
from benchmarks.pipeline.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.pipeline.session import Session

    Order = Mapping[str, Any]


WARM_ROWS: Final = 20_000


def make_data(order: Order) -> dict[str, Any]:
    """What no lake has yet."""
    with open_session(Path(order["lake"])) as session:
        generate(session.spark, _shape(order), Path(order["cache"]))
    return {}


def make_lake(order: Order) -> dict[str, Any]:
    """The raw table and the targets."""
    cache = Path(order["cache"])
    with open_session(Path(order["lake"])) as session:
        arrival = lake.make_raw(session, _shape(order), cache)
        lake.make_targets(session, _shape(order), cache, {name: BY_NAME[name].layout for name in order["contenders"]})
        events = session.catalog.load_table(lake.EVENTS).inspect.snapshots().to_pylist()[-1]["summary"]
    counts = {"events": dict(events)["total-records"], "arrived": dict(events)["added-records"]}
    return {"arrival": arrival.to_json(), "counts": {name: int(count) for name, count in counts.items()}}


def make_exact(order: Order) -> dict[str, Any]:
    """What the lower bound is handed: known once the lookback has run."""
    with open_session(Path(order["lake"])) as session:
        truth, into = Tables(namespace="lookback"), Tables(namespace="exact")
        lake.make_exact(session, Arrival.parse(order["arrival"]), truth, into)
    return {}


def contend(order: Order) -> dict[str, Any]:
    """Both stages, metered."""
    folder, spans = Path(order["lake"]), list[Span]()
    event_log = folder / "event-logs" / order["contender"]
    with open_session(folder, event_log=event_log) as session:
        situation = _situation(order, session)
        seen_accounts = _head(session, situation.tables.accounts)
        contender = BY_NAME[order["contender"]].make(situation)
        _warm_up(session, situation)
        pid = session.spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # noqa: SLF001
        with metered("daily", pid, spans):
            contender.daily()
        with metered("accounts", pid, spans):
            contender.accounts()
        remarks = contender.remarks()
        written = {
            "daily": lake.written(session, situation.tables.daily, situation.seen_daily),
            "accounts": lake.written(session, situation.tables.accounts, seen_accounts),
        }
    found = costs(spans, event_log, written)
    return {"stages": {stage: asdict(cost) for stage, cost in found.items()}, "remarks": remarks}


def _warm_up(session: Session, at: Situation) -> None:
    """Both queries over a few rows, into nothing.

    A cold Java machine takes seconds to compile them. In jobs of hours that is nothing, and here it would be much of
    what the shorter ones take.
    """
    events = f"(SELECT * FROM {in_spark(lake.EVENTS)} WHERE event_date = DATE'{at.shape.first_day}' LIMIT {WARM_ROWS})"
    days = f"(SELECT * FROM {in_spark(at.tables.daily)} LIMIT {WARM_ROWS})"
    for query in (logic.daily(events, DEVICES), logic.per_account(days)):
        session.spark.sql(query).write.format("noop").mode("overwrite").save()


def compare(order: Order) -> dict[str, Any]:
    """Whether each one's targets are the lookback's, row by row."""
    truth, found = Tables(namespace="lookback"), {}
    with open_session(Path(order["lake"])) as session:
        _see_that_differences_show(session, truth.accounts)
        for name in order["contenders"]:
            pairs = zip(truth.both, Tables(namespace=name).both, strict=True)
            found[name] = [asdict(differences(session.spark, in_spark(a), in_spark(b))) for a, b in pairs]
    return found


def _see_that_differences_show(session: Session, table: str) -> None:
    """The day before is not the day after, and a comparison that finds no difference there finds none anywhere."""
    first = session.catalog.load_table(table).history()[0].snapshot_id
    before = f"(SELECT * FROM {in_spark(table)} VERSION AS OF {first})"
    if differences(session.spark, in_spark(table), before).is_none:
        raise RuntimeError(f"{table} has not changed since the day before, or the comparison does not see it")


def _shape(order: Order) -> Shape:
    return Shape(**order["shape"])


def _situation(order: Order, session: Session) -> Situation:
    tables = Tables(namespace=order["contender"])
    return Situation(
        session=session,
        shape=_shape(order),
        arrival=Arrival.parse(order["arrival"]),
        tables=tables,
        seen_daily=_head(session, tables.daily),
    )


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
