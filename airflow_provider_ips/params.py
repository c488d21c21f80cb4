"""The Params of the trigger form in the Airflow UI, by which a person says what one run captures."""

from __future__ import annotations

from typing import Any, Final

from airflow.sdk import Param

from airflow_provider_ips.core.requests.request import PREFIX, RunKind

_CHOICES: Final = {
    RunKind.USUAL: "Usual: everything since the last success",
    RunKind.FULL: "Full refresh: all rows of the table",
    RunKind.SNAPSHOT: "Everything after a snapshot",
    RunKind.TIME: "Everything after a point in time",
    RunKind.PARTITIONS: "Some partitions, in full",
}
_SNAPSHOT_ID: Final = "^[0-9]{1,19}$"

_RANGE: Final = "Range"
_LIMITS: Final = "Limits"
_OPTIONS: Final = "Options"

_RUN: Final = """Every choice except *Usual* is **detached**: your job processes what you choose here, and the
checkpoint does not move. The next usual run continues from the checkpoint as if this run had not happened."""
_PARTITIONS: Final = """A condition on partition columns, for example *day >= '2026-10-01'* or
*day in ('2026-10-01', '2026-10-02') and country = 'DE'*. In a table partitioned by the day of a timestamp, select whole
days: *ts between '2026-10-01T00:00:00' and '2026-10-01T23:59:59.999999'*. The condition must select whole partitions;
any other is rejected. With *Everything after …* it narrows that range."""
_EVERYTHING: Final = """A filter that matches the whole table is rejected as a likely mistake. Tick this to allow it,
with *Some partitions*."""
_DRY_RUN: Final = """Count what would be captured, and report it in the log and in the capture record. No table is
created, nothing is committed, and all downstream tasks are skipped. Triggering a paused DAG unpauses it, and its
schedule starts: `airflow dags test` with the same conf does not."""
_MOVE: Final = """Only for a full refresh: its commit moves the checkpoint to the snapshot that was captured. Choose
this if your job rebuilds its target from the captured rows."""
_LIMIT: Final = (
    "The range ends early, before a snapshot that would exceed the limit. At least one snapshot is captured."
)


def ips_params() -> dict[str, Param]:
    """Make the Params by which a person who triggers the DAG says what this run captures.

    ``DAG(..., params=ips_params())``, or ``params={**ips_params(), "mine": Param(...)}``. Every
    :class:`~airflow_provider_ips.operators.capture.IpCaptureOperator` of the DAG follows them, unless it has
    ``follow_params=False``.
    """
    return {
        f"{PREFIX}run": Param(
            RunKind.USUAL.value,
            type="string",
            enum=[run.value for run in RunKind],
            values_display={run.value: label for run, label in _CHOICES.items()},
            title="Capture",
            description_md=_RUN,
            section=_RANGE,
        ),
        f"{PREFIX}partitions": _optional(
            "string", "Partitions", _PARTITIONS, section=_RANGE, minLength=3, maxLength=2000
        ),
        f"{PREFIX}since_snapshot": _snapshot("After snapshot", "The snapshot's id, for *Everything after a snapshot*."),
        f"{PREFIX}since_time": _time("After time", "For *Everything after a point in time*."),
        f"{PREFIX}until_snapshot": _snapshot("Up to snapshot", "The last snapshot to capture; empty: the newest."),
        f"{PREFIX}until_time": _time("Up to time", "Capture up to this time. Set this or *Up to snapshot*, not both."),
        f"{PREFIX}max_snapshots": _limit("Maximum snapshots"),
        f"{PREFIX}max_files": _limit("Maximum files"),
        f"{PREFIX}max_bytes": _limit("Maximum bytes"),
        f"{PREFIX}everything": _flag("Allow a filter that matches everything", _EVERYTHING),
        f"{PREFIX}dry_run": _flag("Dry run", _DRY_RUN),
        f"{PREFIX}move_checkpoint": _flag("Move the checkpoint", _MOVE),
    }


def _snapshot(title: str, help_text: str) -> Param:
    """Make a field for a snapshot id. It is text: a browser's numbers lose the last digits of an id."""
    return _optional("string", title, help_text, section=_RANGE, pattern=_SNAPSHOT_ID)


def _time(title: str, help_text: str) -> Param:
    return _optional("string", title, help_text, section=_RANGE, format="date-time")


def _limit(title: str) -> Param:
    return _optional("integer", title, _LIMIT, section=_LIMITS, minimum=1)


def _optional(json_type: str, title: str, help_text: str, *, section: str, **schema: Any) -> Param:
    return Param(None, type=["null", json_type], title=title, description_md=help_text, section=section, **schema)


def _flag(title: str, help_text: str) -> Param:
    return Param(default=False, type="boolean", title=title, description_md=help_text, section=_OPTIONS)
