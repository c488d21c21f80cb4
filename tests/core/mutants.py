"""Break the checkpoint's transitions in one way after another, and see the model of tests/core notice each.

    python -m tests.core.mutants [words of the mutants to try]

A model that lets a broken rule live is worth nothing. Each mutant is a copy of the package with one text replaced; the
copy's laws are tried in a process of its own, from the same seed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORE = "airflow_provider_ips/core"
SECONDS = 300


@dataclass(frozen=True, slots=True)
class Mutant:
    """What is broken, by replacing one text that stands in a file once."""

    story: str
    file: str
    old: str
    new: str


MUTANTS = (
    Mutant(
        "a retry captures as new",
        "transitions.py",
        "if checkpoint.pending is not None and checkpoint.pending.run == run:",
        "if False:",
    ),
    Mutant(
        "any run takes the pending range for its own",
        "transitions.py",
        "if checkpoint.pending is not None and checkpoint.pending.run == run:\n        return Retry",
        "if checkpoint.pending is not None:\n        return Retry",
    ),
    Mutant(
        "a committed run captures as new",
        "transitions.py",
        "if any(capture.run == run for capture in wrote):",
        "if False:",
    ),
    Mutant(
        "an older run is replayed",
        "transitions.py",
        "if wrote[-1].run == run:\n            return Replay(wrote[-1])",
        "return Replay(next(c for c in wrote if c.run == run))",
    ),
    Mutant("a capture begins anywhere", "transitions.py", "    _refuse_moved(current, pending.ranges)\n", ""),
    Mutant(
        "captures of all revisions share a name", "transitions.py", "run.run_after, str(revision)", 'run.run_after, "0"'
    ),
    Mutant("an empty range is not passed", "transitions.py", "positions=_moved(current.positions, ranges),", ""),
    Mutant(
        "an empty run leaves the pending capture",
        "transitions.py",
        "        pending=None,\n        history=_remember(current",
        "        history=_remember(current",
    ),
    Mutant("a commit moves nothing", "transitions.py", "positions=_moved(checkpoint.positions, pending.ranges),", ""),
    Mutant(
        "a commit moves one source only",
        "transitions.py",
        "_moved(checkpoint.positions, pending.ranges)",
        "_moved(checkpoint.positions, pending.ranges[:1])",
    ),
    Mutant(
        "a commit leaves its capture pending",
        "transitions.py",
        "        pending=None,\n        history=_remember(checkpoint",
        "        history=_remember(checkpoint",
    ),
    Mutant(
        "a commit is not remembered",
        "transitions.py",
        "        history=_remember(checkpoint.history, capture, history_length),\n        retained=() if",
        "        retained=() if",
    ),
    Mutant(
        "a replay's commit moves the checkpoint",
        "transitions.py",
        "    if replay:\n        return CommitResult(outcome=CommitOutcome.REPLAYED, checkpoint=checkpoint)\n",
        "    if replay:\n        again = next(c for c in checkpoint.history if c.capture_id == capture_id)\n"
        "        back = _moved(checkpoint.positions, again.ranges)\n"
        "        moved = replace(checkpoint, revision=checkpoint.revision + 1, positions=back)\n"
        "        return CommitResult(outcome=CommitOutcome.ADVANCED, checkpoint=moved)\n",
    ),
    Mutant(
        "a commit drops its own tables", "transitions.py", "drop=released)", "drop=(*released, *pending.icdc_tables))"
    ),
    Mutant(
        "a commit that is done drops what it made",
        "transitions.py",
        "drop=done.released)",
        "drop=(*done.released, *done.icdc_tables))",
    ),
    Mutant(
        "an unknown capture is committed without a word",
        "transitions.py",
        '    raise unknown_capture(capture_id, run, f"the',
        "    return CommitResult(outcome=CommitOutcome.ALREADY_DONE, checkpoint=checkpoint)\n"
        '    raise unknown_capture(capture_id, run, f"the',
    ),
    Mutant(
        "superseded captures are forgotten",
        "transitions.py",
        "return () if pending is None else (*pending.supersedes, pending.capture_id)[-MAX_SUPERSEDED:]",
        "return ()",
    ),
    Mutant(
        "history has no end",
        "transitions.py",
        "return everything[wrote[-length] :] if len(wrote) > length else everything",
        "return everything",
    ),
    Mutant(
        "joined empty runs lose where they began",
        "transitions.py",
        "ranges=tuple(replace(r, from_exclusive=starts[r.source, r.branch]) for r in later.ranges),",
        "",
    ),
    Mutant(
        "a write counts no revision",
        "transitions.py",
        "        current,\n        revision=current.revision + 1,\n        pending",
        "        current,\n        pending",
    ),
    Mutant(
        "a rewind keeps the pending capture",
        "administration.py",
        "_without_pending(checkpoint),\n        revision=checkpoint.revision + 1,\n        positions=tuple(places",
        "checkpoint,\n        revision=checkpoint.revision + 1,\n        positions=tuple(places",
    ),
    Mutant(
        "a rewind keeps what it undoes in mind",
        "administration.py",
        "history=checkpoint.history[: ids.index(capture_id)],",
        "",
    ),
    Mutant(
        "a rewind undoes one capture too many",
        "administration.py",
        "undone = checkpoint.history[ids.index(capture_id) :]",
        "undone = checkpoint.history[max(ids.index(capture_id) - 1, 0) :]",
    ),
    Mutant(
        "a place is rewound and its commits stay",
        "administration.py",
        "history=tuple(c for c in checkpoint.history if not _reaches_beyond(c, moved)),",
        "",
    ),
    Mutant(
        "abandoning lets the checkpoint pass",
        "administration.py",
        "return replace(_without_pending(checkpoint), revision=checkpoint.revision + 1)",
        "from airflow_provider_ips.core.transitions import _moved\n"
        "    passed = _moved(checkpoint.positions, checkpoint.pending.ranges)\n"
        "    return replace(_without_pending(checkpoint), revision=checkpoint.revision + 1, positions=passed)",
    ),
    Mutant(
        "a move leaves both in use",
        "moving.py",
        "left = here if here.moved_to else replace(here, revision=here.revision + 1, moved_to=to)",
        "left = replace(here, revision=here.revision + 1)",
    ),
    Mutant("stores let the last writer win", "store.py", "if found != expected_revision:", "if False:"),
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


def is_noticed(mutant: Mutant) -> bool:
    """Try the laws on a copy with this one fault."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("airflow_provider_ips", "tests"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        broken = copy / CORE / mutant.file
        text = broken.read_text()
        if text.count(mutant.old) != 1:
            raise LookupError(f"{mutant.story}: its text stands {text.count(mutant.old)} times in {mutant.file}")
        broken.write_text(text.replace(mutant.old, mutant.new))
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        ended = subprocess.run(
            [sys.executable, "-c", LAWS], cwd=copy, env=environment, capture_output=True, timeout=SECONDS, check=False
        )
    return ended.returncode != 0


def main(words: list[str]) -> int:
    """Try them all, or those whose story has one of the words."""
    chosen = [m for m in MUTANTS if not words or any(word in m.story for word in words)]
    alive = []
    for mutant in chosen:
        noticed = is_noticed(mutant)
        print(f"{'noticed' if noticed else 'ALIVE  '}  {mutant.story}", flush=True)
        alive += [] if noticed else [mutant]
    print(f"{len(chosen) - len(alive)} of {len(chosen)} noticed")
    return len(alive)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
