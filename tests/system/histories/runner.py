"""Run one history, and take steps out of one that fails for as long as it still fails in the same way."""

from __future__ import annotations

import re
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Final

from tests.system.histories.ledger import HalfwayError, LedgerError
from tests.system.histories.lineage import create_table
from tests.system.histories.readers import HistoryFailureError, check_source
from tests.system.histories.world import EngineRefusedError, NotNowError, World

if TYPE_CHECKING:
    from tests.system.histories.generator import History
    from tests.system.histories.lake import Lake
    from tests.system.histories.registry import Step

TABLES: Final = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a history ended, and what was done on the way."""

    history: History
    failure: str = ""
    fault: str = ""
    """What kind of failure, so that shrinking does not wander off to another one."""
    done: int = 0
    """How many steps did something."""
    tally: Counter[str] = field(default_factory=Counter)

    @property
    def replay(self) -> str:
        """The command that runs this very history again."""
        steps = " ".join(str(step) for step in self.history.steps)
        return f"make test-histories HISTORIES_ARGS='--seed {self.history.seed} --steps \"{steps}\"'"


def run(lake: Lake, history: History) -> Outcome:
    """Run a history on a new table."""
    world = World(lake=lake, profile=history.profile, name=f"db.h{history.seed}_{next(TABLES)}")
    done = 0
    failure, fault = "", ""
    try:
        create_table(world)
        for step in history.steps:
            done += _did(world, step)
        check_source(world)
    except HistoryFailureError as error:
        # The first words without their numbers: what kind of wrong answer it is.
        failure, fault = str(error), re.sub(r"[0-9]+", "", str(error).partition(":")[0])
    except LedgerError as error:
        failure, fault = f"the generator or an engine is wrong: {error}", "ledger"
    except Exception as error:  # noqa: BLE001 - whatever the package throws is a finding, and the next history runs
        failure, fault = "".join(traceback.format_exception(error)[-6:]), type(error).__name__
    return Outcome(history=history, failure=failure, fault=fault, done=done, tally=world.tally)


def _did(world: World, step: Step) -> bool:
    """Run one step; tell whether it did anything."""
    started = time.monotonic()
    try:
        step.run(world)
    except (NotNowError, HalfwayError):
        world.tally[f"not now: {step.kind}"] += 1
        return False
    except EngineRefusedError as error:
        world.tally[f"engine refused: {step.kind}: {str(error)[:120]}"] += 1
        world.settle()  # and left everything as it was
        return False
    except Exception as error:
        error.add_note(f"in step {step}")
        raise
    world.tally[f"done: {step.kind}"] += 1
    world.tally[f"milliseconds: {step.kind}"] += int(1000 * (time.monotonic() - started))
    return True


def shrink(lake: Lake, outcome: Outcome) -> Outcome:
    """Leave out ever smaller parts of the history while what is left fails alike."""
    smallest = outcome
    size = max(1, len(outcome.history.steps) // 2)
    while size:
        start = 0
        while start < len(smallest.history.steps):
            steps = smallest.history.steps
            shorter = replace(smallest.history, steps=steps[:start] + steps[start + size :])
            tried = run(lake, shorter)
            if tried.fault == outcome.fault:
                smallest = tried
            else:
                start += size
        size //= 2
    return smallest
