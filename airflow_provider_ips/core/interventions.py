"""Who moved a checkpoint by hand: kept in the document itself, for an audit log is elsewhere and may be purged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from airflow_provider_ips.core.documents import number_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_INTERVENTIONS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """One command that changed the document. ``revision`` is what it wrote."""

    at_ms: int
    who: str
    verb: str
    revision: int

    def to_json(self) -> dict[str, Any]:
        """As the document holds it."""
        return {"at_ms": self.at_ms, "who": self.who, "verb": self.verb, "revision": self.revision}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Parse what :meth:`to_json` wrote."""
        return cls(
            at_ms=number_of(raw, "at_ms"),
            who=text_of(raw, "who"),
            verb=text_of(raw, "verb"),
            revision=number_of(raw, "revision"),
        )
