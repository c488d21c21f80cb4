"""What kind of table a history is about: drawn from its seed, before any step."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

PARTITIONINGS: Final = ("", "p", "p", "bucket(2, id)", "months(d)", "truncate(1, s)", "p, bucket(2, id)")
FLAVOURS: Final = ("appends", "appends", "lineage", "changes", "everything")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The table at its creation, and which steps its history is made of."""

    flavour: str
    format_version: int
    partitioning: str
    properties: tuple[tuple[str, str], ...]

    @classmethod
    def draw(cls, seed: int) -> Profile:
        rng = Random(f"profile {seed}")  # noqa: S311 - a reproducible history, no secret
        version = rng.choice((1, 2, 2, 3))
        mode = "copy-on-write" if version == 1 else rng.choice(("copy-on-write", "merge-on-read"))
        properties = {f"write.{what}.mode": mode for what in ("delete", "update", "merge")}
        properties["commit.manifest.min-count-to-merge"] = rng.choice(("2", "3", "100"))
        properties["commit.manifest-merge.enabled"] = rng.choice(("true", "true", "false"))
        properties["write.delete.granularity"] = rng.choice(("file", "partition"))
        return cls(
            flavour=rng.choice(FLAVOURS),
            format_version=version,
            partitioning=rng.choice(PARTITIONINGS),
            properties=tuple(properties.items()),
        )

    def ddl_in(self, format_version: int) -> str:
        """The part of CREATE TABLE behind its columns."""
        by = f"partitioned by ({self.partitioning})" if self.partitioning else ""
        pairs = [f"'{key}'='{value}'" for key, value in self.properties]
        return f"using iceberg {by} tblproperties ('format-version'='{format_version}', {', '.join(pairs)})"
