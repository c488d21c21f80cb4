"""A catalog that notes what is asked of it, and can be out of order."""

from typing import ClassVar

from pyiceberg.catalog.sql import SqlCatalog

IMPLEMENTATION = f"{__name__}.CountingCatalog"


class CountingCatalog(SqlCatalog):
    """Named in a connection's extra as ``py-catalog-impl``."""

    loads: ClassVar[list[str]] = []
    fault: ClassVar[Exception | None] = None

    def load_table(self, identifier):
        self.loads.append(".".join(identifier))
        if self.fault is not None:
            raise self.fault
        return super().load_table(identifier)
