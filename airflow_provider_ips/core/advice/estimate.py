"""What a table would save: per day, what a lookback reads and what a capture would, and which capture fits.

``None`` is unknown, never zero: history that has expired, and files that say nothing about their dates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_ips.core.advice.checks import Finding
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings

CANDIDATES: Final = (
    CaptureSettings(),
    CaptureSettings(on_other_operation="skip_retention"),
    CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow", equality_deletes="carry"),
)
"""The captures that are tried, the simplest first: the first one that refuses no snapshot is recommended."""

FEW_DAYS: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsBetween:
    """A number of rows of which only the limits are known, because a file may hold rows of several days."""

    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DayEstimate:
    """One daily run. A volume is None if it is unknown."""

    day: str
    lookback: Volume | None
    capture: Volume | None
    late: RowsBetween | None = None
    """Captured rows of earlier days than the day on which they were committed."""

    missed: RowsBetween | None = None
    """Captured rows that are older than the lookback, which no run of it reads."""

    operations: Mapping[str, int] = field(default_factory=dict)
    is_over: bool = True
    note: str = ""

    @property
    def saving(self) -> float | None:
        """The share of bytes that a capture does not read."""
        read = None if self.lookback is None else self.lookback.size_bytes
        captured = None if self.capture is None else self.capture.size_bytes
        return None if not read or captured is None else 1 - captured / read

    def to_json(self) -> dict[str, Any]:
        return {
            "day": self.day,
            "lookback": None if self.lookback is None else self.lookback.to_json(),
            "capture": None if self.capture is None else self.capture.to_json(),
            "late_rows": None if self.late is None else [self.late.least, self.late.most],
            "missed_rows": None if self.missed is None else [self.missed.least, self.missed.most],
            "operations": dict(self.operations),
            "note": self.note,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """All days that are over and known, added up; today if there are no others."""

    days: int
    lookback: Volume
    capture: Volume
    late: RowsBetween | None
    missed: RowsBetween | None
    savings: tuple[float, ...]

    @classmethod
    def of(cls, days: Sequence[DayEstimate]) -> Totals:
        known = [day for day in days if day.lookback is not None and day.capture is not None]
        counted = [day for day in known if day.is_over] or known
        return cls(
            days=len(counted),
            lookback=Volume.total(day.lookback for day in counted if day.lookback is not None),
            capture=Volume.total(day.capture for day in counted if day.capture is not None),
            late=_added([day.late for day in counted]),
            missed=_added([day.missed for day in counted]),
            savings=tuple(sorted(day.saving for day in counted if day.saving is not None)),
        )

    @property
    def saving(self) -> float | None:
        """The share of bytes that captures do not read, over all days; below zero if they read more."""
        read, captured = self.lookback.size_bytes, self.capture.size_bytes
        return None if not read or captured is None else 1 - captured / read

    @property
    def usual_savings(self) -> tuple[float, float] | None:
        """Between which shares eight of ten days lie."""
        if not self.savings:
            return None
        cut = len(self.savings) // 10
        return self.savings[cut], self.savings[-1 - cut]

    def to_json(self) -> dict[str, Any]:
        usual = self.usual_savings
        return {
            "days": self.days,
            "lookback": self.lookback.to_json(),
            "capture": self.capture.to_json(),
            "late_rows": None if self.late is None else [self.late.least, self.late.most],
            "missed_rows": None if self.missed is None else [self.missed.least, self.missed.most],
            "saving": _rounded(self.saving),
            "usual_saving": None if usual is None else [_rounded(usual[0]), _rounded(usual[1])],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a lookback reads and what a capture would, day by day, with the capture that fits."""

    table: str
    branch: str
    column: str
    column_known_by: str
    lookback_days: int
    days: tuple[DayEstimate, ...]
    settings: CaptureSettings
    retention: Finding
    notes: tuple[str, ...] = ()
    iceberg_conn_id: str | None = None

    @property
    def totals(self) -> Totals:
        return Totals.of(self.days)

    @property
    def operations(self) -> Mapping[str, int]:
        """How many snapshots of each operation were seen."""
        return sum((Counter(day.operations) for day in self.days), Counter())

    @property
    def pattern(self) -> str:
        """Which pattern fits what was seen, in words."""
        if not self.operations:
            return "unknown: no snapshot of this time is retained"
        if self.settings.captures_changes:
            return "changes: merge by key, or re-aggregate the groups of the keys in both tables (row filter)"
        if self.totals.late is not None and self.totals.late.most:
            return "append or merge; to aggregate by day, the row filter, because rows come late"
        return "append or merge; to aggregate by day, the row filter or the range"

    @property
    def code(self) -> str:
        """The line to start with."""
        arguments = [f'task_id="capture", source_tables="{self.table}"']
        if self.branch != "main":
            arguments = [f'task_id="capture", source_tables=SourceTable("{self.table}", branch="{self.branch}")']
        if self.iceberg_conn_id is not None:
            arguments.append(f'iceberg_conn_id="{self.iceberg_conn_id}"')
        if self.settings.captures_changes:
            arguments.append(f"data_operations={list(self.settings.data_operations)}".replace("'", '"'))
            arguments.append(f'on_superset="{self.settings.on_superset}"')
        elif self.settings.on_other_operation != "fail":
            arguments.append(f'on_other_operation="{self.settings.on_other_operation}"')
        return f"IpCaptureOperator({', '.join(arguments)})"

    @property
    def verdict(self) -> str:
        """The expected saving and how sure it is, in words."""
        totals, usual = self.totals, self.totals.usual_savings
        if totals.saving is None or usual is None:
            return "the saving is unknown: no day has both figures, with bytes"
        if totals.saving <= 0:
            return f"a capture would read more than the lookback ({-totals.saving:.0%} more bytes): do not migrate"
        few = f"; a rough figure, from only {totals.days} days" if totals.days < FEW_DAYS else ""
        spread = f"between {usual[0]:.0%} and {usual[1]:.0%} on most of {totals.days} days"
        return f"a capture reads {totals.saving:.1%} fewer bytes than the lookback, {spread}{few}"

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "branch": self.branch,
            "column": self.column,
            "column_known_by": self.column_known_by,
            "lookback_days": self.lookback_days,
            "days": [day.to_json() for day in self.days],
            "total": self.totals.to_json(),
            "verdict": self.verdict,
            "operations": dict(self.operations),
            "data_operations": list(self.settings.data_operations),
            "on_other_operation": self.settings.on_other_operation,
            "pattern": self.pattern,
            "retention": {
                "status": self.retention.status.value,
                "finding": self.retention.finding,
                "remedy": self.retention.remedy,
            },
            "notes": list(self.notes),
            "code": self.code,
        }


def parse_days(name: str, value: object) -> int:
    """Read a number of days: ``"14d"``, ``"2w"`` or ``14``."""
    text = str(value).strip().lower()
    number, unit = (text[:-1], text[-1]) if text[-1:] in ("d", "w") else (text, "d")
    if isinstance(value, bool) or not (number.isascii() and number.isdigit()) or not 0 < int(number) <= 3660:  # noqa: PLR2004 - ten years
        raise InputError(
            f"{name}={value!r} is not a number of days",
            consequence="The window is not known",
            remedy=f'write it as "14d" or "2w", for example --{name} 14d',
        )
    return int(number) * (7 if unit == "w" else 1)


def _added(rows: Sequence[RowsBetween | None]) -> RowsBetween | None:
    known = [each for each in rows if each is not None]
    if len(known) != len(rows) or not rows:
        return None
    return RowsBetween(least=sum(each.least for each in known), most=sum(each.most for each in known))


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
