"""The trigger form of the Airflow UI: what a person may ask of one run, with words and limits of its own."""

from __future__ import annotations

from typing import Any, Final

from airflow.sdk import Param

from airflow_provider_ips.core.asked import PREFIX, Run

_CHOICES: Final = {
    Run.USUAL: "as usual: what came since the last success",
    Run.FULL: "full refresh: all rows of the table",
    Run.SNAPSHOT: "what came after a snapshot",
    Run.TIME: "what came after a moment",
    Run.PARTITIONS: "only these partitions, in full",
}
_SNAPSHOT_ID: Final = "^[0-9]{1,19}$"

_RUN: Final = """Every choice but *as usual* is **detached**: your job processes what you ask for, and the checkpoint
stays where it is, so that the next usual run goes on as if this one had not been."""
_PARTITIONS: Final = """A condition on partition columns, for example *day >= '2026-10-01'*, or
*day in ('2026-10-01', '2026-10-02') and country = 'DE'*. Of a table partitioned by the day of a time, whole days:
*ts between '2026-10-01T00:00:00' and '2026-10-01T23:59:59.999999'*. It must select whole partitions, and is refused
otherwise. With *what came after …* it narrows that range."""
_EVERYTHING: Final = """For *only these partitions*: a filter that passes over nothing is asked back, for it is hardly
ever meant. This says that it is."""
_DRY_RUN: Final = """Count and report what would be captured, in the log and in the record. No table is made, nothing is
committed, and all that is downstream is skipped."""
_MOVE: Final = """Only for a full refresh: let its commit move the checkpoint to where the table stands. Right if your
job rebuilds the target from what it is given."""


def ips_params() -> dict[str, Param]:
    """Params by which a person who triggers the DAG says what this run captures.

    ``DAG(..., params=ips_params())``, or ``params={**ips_params(), "mine": Param(...)}``. Every
    :class:`~airflow_provider_ips.operators.capture.IpCaptureOperator` of the DAG does as it is told, unless it has
    ``follow_params=False``.
    """
    what, where, limit, effect = "What to capture", "From where, to where", "At most", "What it does"
    return {
        f"{PREFIX}run": Param(
            Run.USUAL.value,
            type="string",
            enum=[run.value for run in Run],
            values_display={run.value: told for run, told in _CHOICES.items()},
            title="Capture",
            description_md=_RUN,
            section=what,
        ),
        f"{PREFIX}partitions": Param(
            None,
            type=["null", "string"],
            minLength=3,
            maxLength=2000,
            title="Only these partitions",
            description_md=_PARTITIONS,
            section=what,
        ),
        f"{PREFIX}since_snapshot": _snapshot("After snapshot", "For *what came after a snapshot*: its id.", where),
        f"{PREFIX}since_time": _time("After", "For *what came after a moment*.", where),
        f"{PREFIX}until_snapshot": _snapshot(
            "Up to snapshot", "The last one that is captured; empty: the newest.", where
        ),
        f"{PREFIX}until_time": _time("Up to", "The same by time. One of the two.", where),
        f"{PREFIX}max_snapshots": _limit("Snapshots", limit),
        f"{PREFIX}max_files": _limit("Files", limit),
        f"{PREFIX}max_bytes": _limit("Bytes", limit),
        f"{PREFIX}everything": _flag("Everything is meant", _EVERYTHING, effect),
        f"{PREFIX}dry_run": _flag("Dry run", _DRY_RUN, effect),
        f"{PREFIX}move_checkpoint": _flag("Move the checkpoint", _MOVE, effect),
    }


def _snapshot(title: str, help_text: str, section: str) -> Param:
    """Text: a snapshot id loses its last digits as a number of a browser."""
    return _optional("string", title, help_text, section, pattern=_SNAPSHOT_ID)


def _time(title: str, help_text: str, section: str) -> Param:
    return _optional("string", title, help_text, section, format="date-time")


def _limit(title: str, section: str) -> Param:
    told = "The range ends early, behind as many as fit; at least one snapshot is taken."
    return _optional("integer", title, told, section, minimum=1)


def _optional(of_type: str, title: str, help_text: str, section: str, **schema: Any) -> Param:
    return Param(None, type=["null", of_type], title=title, description_md=help_text, section=section, **schema)


def _flag(title: str, help_text: str, section: str) -> Param:
    return Param(default=False, type="boolean", title=title, description_md=help_text, section=section)
