"""Break the checkpoint's transitions in one way after another, and see the model of tests/core notice each.

    python -m tests.core.mutants [words of the mutants to try]

A model that lets a broken rule live is worth nothing. Each mutant is a copy of the package with faults in one function;
the copy's laws are tried in a process of its own, from the same seed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.core.faults import (
    always,
    argument,
    assigned,
    at_the_end,
    first_condition_only,
    instead_of,
    keyword,
    never,
    only,
    plant,
    unwrapped,
    without_call,
    without_keyword,
)

if TYPE_CHECKING:
    from tests.core.faults import Fault

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300

RESOLUTION = "airflow_provider_ips.core.checkpoint.resolution"
TRACES = "airflow_provider_ips.core.checkpoint.traces"
TRANSITIONS = "airflow_provider_ips.core.checkpoint.transitions"
MANUAL_CHANGES = "airflow_provider_ips.core.checkpoint.manual_changes"
DOCUMENT = "airflow_provider_ips.core.checkpoint.document"


@dataclass(frozen=True, slots=True)
class Mutant:
    """What is broken: a function, by its module and its name there, and the faults to plant in it."""

    story: str
    module: str
    function: str
    faults: tuple[Fault, ...]

    def plant(self, root: Path) -> None:
        """Break the copy of the package that lies in a folder."""
        path = (root / self.module.replace(".", "/")).with_suffix(".py")
        try:
            path.write_text(plant(path.read_text(), self.function, self.faults))
        except LookupError as error:
            raise LookupError(f"{self.story}: in {self.module}.{self.function}: {error}") from error


def mutant(story: str, module: str, function: str, *faults: Fault) -> Mutant:
    return Mutant(story, module, function, faults)


MUTANTS = (
    mutant("a retry captures as new", RESOLUTION, "resolve_capture", never("Retry")),
    mutant("any run takes the pending range for its own", RESOLUTION, "resolve_capture", first_condition_only("Retry")),
    mutant("a committed run captures as new", RESOLUTION, "resolve_capture", never("_overtaken")),
    mutant(
        "an older run is replayed",
        RESOLUTION,
        "resolve_capture",
        always("Replay"),
        argument("Replay", 0, "next(c for c in checkpoint.history if c.wrote and c.run == run)"),
    ),
    mutant("a capture begins anywhere", TRANSITIONS, "begin", without_call("_check_starts")),
    mutant("captures of all revisions share a name", RESOLUTION, "new_capture_id", assigned("revision", "0")),
    mutant("an empty range is not passed", TRANSITIONS, "settle_empty", without_keyword("replace", "positions")),
    mutant(
        "an empty run leaves the pending capture", TRANSITIONS, "settle_empty", without_keyword("replace", "pending")
    ),
    mutant("a commit moves nothing", TRANSITIONS, "_commit_pending", without_keyword("replace", "positions")),
    mutant(
        "a commit moves one source only", TRANSITIONS, "_commit_pending", argument("_advanced", 1, "pending.ranges[:1]")
    ),
    mutant(
        "a commit leaves its capture pending", TRANSITIONS, "_commit_pending", without_keyword("replace", "pending")
    ),
    mutant("a commit is not remembered", TRANSITIONS, "_commit_pending", without_keyword("replace", "history")),
    mutant(
        "a replay's commit moves the checkpoint",
        TRANSITIONS,
        "commit",
        instead_of(
            "REPLAYED",
            "again = next(c for c in checkpoint.history if c.capture_id == capture_id)\n"
            "back = _advanced(checkpoint.positions, again.ranges)\n"
            "moved = replace(checkpoint, revision=checkpoint.revision + 1, positions=back)\n"
            "return CommitResult(outcome=CommitOutcome.ADVANCED, checkpoint=moved)",
        ),
    ),
    mutant(
        "a commit drops its own tables",
        TRANSITIONS,
        "_commit_pending",
        keyword("CommitResult", "drop", "(*released, *pending.icdc_tables)"),
    ),
    mutant(
        "a commit that is done drops what it made",
        TRANSITIONS,
        "commit",
        keyword("CommitResult", "drop", "(*done.released, *done.icdc_tables)"),
    ),
    mutant(
        "an unknown capture is committed without a word",
        TRANSITIONS,
        "commit",
        at_the_end("return CommitResult(outcome=CommitOutcome.ALREADY_DONE, checkpoint=checkpoint)"),
    ),
    mutant("ranges of other sources are forgotten", TRANSITIONS, "_left_uncommitted", only("return ()")),
    mutant("a replay is not shown", TRACES, "begin_replay", only("return checkpoint")),
    mutant(
        "a replay leaves what was captured since to be committed",
        TRACES,
        "begin_replay",
        without_keyword("replace", "pending"),
    ),
    mutant("superseded captures are forgotten", TRANSITIONS, "_superseded_ids", only("return ()")),
    mutant("history has no end", TRANSITIONS, "_append", at_the_end("return everything")),
    mutant(
        "joined empty runs lose where they began", TRANSITIONS, "_merged_empty", without_keyword("replace", "ranges")
    ),
    mutant("a write counts no revision", TRANSITIONS, "begin", without_keyword("replace", "revision")),
    mutant("a rewind keeps the pending capture", MANUAL_CHANGES, "_went_back", unwrapped("_without_pending")),
    mutant(
        "a rewind keeps what it undoes in mind", MANUAL_CHANGES, "_went_back", without_keyword("replace", "history")
    ),
    mutant(
        "a rewind undoes one capture too many",
        MANUAL_CHANGES,
        "rewind",
        assigned("undone", "checkpoint.history[max(ids.index(capture_id) - 1, 0) :]"),
    ),
    mutant(
        "a place is rewound and its commits stay",
        MANUAL_CHANGES,
        "rewind_source",
        argument("_went_back", 2, "checkpoint.history"),
    ),
    mutant(
        "abandoning lets the checkpoint pass",
        MANUAL_CHANGES,
        "abandon",
        at_the_end(
            "from airflow_provider_ips.core.checkpoint.transitions import _advanced\n"
            "passed = _advanced(checkpoint.positions, checkpoint.pending.ranges)\n"
            "return replace(_without_pending(checkpoint), revision=checkpoint.revision + 1, positions=passed)"
        ),
    ),
    mutant(
        "a move leaves both in use",
        MANUAL_CHANGES,
        "plan_move",
        assigned("left", "replace(here, revision=here.revision + 1)"),
    ),
    mutant("stores let the last writer win", DOCUMENT, "refuse_conflict", never("write_conflict")),
)

LAWS = """
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.core.test_transitions_model import Consumer
seed(20261118)(Consumer)
run_state_machine_as_test(Consumer, settings=settings(
    max_examples=300, stateful_step_count=60, deadline=None, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck), print_blob=False,
))
"""


MISTAKES = ("ImportError", "NameError", "SyntaxError")
"""What a mutant dies of that does not run at all; that says nothing about the model."""


def is_noticed(mutant: Mutant | None) -> bool:
    """Try the laws on a copy with the faults of a mutant, or with none."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("airflow_provider_ips", "tests/core"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            mutant.plant(copy)
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        ended = subprocess.run(
            [sys.executable, "-c", LAWS],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    if any(mistake in ended.stderr for mistake in MISTAKES):
        raise RuntimeError(f"{mutant and mutant.story}: the copy does not run\n{ended.stderr}")
    return ended.returncode != 0


def main(words: list[str]) -> int:
    """Try them all, or those whose story has one of the words."""
    chosen = [m for m in MUTANTS if not words or any(word in m.story for word in words)]
    alive = []
    if is_noticed(None):
        raise RuntimeError("the model complains of the package as it is: run `pytest tests/core` first")
    for mutant in chosen:
        noticed = is_noticed(mutant)
        print(f"{'noticed' if noticed else 'ALIVE  '}  {mutant.story}", flush=True)
        alive += [] if noticed else [mutant]
    print(f"{len(chosen) - len(alive)} of {len(chosen)} noticed")
    return len(alive)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
